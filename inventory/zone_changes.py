# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What may become of the availability zones of hosts when an aggregate changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from inventory import aggregates, instances
from inventory.aggregates import ZONE, AggregateRecord
from inventory.chunks import chunks
from inventory.instance_states import released
from inventory.names import some
from inventory.orders import CONFIRMED
from inventory.refusals import InUse
from inventory.tables import allocations


@dataclass(frozen=True, slots=True)
class Zones:
    """On what terms hosts change their zones.

    default is the zone of hosts that are in no other. with_instances lets those change that have
    instances, whose requests may have named the zone that the host was in.
    """

    default: str
    with_instances: bool = False


def check(
    connection: sa.Connection,
    change: tuple[Sequence[AggregateRecord], Sequence[AggregateRecord]],
    hosts: Iterable[str],
    zones: Zones,
) -> None:
    """Raise InUse for a change that was made but may not be committed.

    That is one that puts any of these hosts into two zones, or changes the zone of one that has
    instances or claims for some. change are the aggregates as they were and as they will be.
    """
    before, after = change
    was, will_be = aggregates.zones_by_host(before), aggregates.zones_by_host(after)
    nowhere: set[str] = set()
    moving: dict[str, str] = {}
    for host in sorted(hosts):
        old, new = was.get(host, nowhere), will_be.get(host, nowhere)
        # What was wrong before may become better step by step.
        if len(new) > 1 and new - old:
            raise _in_several_zones(host, after)
        default = {zones.default}
        if (old or default) != (new or default):
            moving[host] = f"from {some(old or default)} to {some(new or default)}"
    if not zones.with_instances:
        _check_empty(connection, moving)


def _in_several_zones(host: str, records: Iterable[AggregateRecord]) -> InUse:
    ways = [
        f"{each.metadata[ZONE]} by aggregate {each.name} (id {each.id})"
        for each in records
        if host in each.hosts and each.zones
    ]
    return InUse(
        f"host {host} would be in several availability zones, {' and '.join(ways)}, and may be in"
        " one only: remove it from one of these aggregates first"
    )


def _check_empty(connection: sa.Connection, moving: Mapping[str, str]) -> None:
    there: dict[str, set[str]] = {}
    for row in instances.of_hosts(connection, moving):
        if not released(row.vm_state, row.task_state):
            there.setdefault(row.host, set()).add(row.uuid)
    columns = (allocations.c.host, allocations.c.instance_uuid)
    for hosts in chunks(sorted(moving)):
        here = sa.and_(allocations.c.host.in_(hosts), allocations.c.state != CONFIRMED)
        for host, uuid in connection.execute(sa.select(*columns).where(here)):
            there.setdefault(host, set()).add(uuid)
    if there:
        told = some(f"{host} ({len(uuids)}, {moving[host]})" for host, uuids in there.items())
        raise InUse(
            f"{sum(map(len, there.values()))} instances would be in another availability zone than"
            f" they were placed in, on {told}: move them away first, or let the zone change all the"
            " same with --with-instances"
        )
