# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What benchmarks measure, in one form for tables, charts, verdicts and the documentation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Self

OURS, NOVA, FLOOR, ECHO, LIBVIRT = "ours", "nova", "floor", "echo", "libvirt"
# An exact solver, and what nobody can do better than.
EXACT, BOUND = "cp-sat", "bound"
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
        return middle_half(self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Return what is written down."""
        return {
            "what": self.what,
            "who": self.who,
            "unit": self.unit,
            "case": dict(self.case),
            **_spread(self),
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
    """What somebody else takes, divided by what we take for the same, or the other way round.

    other is who; median is the quotient of the two medians; turns are divided one by one where both
    have as many, to show the spread.
    """

    what: str
    other: str
    case: Case
    median: float
    turns: Sequence[float]

    @classmethod
    def of(cls, one: Figure, other: Figure) -> Self:
        """Return one figure divided by another, whose median must not be 0."""
        turns = [one.median / other.median]
        if len(one.turns) == len(other.turns) and all(other.turns):
            turns = [each / less for each, less in zip(one.turns, other.turns, strict=True)]
        return cls(one.what, one.who, one.case, one.median / other.median, turns)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between these lies the middle half of the turns."""
        return middle_half(self.turns)

    def to_dict(self) -> dict[str, Any]:
        """Return what is written down: others' divided by ours."""
        return {"what": self.what, "other": self.other, "case": dict(self.case), **_spread(self)}


def ratios(figures: Iterable[Figure]) -> Iterator[Ratio]:
    """Yield others' figures divided by ours, for all that both have done in the same case."""
    figures = list(figures)
    ours = {_key(each): each for each in figures if each.who == OURS}
    for each in figures:
        mine = ours.get(_key(each))
        if each.who == OURS or mine is None or not mine.median:
            continue
        yield Ratio.of(each, mine)


def find(figures: Iterable[Figure], what: str, who: str = OURS, **case: Any) -> Figure | None:
    """Return the figure of a case, of which only what matters need be named; the first of many."""
    for each in figures:
        if (each.what, each.who) == (what, who) and case.items() <= each.case.items():
            return each
    return None


def middle_half(turns: Sequence[float]) -> tuple[float, float]:
    """Return the values between which the middle half of some turns lies."""
    if len(turns) == 1:
        return turns[0], turns[0]
    low, _, high = quantiles(turns, n=4, method="inclusive")
    return low, high


def in_words(case: Case) -> str:
    """Return a case as people write it."""
    return ", ".join(f"{name.replace('_', ' ')} {in_word(each)}" for name, each in case.items())


def in_word(value: object) -> str:
    """Return a value of a case as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(value) if isinstance(value, int | float) else str(value)


def plain(number: float) -> str:
    """Return a number as people write it, with three digits that count at least."""
    if abs(number) >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.3g}"


def _spread(found: Figure | Ratio) -> dict[str, Any]:
    return {
        "median": found.median,
        "quartiles": list(found.quartiles),
        "least": min(found.turns),
        "most": max(found.turns),
    }


def _key(figure: Figure) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
    return figure.what, figure.unit, tuple(sorted(figure.case.items()))
