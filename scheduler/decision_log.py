# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the log says of decisions: one line for each, and each complaint of a plug-in once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic

from oslo_log import log

from scheduler.decision.outcome import Decision, Shortage
from scheduler.objects.selection import Selection

LOG = log.getLogger(__name__)
MOST_WARNINGS = 1000


@dataclass(slots=True)
class Course:
    """How a request went: when it began, how often others were faster, on how old a view."""

    instance_uuids: Sequence[str | None]
    began: float
    conflicts: int = 0
    view_age: float = 0.0

    def report(self, decision: Decision) -> None:
        """Write the line of a decision."""
        if decision.shortage:
            LOG.info("No valid host for %s: %s", self, _where(decision))
            return
        if not decision.placements:
            LOG.info("Selected nothing for %s, as the driver does", self)
            return
        steps = " ".join(map(str, decision.placements[0].steps)) or "no filters"
        hosts = [placement.chosen.host for placement in decision.placements]
        LOG.info("Selected %s for %s: %s", _some(hosts), self, steps)

    def report_repeated(self, answer: Sequence[Sequence[Selection]]) -> None:
        """Write the line of a request that was answered before."""
        hosts = [selections[0].service_host for selections in answer]
        LOG.info("Selected %s for %s: the same request was answered before", _some(hosts), self)

    def report_given_up(self) -> None:
        """Write the line of a request that lost every race."""
        LOG.warning(
            "No valid host for %s: others took the chosen hosts each time; more [claims] attempts"
            " or fewer requests at a time would help",
            self,
        )

    def __str__(self) -> str:
        first, count = self.instance_uuids[0], len(self.instance_uuids)
        of = f"{count} instances from {first}" if count > 1 else f"instance {first}"
        lost = f" after {self.conflicts} conflicts" if self.conflicts else ""
        milliseconds = 1000 * (monotonic() - self.began)
        return f"{of} in {milliseconds:.1f} ms{lost} (view {self.view_age:.1f} s old)"


class Complaints:
    """What plug-ins complain about, each complaint once in the life of the process."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, warnings: Iterable[str]) -> None:
        """Log the warnings of a decision that are new."""
        for warning in warnings:
            if warning not in self._said and len(self._said) < MOST_WARNINGS:
                self._said.add(warning)
                LOG.warning("%s", warning)


def _some(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:10]) + (", ..." if len(hosts) > 10 else "")


def _where(decision: Decision) -> str:
    shortage: Shortage | None = decision.shortage
    if not decision.hosts or shortage is None:
        return "no compute node has reported yet; is berthmaster-agent running on the hosts?"
    steps = " ".join(map(str, shortage.steps)) or f"{decision.hosts} hosts, none of them usable"
    return f"instance {shortage.index + 1} found none of {decision.hosts} hosts: {steps}"
