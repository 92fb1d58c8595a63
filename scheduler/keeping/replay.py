# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What another driver would have decided, instance by instance, and why."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler.decision.explaining import Explanation, Extent, Verdict, explain
from scheduler.decision.outcome import Candidate, Decision
from scheduler.drivers import BaseDriver
from scheduler.keeping.recalled import Recalled

# To say why takes some decisions more for each instance.
MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class Change:
    """An instance and the hosts on which it was placed and would be, None for no host at all.

    A host has its node behind it, in brackets, where that is called otherwise. why says what is in
    the way of the host that was chosen, for the first instances that would go elsewhere.
    """

    instance_uuid: str | None
    kept: str | None
    now: str | None
    why: str = ""

    @property
    def is_same(self) -> bool:
        """Tell whether nothing would change."""
        return self.kept == self.now


class Comparison:
    """A kept decision beside what a driver decides on the same hosts; raises Lost without them."""

    def __init__(self, recalled: Recalled, driver: BaseDriver) -> None:
        self.recalled = recalled
        self.decision = recalled.again(driver)
        self._driver = driver

    @property
    def is_same(self) -> bool:
        """Tell whether it is the same decision, to the last bit."""
        return self.recalled.is_same(self.decision)

    def changes(self) -> Iterator[Change]:
        """Yield for each instance what became of it and what would become of it now."""
        before, after = _chosen(self.recalled.record.decision), _chosen(self.decision)
        reasons = 0
        for index, uuid in enumerate(self.recalled.record.request.instance_uuids):
            kept = before.get(index)
            change = Change(uuid, _called(kept), _called(after.get(index)))
            if not change.is_same and kept is not None and reasons < MOST_REASONS:
                reasons += 1
                change = replace(change, why=self._why(index, kept))
            yield change

    def _why(self, index: int, kept: Candidate) -> str:
        """Say what is in the way of the host that was chosen, or of the request as a whole."""
        shortage = self.decision.shortage
        if shortage is not None:
            steps = ", ".join(map(str, shortage.steps))
            return f"there is no host for instance {shortage.index + 1}: {steps}"
        request = self.recalled.record.request
        extent = Extent(only=[kept.host])
        found = explain(self.recalled.table(), request, self._driver, index, extent)
        place = (kept.host, kept.nodename)
        (verdict,) = (each for each in found.verdicts if (each.host, each.nodename) == place)
        return _reason(verdict, found)


def _reason(verdict: Verdict, found: Explanation) -> str:
    name = _named(verdict.host, verdict.nodename)
    if verdict.refusals:
        told = (f"{each.filter}: {each.reason}" for each in verdict.refusals)
        return f"{name} is refused: {', '.join(told)}"
    if not found.drawn_from:
        return f"{name} passes all filters, and the driver has a choice of its own"
    place = f"{name} is number {verdict.rank} of {found.passing} hosts"
    here, there = _weight(verdict), _weight(next(each for each in found.verdicts if each.chosen))
    return f"{place}, with weight {here:.3f} to {there:.3f}"


def _weight(verdict: Verdict) -> float:
    # Adding zero turns -0.0, which a negative multiplier makes of 0, into 0.0.
    return verdict.weighed.total + 0.0 if verdict.weighed else 0.0


def _chosen(decision: Decision) -> dict[int, Candidate]:
    """Return the hosts by the place of their instance in the request; none where it failed."""
    return {index: each.chosen for index, each in enumerate(decision.placements)}


def _called(chosen: Candidate | None) -> str | None:
    return None if chosen is None else _named(chosen.host, chosen.nodename)


def _named(host: str, nodename: str) -> str:
    return host if host == nodename else f"{host} ({nodename})"
