# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks measure, in one form for tables, charts, verdicts and the documentation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Self

OURS, NOVA, FLOOR, ECHO, LIBVIRT = "ours", "nova", "floor", "echo", "libvirt"
Case = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured, turn by turn: who does what in which case, in which unit.

    facts are what else is to be known, such as whether Nova chose the same hosts.
    """

    what: str
    who: str
    unit: str
    turns: Sequence[float]
    case: Case = field(default_factory=dict)
    facts: Case = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The turn in the middle."""
        return median(self.turns)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between these lies the middle half of the turns."""
        if len(self.turns) == 1:
            return self.turns[0], self.turns[0]
        low, _, high = quantiles(self.turns, n=4, method="inclusive")
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """Return what is written down."""
        return {
            "what": self.what,
            "who": self.who,
            "unit": self.unit,
            "case": dict(self.case),
            "median": self.median,
            "quartiles": list(self.quartiles),
            "least": min(self.turns),
            "most": max(self.turns),
            "turns": list(self.turns),
            "facts": dict(self.facts),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return what was written down."""
        return cls(
            **{name: found[name] for name in ("what", "who", "unit", "turns", "case", "facts")}
        )


@dataclass(frozen=True, slots=True)
class Ratio:
    """How often what we take goes into what somebody else takes for the same, or the other way.

    other is who; turns are those of both, one by one, or the medians where their numbers differ.
    """

    what: str
    other: str
    case: Case
    turns: Sequence[float]

    @property
    def median(self) -> float:
        """The turn in the middle."""
        return median(self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Return what is written down: others' through ours."""
        return {
            "what": self.what,
            "other": self.other,
            "case": dict(self.case),
            "median": self.median,
            "least": min(self.turns),
            "most": max(self.turns),
        }


def ratios(figures: Iterable[Figure]) -> Iterator[Ratio]:
    """Yield others' figures through ours, for all that both have done in the same case."""
    figures = list(figures)
    ours = {_key(each): each for each in figures if each.who == OURS}
    for each in figures:
        mine = ours.get(_key(each))
        if each.who == OURS or mine is None or not mine.median:
            continue
        turns = [each.median / mine.median]
        if len(each.turns) == len(mine.turns) and all(mine.turns):
            turns = [other / one for other, one in zip(each.turns, mine.turns, strict=True)]
        yield Ratio(each.what, each.who, each.case, turns)


def find(figures: Iterable[Figure], what: str, who: str = OURS, **case: Any) -> Figure | None:
    """Return the figure of a case, of which only what matters need be named; the first of many."""
    for each in figures:
        if (each.what, each.who) == (what, who) and case.items() <= each.case.items():
            return each
    return None


def _key(figure: Figure) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    return figure.what, figure.unit, tuple(sorted(figure.case.items()))
