# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An explanation as people read it, made of its JSON: what explain and select --dry-run show.

Source: scheduler.decision.explaining.Explanation, by json_value() or over RPC.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.cli.telling import Table

Document = Mapping[str, Any]
# How many hosts are shown unless more are wanted.
MOST = 20


def headline(explained: Document) -> str:
    """Return in one line what became of the instance."""
    name = explained["instance_uuid"] or f"number {explained['index']} of the request"
    of = f"{explained['hosts']} hosts, {explained['passing']} of which pass all filters"
    if explained["chosen"] is None:
        return f"There was no host for instance {name}, out of {of}."
    place = _called(explained["chosen"], explained["chosen_node"])
    return f"Instance {name} goes to {place}, out of {of}."


def told(explained: Document, most: int = MOST) -> list[Table]:
    """Return the story of one instance; of hosts at most so many are shown."""
    parts = [survivors(explained), weights(explained, most)]
    if explained["chosen"] is None:
        parts += [reasons(explained, most), near_misses(explained)]
    return [each for each in parts if each.rows]


def survivors(explained: Document) -> Table:
    """Return how many hosts each filter has left, in the order in which they were asked."""
    rows = [(each["name"], each["before"], each["after"]) for each in explained["steps"]]
    return Table("Hosts left by each filter", ("Filter", "Before", "After"), rows)


def weights(explained: Document, most: int = MOST) -> Table:
    """Return the best hosts with what each weigher gives them."""
    passing = [each for each in explained["verdicts"] if each["weighed"]]
    best = sorted(passing, key=lambda each: each["rank"])[:most]
    names = list(best[0]["weighed"]["shares"]) if best else []
    rows = [
        (
            each["rank"],
            _called(each["host"], each["nodename"]),
            *(weight(each["weighed"]["shares"].get(name)) for name in names),
            weight(each["weighed"]["total"]),
            "chosen" if each["chosen"] else "",
        )
        for each in best
    ]
    return Table("Weights of the best hosts", ("Rank", "Host", *names, "Total", ""), rows)


def reasons(explained: Document, most: int = MOST) -> Table:
    """Return why hosts are refused: all reasons of each, hosts with the fewest first."""
    refused = [each for each in explained["verdicts"] if each["refusals"]]
    rows = [row for each in refused[:most] for row in _refusals(each)]
    left = explained["hosts"] - explained["passing"] - len(refused[:most])
    title = f"Why not ({left} more hosts are refused)" if left else "Why not"
    return Table(title, ("Host", "Filter", "Reason"), rows)


def counted(explained: Document) -> Table:
    """Return how many hosts each rule and filter refuses, whatever others say of them."""
    rows = sorted(explained["reasons"].items(), key=lambda each: -each[1])
    return Table("Hosts refused by each filter by itself", ("Filter", "Hosts"), rows)


def near_misses(explained: Document) -> Table:
    """Return what would have been enough, the smallest changes first."""
    rows = [(each["text"],) for each in explained["near_misses"]]
    return Table("Any one of these would have been enough", ("Change",), rows)


def about(explained: Document, host: str) -> list[str | Table]:
    """Return all about one host: why it was not chosen. Raises ValueError for an unknown one."""
    found = [each for each in explained["verdicts"] if _is_called(each, host)]
    if not found:
        raise ValueError(f"there was no host {host!r}")
    chosen = next((each for each in explained["verdicts"] if each["chosen"]), None)
    return [part for each in found for part in _about(each, chosen, explained)]


def weight(value: float | None) -> str:
    """Return a weight as it is shown; None is one that is no number."""
    # Adding zero turns -0.0, which a negative multiplier makes of 0, into 0.0.
    return "" if value is None else f"{value + 0.0:.3f}"


def _about(verdict: Document, chosen: Document | None, explained: Document) -> list[str | Table]:
    name = _called(verdict["host"], verdict["nodename"])
    if verdict["refusals"]:
        return [
            f"{name} is refused for {_several(len(verdict['refusals']), 'reason')}.",
            Table("", ("Host", "Filter", "Reason"), _refusals(verdict)),
        ]
    if verdict["chosen"]:
        return [f"{name} was chosen. {_drawn(explained['drawn_from'])}"]
    place = f"{name} passes all filters and is number {verdict['rank']} of {explained['passing']}"
    if chosen is None or not chosen["weighed"]:
        return [f"{place}."]
    # Totals that are no numbers are null.
    less = (chosen["weighed"]["total"] or 0.0) - (verdict["weighed"]["total"] or 0.0)
    behind = f"{weight(abs(less))} {'behind' if less >= 0 else 'ahead of'}"
    other = _called(chosen["host"], chosen["nodename"])
    return [
        f"{place}, {behind} {other}, which was chosen. {_drawn(explained['drawn_from'])}",
        _compared(verdict, chosen),
    ]


def _compared(verdict: Document, chosen: Document) -> Table:
    """Return two hosts side by side, weigher by weigher."""
    here, there = verdict["weighed"], chosen["weighed"]
    pairs = [(name, here["shares"][name], there["shares"].get(name)) for name in here["shares"]]
    rows = [
        (name, weight(one), weight(other), weight((other or 0.0) - (one or 0.0)))
        for name, one, other in [*pairs, ("total", here["total"], there["total"])]
    ]
    names = (
        _called(verdict["host"], verdict["nodename"]),
        _called(chosen["host"], chosen["nodename"]),
    )
    return Table("", ("Weigher", *names, "Difference"), rows)


def _drawn(drawn_from: int) -> str:
    """Say how the choice among the hosts that passed was made."""
    match drawn_from:
        case 0:
            return "The driver has a choice of its own, weights aside."
        case 1:
            return "The best host is taken."
        case _:
            return f"One of the {drawn_from} best hosts is drawn at random."


def _refusals(verdict: Document) -> Sequence[tuple[str, str, str]]:
    """Return a row for each reason, the name of the host in the first of them."""
    name = _called(verdict["host"], verdict["nodename"])
    return [
        ("" if place else name, each["filter"], each["reason"])
        for place, each in enumerate(verdict["refusals"])
    ]


def _is_called(verdict: Document, name: str) -> bool:
    host: str = verdict["host"]
    return bool(name == verdict["nodename"] or name.casefold() == host.casefold())


def _called(host: str, nodename: str) -> str:
    return host if host == nodename else f"{host} ({nodename})"


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
