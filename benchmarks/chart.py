# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Charts of what a decision costs against hosts and against instances: ours, Nova's, the floor.

The same figures give the same file.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from benchmarks.document import LATEST, Document, Unreadable, replace
from benchmarks.figures import FLOOR, NOVA, OURS, Figure

# Told apart by form and lightness besides: not everybody sees all colours (Okabe and Ito).
LOOKS: Mapping[str, Mapping[str, Any]] = {
    NOVA: {"label": "Nova", "color": "#D55E00", "marker": "s", "linestyle": "-"},
    OURS: {"label": "Berthmaster", "color": "#0072B2", "marker": "o", "linestyle": "-"},
    FLOOR: {"label": "numpy floor", "color": "#555555", "marker": "^", "linestyle": "--"},
}
STYLE = {
    "svg.hashsalt": "berthmaster",
    # Text stays text: any reader's fonts will do, and it can be searched.
    "svg.fonttype": "none",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
SHOWN = {"weighing": "spread", "grouped": 0, "aggregate_sets": 40}


@dataclass(frozen=True, slots=True)
class Kind:
    """A chart: along which key of a case costs are shown, at one value of which other key."""

    along: str
    other: str


KINDS = (Kind("hosts", "instances"), Kind("instances", "hosts"))


def chart(kind: Kind, figures: Sequence[Figure]) -> str | None:
    """Return a chart as SVG, None where there is nothing to compare."""
    shown = [each for each in figures if each.what == "decide" and _is_shown(each)]
    at = _at(kind, shown)
    points = [each for each in shown if each.case[kind.other] == at]
    if len({each.case[kind.along] for each in points}) < 2:
        return None
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        canvas = Canvas(figsize=(7.5, 4.8), facecolor="white", layout="constrained")
        axes = canvas.add_subplot()
        for who, looks in LOOKS.items():
            _line(axes, kind, [each for each in points if each.who == who], looks)
        _dress(axes, kind, at)
        written = StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return written.getvalue()


def _is_shown(figure: Figure) -> bool:
    """Tell whether nothing is special about a figure's case."""
    rest = {name: each for name, each in figure.case.items() if name not in ("hosts", "instances")}
    return rest == SHOWN


def _at(kind: Kind, figures: Sequence[Figure]) -> Any:
    """Return the value of the other key that has most points, the smallest of several."""
    points = {(each.case[kind.other], each.case[kind.along]) for each in figures}
    values = sorted({value for value, _ in points})
    return max(values, key=lambda value: sum(each == value for each, _ in points), default=None)


def _line(axes: Axes, kind: Kind, figures: Sequence[Figure], looks: Mapping[str, Any]) -> None:
    if not figures:
        return
    ordered = sorted(figures, key=lambda each: each.case[kind.along])
    along = [each.case[kind.along] for each in ordered]
    axes.plot(along, [each.median for each in ordered], linewidth=2, markersize=6, **looks)
    halves = [each.quartiles for each in ordered]
    low, high = zip(*halves, strict=True)
    axes.fill_between(along, low, high, color=looks["color"], alpha=0.2, linewidth=0)


def _dress(axes: Axes, kind: Kind, at: Any) -> None:
    axes.set(xscale="log", yscale="log", xlabel=kind.along, ylabel="milliseconds of one processor")
    axes.set_title(f"One decision against {kind.along} ({kind.other}: {at:,})", loc="left")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.grid(which="major", color="#DDDDDD")
    axes.set_axisbelow(True)
    axes.legend(frameon=False)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.chart", description=__doc__)
    parser.add_argument("json", nargs="?", type=Path, default=LATEST)
    parser.add_argument("--into", type=Path, metavar="DIR", help="Default: beside the JSON.")
    asked = parser.parse_args(arguments)
    try:
        found = Document.read(asked.json)
    except Unreadable as unreadable:
        print(unreadable, file=sys.stderr)
        return 2
    into = asked.into or asked.json.parent
    for kind in KINDS:
        drawn = chart(kind, found.figures)
        if drawn is None:
            print(f"{kind.along}: no chart, decisions were not measured in several cases")
            continue
        into.mkdir(parents=True, exist_ok=True)
        path = into / f"{asked.json.stem}-{kind.along}.svg"
        replace(path, drawn)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
