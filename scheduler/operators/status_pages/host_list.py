# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts as a table, page by page: what the map shows, for those who read or search."""

from typing import Any

from inventory.queries.fleet import RESOURCES, STATES, FleetNode, read_fleet
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, query_link

PAGE = 100
_ANY = "any"
_SORTS = ("name", "fullest", *RESOURCES)
FILTERS = ("name", "zone", "aggregate", "state", "sort")


def view(source: Source, asked: Asked) -> View:
    sort, state = asked.one_of("sort", _SORTS), asked.one_of("state", (_ANY, *STATES))
    nodes = source.read(read_fleet, source.liveness_limit, source.default_zone)
    found = [each for each in nodes if _is_wanted(each, asked, state)]
    if sort != "name":
        found.sort(key=lambda each: -each.shares[each.index_of(sort)])
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(1, asked.number("page", 1)), pages)
    given = {name: asked.text(name) for name in FILTERS}
    facts = {
        "asked": {name: each for name, each in given.items() if each},
        "page": page,
        "pages": pages,
        "hosts": len(found),
        "nodes": [_row(each) for each in found[PAGE * (page - 1) : PAGE * page]],
    }
    links = {
        name: query_link("", **{"as": "table", **given, "page": number})
        for name, number in (("previous", page - 1), ("next", page + 1))
        if 1 <= number <= pages
    }
    zones = sorted({zone for each in nodes for zone in each.zones})
    names = sorted({name for each in nodes for name in each.aggregates})
    shown = {
        "given": given,
        "links": links,
        "sorts": _SORTS,
        "states": (_ANY, *STATES),
        "zones": zones,
        "aggregates": names,
    }
    return View("Hosts", "hosts.html", facts, shown)


def _is_wanted(node: FleetNode, asked: Asked, state: str) -> bool:
    name, zone, aggregate = asked.text("name"), asked.text("zone"), asked.text("aggregate")
    return (
        state in (_ANY, node.state)
        and (zone is None or zone in node.zones)
        and (aggregate is None or aggregate in node.aggregates)
        and (name is None or any(name.casefold() in each.casefold() for each in node[:2]))
    )


def _row(node: FleetNode) -> dict[str, Any]:
    used = {name: round(each, 4) for name, each in zip(RESOURCES, node.shares, strict=True)}
    names = {"zones": node.zones, "aggregates": node.aggregates}
    return {"host": node.host, "node": node.node, "state": node.state, **names, "used": used}
