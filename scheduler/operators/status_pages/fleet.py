# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The map of the fleet: a square for each host, by zone or aggregate, filled as the host is."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from inventory.promises import total
from inventory.queries import promised
from inventory.queries.fleet import LOST, RESOURCES, STATES, UP, FleetNode, read_fleet
from scheduler.analysis.diagnosis import host_name
from scheduler.operators.status_pages import host_list
from scheduler.operators.status_pages.rendering import plural, share, words
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View

GROUPS = {"zone": "availability zone", "aggregate": "aggregate"}
COLORS = {
    "fullest": "the fullest resource",
    "vcpus": "vCPUs",
    "memory": "memory",
    "disk": "disk",
    "state": "the state",
}
NO_AGGREGATE = "(in no aggregate)"
# What a browser still draws at once.
MAX_SQUARES = 10_000
# With more, nobody would move through them key by key: there is the list for that.
_MAX_STOPS = 300
# So many squares leave room for their names.
_MAX_NAMED = 40
# Lines above the map about what is held, of which each reservation has one.
_HELD = 10
_STOP = Markup('<a class=%(kind)s href="%(path)s" title="%(title)s"></a>')
_SQUARE = Markup('<a tabindex=-1 class=%(kind)s href="%(path)s" title="%(title)s"></a>')
_NAMED = Markup(
    '<a href="%(path)s" title="%(title)s"><span class="square %(kind)s"></span>'
    "<bdi>%(name)s</bdi></a>"
)
_NAMES = {"vcpus": "vCPUs", "memory": "memory", "disk": "disk"}
# From which share on a host is nearly full, and full.
_WARM, _HOT = 0.7, 0.9
_DECILES = 10


def view(source: Source, asked: Asked) -> View:
    """Return the map, or the list of hosts that is its alternative."""
    as_what = asked.one_of("as", ("map", "table"))
    # Whoever asks for some of the hosts wants to read their names.
    if as_what == "table" or any(map(asked.text, host_list.FILTERS)):
        return host_list.view(source, asked)
    group_by, color = asked.one_of("group", GROUPS), asked.one_of("color", COLORS)
    nodes = source.read(read_fleet, source.liveness_limit, source.default_zone)
    placed = [*_placed(nodes, group_by)]
    pages = max(1, -(-len(placed) // MAX_SQUARES))
    page = min(max(1, asked.number("page", 1)), pages)
    here = placed[MAX_SQUARES * (page - 1) : MAX_SQUARES * page]
    promises = total(source.read(promised.read).values())
    by_name = groupby(here, key=itemgetter(0))
    groups = [(name, [node for _, node in members]) for name, members in by_name]
    facts: dict[str, Any] = {
        "group_by": group_by,
        "color": color,
        "page": page,
        "pages": pages,
        "hosts": len(nodes),
        "states": _states(nodes),
        "promised": promises.facts(),
        "groups": [{"name": name, **_summary(members)} for name, members in groups],
    }
    can_stop = len(here) <= _MAX_STOPS
    if asked.text("format") == "json":
        for group, (_, members) in zip(facts["groups"], groups, strict=True):
            group["nodes"] = [_node(each) for each in members]
        return View("Fleet", "fleet.html", facts)
    form = _NAMED if len(here) <= _MAX_NAMED else _STOP if can_stop else _SQUARE
    held = promises.lines()
    squares = [_squares(members, color, form) for _, members in groups]
    shown = {
        "groupings": GROUPS,
        "colors": COLORS,
        "squares": squares,
        "legend": _legend(nodes, color),
        "can_stop": can_stop,
        "named": form is _NAMED,
        "held": held[:_HELD],
        "more_held": len(held) - _HELD,
    }
    return View("Fleet", "fleet.html", facts, shown)


def _placed(nodes: Sequence[FleetNode], group_by: str) -> Iterator[tuple[str, FleetNode]]:
    """Yield each node with its group, in the order of groups, once for each of its groups."""
    pairs = [
        (name, node)
        for node in nodes
        for name in (node.zones if group_by == "zone" else node.aggregates or (NO_AGGREGATE,))
    ]
    return iter(sorted(pairs, key=lambda pair: (pair[0] == NO_AGGREGATE, pair[0])))


def _summary(nodes: Sequence[FleetNode]) -> dict[str, Any]:
    """Return what the group of these nodes is like: their number, states and use.

    Nodes that are down, of which nothing can be used, do not count for that, if others are there.
    """
    serving = [each for each in nodes if each.state not in LOST] or nodes
    fullest = max(serving, key=lambda each: max(each.shares))
    return {
        "hosts": len(nodes),
        "states": _states(nodes),
        "mean": {
            name: sum(each.shares[index] for each in serving) / len(serving)
            for index, name in enumerate(RESOURCES)
        },
        "fullest": _node(fullest) | {"resource": RESOURCES[fullest.fullest]},
    }


def _states(nodes: Sequence[FleetNode]) -> dict[str, int]:
    counts = Counter(each.state for each in nodes)
    return {state: counts[state] for state in STATES if counts[state]}


def _node(node: FleetNode) -> dict[str, Any]:
    shares = zip(RESOURCES, node.shares, strict=True)
    used = {name: round(value, 4) for name, value in shares}
    return {"host": node.host, "node": node.node, "state": node.state, "used": used}


def _squares(nodes: Sequence[FleetNode], color: str, form: Markup) -> Markup:
    """Return a link for each node. There may be thousands, so each byte counts."""
    return Markup("\n").join(
        form
        % {
            "kind": _kind(each, color),
            "path": quote(each.host, safe=""),
            "title": _title(each, color),
            "name": host_name(each.host, each.node),
        }
        for each in nodes
    )


def _title(node: FleetNode, color: str) -> str:
    name = host_name(node.host, node.node)
    if color == "state" or node.state != UP:
        return f"{name}: {words(node.state)}"
    index = node.index_of(color)
    return f"{name}: {_NAMES[RESOURCES[index]]} {share(node.shares[index])}"


def _kind(node: FleetNode, color: str) -> str:
    """Return the class of a square: a state, or how full it is in tenths."""
    if color == "state" or node.state != UP:
        return node.state
    return f"q{min(_DECILES, max(0, int(_DECILES * node.shares[node.index_of(color)])))}"


def _legend(nodes: Sequence[FleetNode], color: str) -> list[tuple[str, str, str]]:
    """Return (class, meaning, number of hosts) for what the squares can be."""
    kinds = Counter(_kind(each, color) for each in nodes)
    states = [(each, words(each), plural(kinds[each], "host")) for each in STATES if kinds[each]]
    if color == "state":
        return states
    bounds = (
        ("q3", f"below {share(_WARM)}", 0.0, _WARM),
        ("q8", f"{share(_WARM)} and more", _WARM, _HOT),
        ("q10", f"{share(_HOT)} and more", _HOT, float("inf")),
    )
    values = [each.shares[each.index_of(color)] for each in nodes if each.state == UP]
    return [
        (kind, text, plural(sum(low <= value < high for value in values), "host"))
        for kind, text, low, high in bounds
    ] + states
