# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What came out, as tables that people read: one for each fleet, who fills it most comes first."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.figures import NOVA, OURS, Figure
from benchmarks.packing.runs import EMPTY, FLAVOR, INSTANCE, LATER, LOADS, RAM, VCPUS

_AT = [f"at {100 * load:.0f} % load" for load in LOADS]
# The columns, each with its width and digits.
_COLUMNS = (
    (VCPUS, 8, 1),
    (RAM, 8, 1),
    *((f"{EMPTY} {at}", 6, 0) for at in _AT),
    *((f"{INSTANCE} {at}", 7, 0) for at in _AT),
    (f"{FLAVOR} {_AT[-1]}", 10, 0),
    (f"{EMPTY} {LATER}", 8, 0),
    (f"{INSTANCE} {LATER}", 9, 0),
    (f"{VCPUS} {LATER}", 8, 1),
    (f"{RAM} {LATER}", 8, 1),
)
_HEADS = (
    "when one is refused  hosts empty at    largest instance at  flavor at   after departures and"
    " arrivals",
    "vCPUs %  RAM %    60 %  75 %  85 %   60 %   75 %   85 %     85 %   empty instance vCPUs %"
    "  RAM %",
)
Row = dict[str, Figure]


def report(figures: Sequence[Figure]) -> str:
    """Return medians, and a word on each fleet; GB of RAM are those of the largest that fits."""
    fleets = dict.fromkeys(each.case["fleet"] for each in figures)
    lines = [line for each in fleets for line in _fleet(each, figures)]
    return "\n".join(
        [*lines, "* Only in some of the runs; in the others it came to a refusal before."]
    )


def _fleet(fleet: str, figures: Iterable[Figure]) -> Iterator[str]:
    rows: dict[tuple[str, str], Row] = {}
    for each in figures:
        if each.case["fleet"] == fleet:
            rows.setdefault((each.who, each.case["strategy"]), {})[each.what] = each
    best = sorted(rows, key=lambda row: _in_use(rows[row]), reverse=True)
    facts = rows[best[0]][VCPUS].facts
    yield f"{fleet}: {facts['hosts']} hosts, medians of {facts['runs']} runs, GB of RAM"
    yield from (f"{'':24}{head}" for head in _HEADS)
    for who, strategy in best:
        cells = (_cell(rows[who, strategy].get(what), *form) for what, *form in _COLUMNS)
        yield f"{who:5} {strategy:18}" + "".join(cells).rstrip()
    yield from _words(rows, best)
    yield ""


def _cell(figure: Figure | None, width: int, digits: int) -> str:
    if figure is None:
        return f"{'-':>{width - 1}} "
    mark = "*" if len(figure.turns) < figure.facts["runs"] else " "
    return f"{figure.median:{width - 1}.{digits}f}{mark}"


def _in_use(row: Row) -> float:
    """Return the mean of the shares of vCPUs and RAM that are in use at the first refusal."""
    return (row[VCPUS].median + row[RAM].median) / 2


def _words(rows: dict[tuple[str, str], Row], best: Sequence[tuple[str, str]]) -> Iterator[str]:
    (_, ours), (_, novas) = (next(row for row in best if row[0] == who) for who in (OURS, NOVA))
    more = round(_in_use(rows[OURS, ours]) - _in_use(rows[NOVA, novas]), 1)
    beside = (
        f"ours is {abs(more)} points {'above' if more > 0 else 'BELOW'}" if more else "both alike"
    )
    yield f"The most in use: ours with {ours}, Nova's with {novas}: {beside}."
    for who, strategy in best:
        if who == NOVA:
            facts = rows[who, strategy][VCPUS].facts
            same = facts["runs in which we choose the same hosts"]
            yield f"Nova's {strategy}: the same hosts as ours in {same} of {facts['runs']} runs."
