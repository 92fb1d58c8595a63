# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many more instances of each flavor fit, by availability zone."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from inventory import aggregates
from inventory.errors import Malformed
from inventory.queries import promised
from inventory.queries.decision_search import flavors_of_sizes
from inventory.queries.requested_sizes import Size
from scheduler.analysis.diagnosis import filter_rejections, name_rejections
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.capacity import LARGEST_SIZE, Filling, Simulator, fill
from scheduler.operators.fleet_usage import fleet_room
from scheduler.operators.simulation.synthetic_trace import flavor_of
from scheduler.operators.status_pages.errors import check_time
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, flavor_figures

# The most requested flavors, and instances of one flavor that are counted one by one.
_USUAL, _MOST = 8, 10_000


def view(source: Source, asked: Asked) -> View:
    text = asked.text("flavor")
    given = _flavor(text) if text else None
    zones, names = source.read(_known)
    with source.live_hosts(asked.until) as (hosts, simulator):
        flavors = [given] if given else [flavor_of(each.size) for each in hosts.flavor_mix[:_USUAL]]
        found: list[dict[str, Any]] = []
        rest = [*flavors]
        while rest and (not found or time.monotonic() < asked.until):
            check_time(asked.until)
            counting = replace(simulator, may_go_on=_share(asked.until, len(rest)))
            flavor = rest.pop(0)
            found.append(_row(hosts.working_copy(), flavor, counting, zones, source.default_zone))
        hosts.promises = source.read(promised.read)
        room = fleet_room(hosts)
    for each in found:
        each["names"] = names.get(each["size"], [])
    every = {zone for each in found for zone in each["zones"]}
    facts = {
        "asked": {"flavor": text} if text else {},
        "hosts": len(hosts),
        "zones": sorted(every | {zone for found in zones.values() for zone in found}),
        "flavors": found,
        "not_counted": [_size(each) for each in rest],
        "room": room.facts(),
    }
    most = max((count for each in found for count in each["zones"].values()), default=0)
    lines = room.lines() if room.promises.lines() else []
    shown = {"flavor": text or "", "most": most, "room_lines": lines}
    return View("Capacity", "capacity.html", facts, shown)


def _flavor(text: str) -> Flavor:
    """Return the flavor of vCPUs,MB,GB; raises Malformed."""
    figures = flavor_figures(text)
    if figures is None:
        raise Malformed("flavor", f"{text[:60]!r} is not vCPUs,MB,GB, such as 4,8192,40")
    if not any(figures):
        raise Malformed(
            "flavor", "the flavor uses no resources of a host, so any number of instances fits"
        )
    vcpus, memory_mb, root_gb = (min(each, LARGEST_SIZE) for each in figures)
    return Flavor(vcpus, memory_mb, root_gb)


def _size(flavor: Flavor) -> Size:
    return flavor.vcpus, flavor.memory_mb, RequestSpec(flavor).disk_mb


def _share(until: float, flavors: int) -> Callable[[], bool]:
    """Return whether there is time left for the first of some flavors, which share it evenly."""
    now = time.monotonic()
    end = now + (until - now) / flavors
    return lambda: time.monotonic() < end


def _known(connection: sa.Connection) -> tuple[dict[str, set[str]], Mapping[Size, list[str]]]:
    """Return the zones of hosts, and the names of flavors by size."""
    zones = aggregates.zones_by_host(aggregates.everything(connection))
    return zones, flavors_of_sizes(connection)


def _row(
    hosts: HostTable,
    flavor: Flavor,
    simulator: Simulator,
    zones: Mapping[str, Iterable[str]],
    default_zone: str,
) -> dict[str, Any]:
    """Return how many instances of a flavor fit in each zone, and what bounds them."""
    spec = RequestSpec(replace(flavor))
    filling = _filled(hosts, spec, simulator)
    by_zone: Counter[str] = Counter()
    for row, count in filling.rows.items():
        for zone in zones.get(hosts.get(row, "host")) or (default_zone,):
            by_zone[zone] += count
    return {
        "size": _size(flavor),
        "total": filling.rows.total(),
        "more": not filling.is_full,
        "zones": dict(sorted(by_zone.items())),
        "bounded_by": _bounds(hosts, filling, simulator),
    }


def _filled(hosts: HostTable, spec: RequestSpec, simulator: Simulator) -> Filling:
    """Fill the hosts: without a bound where they are counted side by side, which is quick."""
    found = fill(hosts, spec, simulator, _MOST) if simulator.one_by_one else None
    return found or fill(hosts, spec, simulator)


def _bounds(hosts: HostTable, filling: Filling, simulator: Simulator) -> dict[str, int]:
    """Return by filter on how many hosts it is the first to refuse one more instance."""
    plan, spec = simulator.plan, filling.spec
    filters = (*plan.request_filters, *plan.filters)
    found = [*name_rejections(hosts, spec), *filter_rejections(hosts, spec, filters)]
    refused = np.array([each.refused for each in found])
    first = refused.argmax(axis=0)[refused.any(axis=0)]
    counts = Counter(found[index].name for index in first.tolist())
    return dict(counts.most_common())
