# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The table of the page about sizing: what a request costs each daemon, by how many serve."""

from collections.abc import Iterator

from benchmarks.document import Document
from benchmarks.figures import Figure, find, plain
from benchmarks.tables import table

RATE = "select, rate"
HEADS = (
    *("claims", "schedulers", "workers of each", "requests a second", "median, ms"),
    *("lost claims in 1,000", "scheduler, ms", "database, ms", "broker, ms"),
)


def report(found: Document) -> str:
    """Return the table, with a row for each way to serve calls for one instance on threads."""
    return table(HEADS, [*_rows(found.figures)]) if found.figures else ""


def _rows(figures: list[Figure]) -> Iterator[list[str]]:
    served = [each for each in figures if each.what == RATE and _counts(each)]
    order = ("claims", "schedulers", "workers")
    for each in sorted(served, key=lambda one: [one.case[name] for name in order]):
        case = dict(each.case)

        def median(what: str, case: dict[str, object] = case) -> str:
            other = find(figures, what, **case)
            return plain(other.median) if other else ""

        yield [
            "yes" if case["claims"] else "no",
            *(plain(case[name]) for name in order[1:]),
            *map(median, (RATE, "select", "conflicts", "select, processor")),
            *(median(f"select, processor of the {name}") for name in ("database", "broker")),
        ]


def _counts(figure: Figure) -> bool:
    case = figure.case
    return figure.who == "ours" and case.get("backend") == "threading" and case["instances"] == 1
