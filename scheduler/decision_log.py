# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the log says of decisions: one line for each, and each complaint of a plug-in once."""

import time
from collections.abc import Callable, Sequence

from oslo_log import log

from scheduler import course
from scheduler.course import Course
from scheduler.decision.outcome import Decision

LOG = log.getLogger(__name__)
# So many different warnings are written in so many seconds, lest a plug-in that fails in another
# way for each request fills the disk.
MAX_WARNINGS = 1000
PERIOD = 3600.0


class DecisionLog:
    """A witness that writes down what it sees."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: set[str] = set()
        self._since = clock()

    def ended(self, ended: Course) -> None:
        """Write the line of a request, and the warnings of its decision that are new."""
        if ended.decision is not None:
            self._say(ended.decision.warnings)
        write = _LINES.get(ended.outcome)
        if write is not None:
            write(ended)

    def _say(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if warning not in self._said and self._has_room():
                self._said.add(warning)
                LOG.warning("%s", warning)
                if len(self._said) == MAX_WARNINGS:
                    LOG.warning(
                        "%s different warnings of plug-ins: further ones are left out for up to"
                        " %g s",
                        MAX_WARNINGS,
                        PERIOD,
                    )

    def _has_room(self) -> bool:
        """Tell whether a new warning is written; forget the old ones where they are too many."""
        if len(self._said) < MAX_WARNINGS:
            return True
        now = self._clock()
        if now - self._since < PERIOD:
            return False
        self._said.clear()
        self._since = now
        return True


def _write_placed(ended: Course) -> None:
    placements = ended.decision.placements if ended.decision else ()
    steps = " ".join(map(str, placements[0].steps)) or "no filters"
    hosts = [placement.chosen.host for placement in placements]
    LOG.info("Selected %s for %s: %s", _some(hosts), _what(ended), steps)


def _write_refused(ended: Course) -> None:
    if ended.decision is not None:
        LOG.info("No valid host for %s: %s", _what(ended), _where(ended.decision))


def _write_nothing(ended: Course) -> None:
    LOG.info("Selected nothing for %s, as the driver does", _what(ended))


def _write_repeated(ended: Course) -> None:
    hosts = [selections[0].service_host for selections in ended.answer]
    LOG.info("Selected %s for %s: the same request was answered before", _some(hosts), _what(ended))


def _write_given_up(ended: Course) -> None:
    LOG.warning(
        "No valid host for %s: others took the chosen hosts each time; more [claims] attempts"
        " or fewer requests at a time would help",
        _what(ended),
    )


# Who cannot be answered hears why, and the endpoint says the rest.
_LINES = {
    course.PLACED: _write_placed,
    course.REFUSED: _write_refused,
    course.NOTHING: _write_nothing,
    course.REPEATED: _write_repeated,
    course.GIVEN_UP: _write_given_up,
}


def _what(ended: Course) -> str:
    first, count = ended.instance_uuids[0], len(ended.instance_uuids)
    of = f"{count} instances from {first}" if count > 1 else f"instance {first}"
    lost = f" after {ended.conflicts} conflicts" if ended.conflicts else ""
    return f"{of} in {1000 * ended.total:.1f} ms{lost} (view {ended.view_age:.1f} s old)"


def _some(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:10]) + (", ..." if len(hosts) > 10 else "")


def _where(decision: Decision) -> str:
    shortage = decision.shortage
    if not decision.hosts or shortage is None:
        return "no compute node has reported yet; is berthmaster-agent running on the hosts?"
    steps = " ".join(map(str, shortage.steps)) or f"{decision.hosts} hosts, none of them usable"
    return f"instance {shortage.index + 1} found none of {decision.hosts} hosts: {steps}"
