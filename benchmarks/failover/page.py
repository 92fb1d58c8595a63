# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What came out, as a table and a plot of the documentation."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas

from benchmarks.chart import STYLE
from benchmarks.figures import Figure
from benchmarks.tables import HEADER
from benchmarks.tables import table as rst_table

ADMITTED = "protected instances admitted"
SHARED, SPARE = "shared standbys", "a rack of spare hosts"
PERCENTAGE, SLOTS = "smallest safe percentage", "slots"
OWN = "a standby for each, not shared"
# Told apart by form and lightness besides.
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    OWN: {"color": "#999999", "marker": "v"},
    SLOTS: {"color": "#CC79A7", "marker": "s"},
    PERCENTAGE: {"color": "#E69F00", "marker": "D"},
    SPARE: {"color": "#D55E00", "marker": "^"},
    SHARED: {"color": "#0072B2", "marker": "o"},
}


def _by_fleet(figures: Sequence[Figure]) -> dict[str, dict[str, Figure]]:
    found: dict[str, dict[str, Figure]] = {}
    for each in figures:
        found.setdefault(each.case["fleet"], {})[each.case["policy"]] = each
    return found


def table(figures: Sequence[Figure]) -> str:
    """Return the table, as a file that a page includes."""
    rows = []
    for fleet, found in _by_fleet(figures).items():
        cells = [f"{found[policy].median:,.0f}" for policy in reversed(_LOOKS)]
        kept = found[PERCENTAGE].facts["per cent kept free"]
        cells[[*reversed(_LOOKS)].index(PERCENTAGE)] += f" ({kept} %)"
        rows.append((fleet, *cells))
    return f"{HEADER}\n{rst_table(('fleet', *reversed(_LOOKS)), rows)}"


def chart(figures: Sequence[Figure]) -> str:
    """Return how many instances are admitted through those with shared standbys, in SVG."""
    fleets = _by_fleet(figures)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        canvas = Canvas(figsize=(8.5, 5.2), facecolor="white", layout="constrained")
        axes = canvas.add_subplot()
        for policy, looks in _LOOKS.items():
            across = [
                100 * found[policy].median / found[SHARED].median for found in fleets.values()
            ]
            down = range(len(fleets))
            axes.plot(across, down, linestyle="", markersize=9, label=policy, **looks)
        axes.set_yticks(range(len(fleets)), [*fleets])
        axes.invert_yaxis()
        axes.set(xlabel="protected instances admitted, per cent of those with shared standbys")
        axes.grid(color="#DDDDDD")
        axes.set_axisbelow(True)
        canvas.legend(loc="outside upper center", ncols=3, frameon=False)
        written = StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return written.getvalue()
