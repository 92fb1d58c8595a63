# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What came out, as a table and a plot of the documentation."""

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas

from benchmarks.chart import STYLE
from benchmarks.figures import NOVA, Figure
from benchmarks.packing.runs import EMPTY, FLAVOR, LATER, LOADS, TIGHTEST
from benchmarks.tables import HEADER
from benchmarks.tables import table as rst_table

_AT = [f"at {100 * load:.0f} % load" for load in LOADS]
_HEADS = (
    "fleet",
    "weighers",
    "in use when one is refused",
    "below the best",
    "hosts empty",
    "largest flavor",
    "in use after departures",
)
# Those that come later are drawn above the others. Told apart by form and lightness besides.
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "spread": {"color": "#999999", "marker": "v"},
    "alignment": {"color": "#CC79A7", "marker": "s"},
    "alignment + stack": {"color": "#E69F00", "marker": "D"},
    "stack": {"color": "#D55E00", "marker": "^"},
    "flavor mix": {"color": "#0072B2", "marker": "o"},
}
Row = Mapping[str, Figure]


def rows_of(figures: Sequence[Figure]) -> dict[str, dict[tuple[str, str], Row]]:
    """Return what was found by fleet, by who chose and with which weighers, and by name."""
    found: dict[str, dict[tuple[str, str], dict[str, Figure]]] = {}
    for each in figures:
        of_fleet = found.setdefault(each.case["fleet"], {})
        of_fleet.setdefault((each.who, each.case["strategy"]), {})[each.what] = each
    return dict(found)


def table(figures: Sequence[Figure]) -> str:
    """Return the table, as a file that a page includes."""
    rows = [
        (fleet if place == 0 else "", *cells)
        for fleet, found in rows_of(figures).items()
        for place, cells in enumerate(_fleet(found))
    ]
    return f"{HEADER}\n{rst_table(_HEADS, rows)}"


def _fleet(rows: Mapping[tuple[str, str], Row]) -> Iterator[tuple[str, ...]]:
    # Nova had fewer runs.
    best = max(row[TIGHTEST].median for (who, _), row in rows.items() if who != NOVA)
    order = sorted(rows, key=lambda key: (-rows[key][TIGHTEST].median, key[0] == NOVA))
    for who, strategy in order:
        row = rows[who, strategy]
        used = row[TIGHTEST]
        same = used.facts.get("runs in which we choose the same hosts")
        beside = "" if same is None else f", the same hosts in {same} of {len(used.turns)}"
        yield (
            f"Nova's {strategy}{beside}" if who == NOVA else strategy,
            f"{used.median:.1f} ({min(used.turns):.1f} to {max(used.turns):.1f})",
            "" if who == NOVA else f"{best - used.median:.1f}",
            ", ".join(_number(row.get(f"{EMPTY} {at}")) for at in _AT),
            ", ".join(_number(row.get(f"{FLAVOR} {at}")) for at in _AT),
            _number(row.get(f"{TIGHTEST} {LATER}"), 1),
        )


def _number(figure: Figure | None, digits: int = 0) -> str:
    """Return a median, with a star if not all runs have come so far."""
    if figure is None:
        return "-"
    mark = "\\*" if len(figure.turns) < figure.facts["runs"] else ""
    return f"{figure.median:.{digits}f}{mark}"


def chart(figures: Sequence[Figure]) -> str:
    """Return how full each fleet is when an instance is refused, as a plot in SVG."""
    fleets = rows_of(figures)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        canvas = Canvas(figsize=(8.5, 5.2), facecolor="white", layout="constrained")
        axes = canvas.add_subplot()
        for strategy, looks in _LOOKS.items():
            points = [
                (row[TIGHTEST].median, place)
                for place, rows in enumerate(fleets.values())
                for (who, name), row in rows.items()
                if who != NOVA and name == strategy
            ]
            across, down = zip(*points, strict=True)
            axes.plot(across, down, linestyle="", markersize=9, label=strategy, **looks)
        axes.set_yticks(range(len(fleets)), [*fleets])
        axes.invert_yaxis()
        axes.set(xlabel="per cent of the tightest resource in use when an instance is refused")
        axes.grid(color="#DDDDDD")
        axes.set_axisbelow(True)
        canvas.legend(loc="outside upper center", ncols=len(_LOOKS), frameon=False)
        written = StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return written.getvalue()
