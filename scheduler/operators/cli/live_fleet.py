# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The live fleet for commands that plan moves: hosts, residents, and the filters of schedulers."""

from collections.abc import Collection
from typing import Any

import numpy as np
import sqlalchemy as sa

from inventory import instances, server_groups, services
from inventory.claims import existing, places, standby_rows
from inventory.errors import NotFound, nearest
from inventory.objects.amounts import without
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.cli.arguments import add_flag
from scheduler.operators.cli.base import BaseCommand
from scheduler.operators.cli.live_table import check_reported
from scheduler.operators.cli.terminal import progress
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.residents import InstanceRows, keep_zone, residents_of

UNKNOWN = (
    "Extra specs of flavors, scheduler hints and requested zones are not known. An instance"
    " without claimed NUMA cells or PCI devices is assumed to need no cells or devices."
)


def add_keep_zone(parser: Any) -> None:
    add_flag(parser, "--keep-zone", "Keep every instance in the availability zone of its host.")


def read_fleet(command: BaseCommand, live: LiveHosts, args: Any) -> Fleet:
    """Return the fleet as it is now for a command, and show on a terminal that it is read."""
    zone = command.default_zone if args.keep_zone else None
    with progress(command.app, "reading the instances"):
        return live_fleet(live, command.liveness_limit, zone)


def live_fleet(live: LiveHosts, liveness_limit: float, zone: str | None) -> Fleet:
    """Return the fleet as it is now.

    With a zone, that of hosts in none, each instance has to stay in the zone of its host.
    """
    # Without extra specs, no instance asks how far its host is to be trusted.
    hosts = live.detached_table(RequestSpec(Flavor(0, 0, 0)))
    check_reported([hosts])
    stored = live.database.read(lambda connection: _instance_rows(connection, hosts))
    agents = live.database.read(lambda c: services.all_live(c, services.COMPUTE[0]))
    up = {row.host for row in agents if services.is_up(row, liveness_limit)}
    down = np.zeros(hosts.size, np.bool_)
    down[[row for row in hosts.rows() if hosts.get(row, "host") not in up]] = True
    residents = [*residents_of(hosts, down, stored)]
    if zone is not None:
        keep_zone(hosts, residents, zone)
    return Fleet(hosts, residents, live.destinations.driver.plan, down)


def host_names(hosts: HostTable, names: Collection[str]) -> list[str]:
    """Return the names of hosts as they are spelled; raise NotFound with similar names."""
    known = {hosts.get(row, "host") for row in hosts.rows()}
    found: dict[str, None] = {}
    for name in names:
        rows = hosts.rows_of_host(name) or hosts.rows_of_host(name, any_case=True)
        if not rows:
            hint = nearest(name, known, "see 'host list'")
            raise NotFound(f"no host {name!r} has reported; {hint}")
        found.update((hosts.get(row, "host"), None) for row in rows)
    return [*found]


def _instance_rows(connection: sa.Connection, hosts: HostTable) -> InstanceRows:
    rows = [*hosts.rows()]
    names = {hosts.get(row, "host") for row in rows}
    found: dict[str, Any] = {row.uuid: row for row in instances.of_hosts(connection, names)}
    claimed, _ = existing.on_nodes(connection, [hosts.get(row, "node_id") for row in rows])
    claims = {(row.instance_uuid, row.compute_node_id): row for row in claimed}
    uuids = found.keys() | {uuid for uuid, _ in claims}
    groups = server_groups.of_instances(connection, uuids)
    found_places = places.of_rows(connection, claimed)
    of_place = {each.uuid: each.taken_by for each in found_places if each.taken_by}
    taken = {
        (of_place[each.uuid], each.node_id): without(each.size, each.holds)
        for each in found_places
        if each.taken_by
    }
    # Those of instances themselves come last.
    held = sorted(standby_rows.read(connection).rows, key=lambda each: not each.of_place)
    standbys = {
        (of_place.get(each.instance_uuid, each.instance_uuid), each.place_node_id): each
        for each in held
    }
    return InstanceRows(found, claims, groups, existing.states(connection, uuids), taken, standbys)
