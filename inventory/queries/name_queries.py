# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names of hosts, zones and other things, for the completion of command lines."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import sqlalchemy as sa

from inventory import services
from inventory.aggregates import ZONE, zones_in
from inventory.claims.types import PENDING
from inventory.errors import nearest
from inventory.objects.aggregate import FAILURE_DOMAIN
from inventory.tables import (
    aggregate_metadata,
    aggregates,
    allocations,
    compute_nodes,
    decision_instances,
    decisions,
    instances,
    reservations,
    server_groups,
)
from inventory.tables import services as services_table

# Of decisions, the newest; a person looks for no older one by completing its id.
_NEWEST = 100
# Of ids, half of whose digits agree by chance.
_MISTYPED = 0.85


def _column(column: sa.Column[str], *conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(column).where(*conditions).distinct()


def _hosts(connection: sa.Connection) -> Iterable[str]:
    """Return the hosts with a compute service or a node."""
    binary = services_table.c.binary == services.COMPUTE[0]
    query = sa.union(
        _column(services_table.c.host, services_table.c.deleted == 0, binary),
        _column(compute_nodes.c.host, compute_nodes.c.deleted == 0),
    )
    return connection.scalars(query)


def _named_by(key: str) -> Callable[[sa.Connection], Iterable[str]]:
    """Return a query for the names that aggregates have under a key, separated by commas."""
    query = _column(aggregate_metadata.c.value, aggregate_metadata.c.key == key)
    return lambda connection: chain.from_iterable(map(zones_in, connection.scalars(query)))


def _domains_and_hosts(connection: sa.Connection) -> Iterable[str]:
    return chain(_named_by(FAILURE_DOMAIN)(connection), _hosts(connection))


def _newest(column: sa.Column[str]) -> Callable[[sa.Connection], Iterable[str]]:
    newest = sa.select(column.label("name")).order_by(decisions.c.id.desc()).limit(_NEWEST)
    query = sa.select(newest.subquery().c.name).distinct()
    return lambda connection: connection.scalars(query)


def _instances(connection: sa.Connection) -> Iterable[str]:
    """Return the names of instances, and the uuids of those that are somewhere or have a claim."""
    c = instances.c
    query = sa.union(
        _column(c.display_name, c.deleted == 0),
        _column(c.uuid, c.deleted == 0),
        _column(allocations.c.instance_uuid),
    )
    return connection.scalars(query)


def _newest_instances(connection: sa.Connection) -> Iterable[str]:
    """Return the uuids of the instances that the newest decisions are about."""
    newest = sa.select(decisions.c.id).order_by(decisions.c.id.desc()).limit(_NEWEST).subquery()
    c = decision_instances.c
    query = _column(c.instance_uuid, c.decision_id.in_(sa.select(newest.c.id)))
    return connection.scalars(query)


def _requests(connection: sa.Connection) -> Iterable[str]:
    return chain(_newest(decisions.c.request_id)(connection), _newest_instances(connection))


def _of(query: sa.Select[Any]) -> Callable[[sa.Connection], Iterable[str]]:
    return lambda connection: connection.scalars(query)


_LIVE_SERVICE = services_table.c.deleted == 0
# What there is to complete, by the kinds that arguments of commands name.
NAMES: Mapping[str, Callable[[sa.Connection], Iterable[str | None]]] = {
    "aggregates": _of(_column(aggregates.c.name)),
    "binaries": _of(_column(services_table.c.binary, _LIVE_SERVICE)),
    "claimed instances": _of(_column(allocations.c.instance_uuid, allocations.c.state == PENDING)),
    "failure domains and hosts": _domains_and_hosts,
    "hosts": _hosts,
    "hypervisors": _of(_column(compute_nodes.c.hypervisor_hostname, compute_nodes.c.deleted == 0)),
    "instances": _instances,
    "projects": _newest(decisions.c.project_id),
    "requests": _requests,
    "reservations": _of(_column(reservations.c.name)),
    "server groups": _of(_column(server_groups.c.name)),
    "service hosts": _of(_column(services_table.c.host, _LIVE_SERVICE)),
    # The default one is an option.
    "uuids": _newest_instances,
    "zones": _named_by(ZONE),
}


def nearest_id(connection: sa.Connection, kind: str, name: str, command: str) -> str:
    """Return a hint for an id or uuid that was not found: one of a kind, or the command."""
    return nearest_of_ids(name, names(connection, kind), f"see '{command}'")


def nearest_of_ids(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return nearest() of ids or uuids, which have to be more alike than names."""
    return nearest(name, known, otherwise, _MISTYPED)


def names(connection: sa.Connection, kind: str) -> list[str]:
    """Return the names of a kind, sorted, without those that a line cannot hold."""
    found = {name for name in NAMES[kind](connection) if name}
    return sorted(name for name in found if name.isprintable())
