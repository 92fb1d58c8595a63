# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which of the figures to reach hold in what the benchmarks have found, and why others do not.

The status is 0 whatever holds, 1 with --strict if something does not, 2 if there is no such file.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.document import LATEST, Document, Unreadable
from benchmarks.figures import Figure, Ratio, find, in_words, plain
from benchmarks.limits import LIMITS, Limit

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not measured in this run"
HEADS = ("figure", "to reach", "found", "half of the turns", "verdict")


@dataclass(frozen=True, slots=True)
class Row:
    """A figure to reach, and what was found: the median and the quartiles, or nothing."""

    about: str
    limit: str
    verdict: str
    note: str
    found: float | None = None
    quartiles: tuple[float, float] | None = None

    @property
    def cells(self) -> Sequence[str]:
        """What is said under HEADS."""
        if self.found is None or self.quartiles is None:
            return self.about, self.limit, "", "", self.verdict
        half = " to ".join(map(plain, self.quartiles))
        return self.about, self.limit, plain(self.found), half, self.verdict


def rows(figures: Sequence[Figure], limits: Sequence[Limit] = LIMITS) -> list[Row]:
    """Return what is to be said of each limit."""
    return [_row(each, figures) for each in limits]


def _row(limit: Limit, figures: Sequence[Figure]) -> Row:
    found = sorted(_found(limit, figures), key=lambda each: each.median)
    if not found:
        return Row(limit.about, limit.text, UNKNOWN, limit.note)
    one = found[0 if limit.at_least != limit.best else -1]
    holds = limit.held_by(one.median)
    notes = [limit.note] if limit.note else []
    if len(found) > 1:
        which = "best" if limit.best else "worst"
        notes.append(f"This is the {which} of {len(found)} cases: {in_words(one.case)}.")
    if limit.reason and not holds:
        notes.append(limit.reason)
    verdict = HOLDS if holds else FAILS
    return Row(limit.about, limit.text, verdict, " ".join(notes), one.median, one.quartiles)


def _found(limit: Limit, figures: Sequence[Figure]) -> Iterator[Figure | Ratio]:
    """Yield each figure that a limit is about, divided if it is to be."""
    sought = limit.what, limit.who, limit.unit
    some = [each for each in figures if (each.what, each.who, each.unit) == sought]
    # A case may be told from others by what is not said of it.
    exact = [each for each in some if each.case == limit.case]
    for each in exact or [each for each in some if limit.case.items() <= each.case.items()]:
        if not limit.beside:
            yield each
            continue
        other = find(figures, each.what, limit.beside.who, **{**each.case, **limit.beside.case})
        if other and other.median:
            yield Ratio.of(each, other)


def report(found: Sequence[Row], about: Document) -> str:
    """Return a table, and below it what is to be known of some rows."""
    lines = [HEADS, *(each.cells for each in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    kind = "a quick look of " if about.quick else ""
    printed = [f"{kind}{about.when}, {about.versions.get('Berthmaster')}"]
    for line in lines:
        cells = [f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)]
        printed.append("  ".join(cells).rstrip())
    printed += [f"{each.about}: {each.note}" for each in found if each.note]
    printed += [
        f"{name} failed: {part.failed}" for name, part in about.parts.items() if part.failed
    ]
    return "\n".join(printed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.check", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=LATEST)
    parser.add_argument("--strict", action="store_true", help="Status 1 if one does not hold.")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    asked = parser.parse_args(arguments)
    try:
        document = Document.read(asked.file)
    except Unreadable as unreadable:
        print(unreadable, file=sys.stderr)
        return 2
    found = rows(document.figures)
    if asked.format == "json":
        print(json.dumps([asdict(each) for each in found], indent=1))
    else:
        print(report(found, document))
    return 1 if asked.strict and any(each.verdict == FAILS for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
