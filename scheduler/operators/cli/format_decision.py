# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Format decisions and their explanations as text and tables.

Explanations and parts of decisions are JSON documents, as schedulers send them and files have them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inventory.errors import counted
from scheduler.analysis.diagnosis import host_name
from scheduler.objects.selection import Selection
from scheduler.operators.cli.base import Table
from scheduler.operators.decision_text import format_heading as format_heading
from scheduler.operators.decision_text import format_weight as format_weight

# The most hosts of a table to show by default.
MAX_HOSTS = 20
REASON_COLUMNS = ("Host", "Filter", "Reason")
Document = Mapping[str, Any]


def placements_table(title: str, placements: Iterable[Document]) -> Table:
    rows = [
        (
            each["instance_uuid"] or "",
            each["chosen"]["host"],
            each["chosen"]["nodename"],
            format_weight(each["chosen"]["weight"]),
            ", ".join(other["host"] for other in each["alternates"]),
        )
        for each in placements
    ]
    return Table(title, ("Instance", "Host", "Node", "Weight", "Alternates"), rows)


def selection_limits(selection: Selection) -> dict[str, float]:
    """Return the limits of a selected host as far as filters have set them, without NUMA."""
    names = ("vcpu", "memory_mb", "disk_gb")
    limits = {name: getattr(selection.limits, name, None) for name in names}
    return {name: limit for name, limit in limits.items() if limit is not None}


def format_result(explanation: Document) -> list[str]:
    """Return whether and where the instance was placed; why not, in the words of kube-scheduler.

    Each text is a line.
    """
    name = explanation["instance_uuid"] or f"number {explanation['index']} of the request"
    hosts, passing = explanation["hosts"], explanation["passing"]
    if explanation["chosen"] is None:
        refused = ", ".join(map(_summary, explanation["summary"]))
        return [
            f"{passing} of {counted(hosts, 'host')}{': ' if refused else ''}{refused}",
            f"There was no host for instance {name}.",
        ]
    host = host_name(explanation["chosen"], explanation["chosen_node"])
    which = f"{passing} of which {'passes' if passing == 1 else 'pass'} all filters"
    line = f"Instance {name} goes to {host}, out of {counted(hosts, 'host')}, {which}."
    return [line, *_tie(explanation)]


def _summary(found: Document) -> str:
    reason = f" ({found['reason']})" if found["reason"] else ""
    return f"{found['hosts']} {found['name']}{reason}"


def _tie(explanation: Document) -> Iterator[str]:
    """Yield that other hosts have the weight of the chosen one, and what decided between them."""
    tied, drawn_from = explanation["tied"], explanation["drawn_from"]
    if tied > 1 and drawn_from:
        how = (
            "one of these hosts was drawn at random"
            if drawn_from > 1
            else "this host is the first in the table"
        )
        host = host_name(explanation["chosen"], explanation["chosen_node"])
        yield f"{counted(tied, 'host')} tie for this weight: {host} was chosen since {how}."


def format_explanation(explanation: Document, limit: int = MAX_HOSTS) -> list[Table]:
    """Return how one instance was placed, or why not; limit bounds the hosts of a table."""
    tables = [filters_table(explanation["steps"]), weights_table(explanation, limit)]
    if explanation["chosen"] is None:
        tables += [reasons_table(explanation, limit), near_misses_table(explanation)]
    return [each for each in tables if each.rows]


def filters_table(steps: Iterable[Document]) -> Table:
    rows = [(each["name"], each["before"], each["after"]) for each in steps]
    return Table("Hosts left by each filter", ("Filter", "Before", "After"), rows)


def weights_table(explanation: Document, limit: int = MAX_HOSTS) -> Table:
    weighed = [each for each in explanation["verdicts"] if each["weighed"]]
    best = sorted(weighed, key=lambda each: each["rank"])[:limit]
    shares = [each["weighed"]["shares"] for each in best]
    # A weigher that says nothing of these hosts takes room only.
    names = [name for name in (shares[0] if best else ()) if any(each[name] for each in shares)]
    rows = [
        (
            each["rank"],
            host_name(each["host"], each["nodename"]),
            *(format_weight(each["weighed"]["shares"].get(name)) for name in names),
            format_weight(each["weighed"]["total"]),
            "chosen" if each["chosen"] else "",
        )
        for each in best
    ]
    return Table("Weights of the best hosts", ("Rank", "Host", *names, "Total", ""), rows)


def reasons_table(explanation: Document, limit: int = MAX_HOSTS) -> Table:
    """Return all reasons for which hosts are refused, hosts with the fewest reasons first.

    Hosts with equal reasons are together; limit bounds the lines.
    """
    groups = explanation["refused"][:limit]
    more = explanation["hosts"] - explanation["passing"] - sum(each["hosts"] for each in groups)
    is_are = "is" if more == 1 else "are"
    title = (
        f"Why hosts were refused ({counted(more, 'more host')} {is_are} refused)"
        if more
        else "Why hosts were refused"
    )
    return Table(title, REASON_COLUMNS, [row for each in groups for row in _group_rows(each)])


def refusals_table(explanation: Document) -> Table:
    rows = sorted(explanation["reasons"].items(), key=lambda each: -each[1])
    return Table("Number of hosts that each filter refuses", ("Filter", "Hosts"), rows)


def near_misses_table(explanation: Document) -> Table:
    rows = [(each["text"],) for each in explanation["near_misses"]]
    return Table("Changes, any of which would have been enough", ("Change",), rows)


def format_host(explanation: Document, name: str) -> list[str | Table]:
    """Return why one host was not chosen; raise ValueError for an unknown host."""
    verdicts, folded = explanation["verdicts"], name.casefold()
    found = [
        each for each in verdicts if each["nodename"] == name or each["host"].casefold() == folded
    ]
    if not found:
        raise ValueError(f"there was no host {name!r}")
    chosen = next((each for each in verdicts if each["chosen"]), None)
    return [section for each in found for section in _format_verdict(each, chosen, explanation)]


def _format_verdict(
    verdict: Document, chosen: Document | None, explanation: Document
) -> list[str | Table]:
    name = host_name(verdict["host"], verdict["nodename"])
    if verdict["refusals"]:
        count = len(verdict["refusals"])
        text = f"{name} is refused by {counted(count, 'filter')}."
        return [text, Table("", REASON_COLUMNS, _reasons(verdict))]
    choice = _choice(explanation["drawn_from"])
    if verdict["chosen"]:
        return [f"{name} was chosen. {choice}"]
    rank = f"{name} passes all filters and is number {verdict['rank']} of {explanation['passing']}"
    if chosen is None or not chosen["weighed"]:
        return [f"{rank}."]
    # Totals that are not finite are null.
    less = (chosen["weighed"]["total"] or 0.0) - (verdict["weighed"]["total"] or 0.0)
    behind = f"{format_weight(abs(less))} {'behind' if less >= 0 else 'ahead of'}"
    other = host_name(chosen["host"], chosen["nodename"])
    columns = ("Weigher", name, other, "Difference")
    rows = _differences(verdict["weighed"], chosen["weighed"])
    return [f"{rank}, {behind} {other}, which was chosen. {choice}", Table("", columns, rows)]


def _differences(weighed: Document, chosen: Document) -> list[tuple[str, ...]]:
    """Return the weights of a host and of the chosen one, weigher by weigher."""
    shares = [
        (name, share, chosen["shares"].get(name)) for name, share in weighed["shares"].items()
    ]
    return [
        (name, *map(format_weight, (one, other, (other or 0.0) - (one or 0.0))))
        for name, one, other in [*shares, ("total", weighed["total"], chosen["total"])]
    ]


def _choice(drawn_from: int) -> str:
    match drawn_from:
        case 0:
            return "The driver chooses without weights."
        case 1:
            return "The best host is chosen."
        case _:
            return f"One of the {drawn_from} best hosts is drawn at random."


def _reasons(verdict: Document) -> Sequence[tuple[str, str, str]]:
    """Return a row for each reason, with the name of the host in the first row."""
    name = host_name(verdict["host"], verdict["nodename"])
    return [
        ("" if number else name, each["filter"], each["reason"])
        for number, each in enumerate(verdict["refusals"])
    ]


def _group_rows(group: Document) -> Sequence[tuple[str, str, str]]:
    """Return a row for each reason of some hosts, with their names in the first row."""
    first, others = group["first"][0], group["hosts"] - 1
    name = f"{first} and {others} more" if others else first
    return [
        ("" if number else name, each["filter"], each["reason"])
        for number, each in enumerate(group["refusals"])
    ]
