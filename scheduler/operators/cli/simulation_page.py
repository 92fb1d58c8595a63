# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a simulation: its table, and plots of how the fleet was used over time.

One file of HTML without scripts, which loads nothing from anywhere.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from typing import Any, NamedTuple

from inventory.errors import OperationRefused
from scheduler.operators.cli.simulation_summary import Document, heading, summary

Measure = Callable[[Mapping[str, Any]], float]
# Of a sample.
_MEASURES: Mapping[str, Measure] = {
    "vCPUs in use, %": lambda sample: 100 * sample["usage"]["used"]["vcpus"],
    "Memory in use, %": lambda sample: 100 * sample["usage"]["used"]["memory"],
    "Disk in use, %": lambda sample: 100 * sample["usage"]["used"]["disk"],
    "Memory stranded, %": lambda sample: 100 * sample["usage"]["stranded"]["memory"],
    "Hosts without an instance": lambda sample: sample["usage"]["empty_hosts"],
    "Requests refused so far": lambda sample: sample["refused"],
}
# Okabe and Ito's colours, told apart by their lines besides.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINES = ("-", "--", "-.", ":")
_STYLE: Any = {
    "svg.hashsalt": "berthmaster",
    "svg.fonttype": "none",
    "font.size": 10,
    # A dollar sign in the name of a configuration begins no formula.
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_HOUR, _DAY = 3600.0, 86_400.0
# Of refused sizes.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: what it shows, and an address that holds all of it."""

    title: str
    source: str


class Refused(NamedTuple):
    vcpus: int
    memory_mb: int
    disk_mb: int
    instances: int


def check_libraries() -> None:
    """Raise OperationRefused if a page cannot be made here."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise OperationRefused(
            f"a page needs {error.name}: pip install 'berthmaster[simulation]'"
        ) from None


def render(documents: Sequence[Document], notes: Sequence[str]) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("scheduler.operators.cli"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("simulation.html").render(
        heading=heading(documents),
        table=summary(documents),
        plots=[*_plots(documents)],
        refused={name: sizes for name, sizes in _refused(documents).items() if sizes},
        notes=notes,
    )


def _refused(documents: Sequence[Document]) -> dict[str, list[Refused]]:
    """Return the sizes that were refused most often, by configuration, with how often."""
    counts: dict[str, Counter[tuple[int, int, int]]] = {}
    for each in documents:
        of_one = counts.setdefault(each["configuration"], Counter())
        for size in each["refused_sizes"]:
            of_one[size["vcpus"], size["memory_mb"], size["disk_mb"]] += size["instances"]
    return {
        name: [Refused(*size, count) for size, count in of_one.most_common(_SHOWN)]
        for name, of_one in counts.items()
    }


def _plots(documents: Sequence[Document]) -> Iterator[Plot]:
    import matplotlib
    from matplotlib.figure import Figure

    names = [*dict.fromkeys(each["configuration"] for each in documents)]
    looks: dict[str, Any] = {
        name: {"color": color, "linestyle": line}
        for name, color, line in zip(names, cycle(_COLORS), cycle(_LINES), strict=False)
    }
    unit, seconds = _unit(documents)
    for title, measure in _MEASURES.items():
        # As everywhere, whatever the user's own settings are.
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
            figure = Figure(figsize=(5.4, 3.2), facecolor="white", layout="constrained")
            axes = figure.add_subplot(xlabel=unit, title=title)
            for each in documents:
                samples, name = each["samples"], each["configuration"]
                start = samples[0]["time"]
                times = [(sample["time"] - start) / seconds for sample in samples]
                axes.plot(times, [*map(measure, samples)], linewidth=1.3, **looks[name])
            axes.set_ylim(bottom=0)
            axes.grid(color="#DDDDDD")
            lines = [axes.plot([], [], label=name, **looks[name])[0] for name in names]
            if len(names) > 1:
                figure.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False)
            written = BytesIO()
            figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
        encoded = b64encode(written.getvalue()).decode()
        yield Plot(title, f"data:image/svg+xml;base64,{encoded}")


def _unit(documents: Sequence[Document]) -> tuple[str, float]:
    """Return the unit of time of the plots, and how many seconds it has."""
    longest = max(each["samples"][-1]["time"] - each["samples"][0]["time"] for each in documents)
    if longest > 3 * _DAY:
        return "days", _DAY
    return ("hours", _HOUR) if longest > 2 * _HOUR else ("minutes", 60.0)
