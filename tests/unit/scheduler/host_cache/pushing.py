# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What agents do between two readings of a cache: write rows, and push them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from inventory import compute_nodes, instances, tables
from inventory.claims import existing
from inventory.claims.types import Changes
from inventory.engine import Database
from scheduler.host_cache.cache import HostCache
from scheduler.host_cache.refresh_queries import Delta
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.table import HostTable
from scheduler.wire import claim_messages, push_messages
from tests.databases import a_node, an_instance

Message = dict[str, Any]
# What says when the cache looked rather than what it saw.
_OF_THE_MOMENT = {"heartbeat_age", "last_seen"}


def write(database: Database, host: str, guests: Iterable[str] = (), **facts: Any) -> Message:
    """Write a host's node and guests as its agent does; return what the agent pushes then."""

    def work(connection: sa.Connection) -> Message:
        seen = [an_instance(uuid) for uuid in guests]
        changed = instances.replace(connection, host, host, seen)
        compute_nodes.save(connection, [a_node(host, **facts)])
        return _pushed(connection, compute_nodes.of_hosts(connection, [host]), changed)

    return database.write(work)


def delete(database: Database, host: str) -> Message | None:
    """Delete a host's node with all guests; return what the agent pushes, None if it is gone."""

    def work(connection: sa.Connection) -> Message | None:
        ids = [row.id for row in compute_nodes.of_hosts(connection, [host])]
        if not ids:
            return None
        changed = instances.replace(connection, host, host, [])
        compute_nodes.delete(connection, host, [host])
        return _pushed(connection, compute_nodes.by_ids(connection, ids), changed)

    return database.write(work)


def deliver(cache: HostCache, message: Message) -> None:
    """Let a cache take what was pushed."""
    if claim_messages.CHANGES in message:
        return cache.apply_changes(claim_messages.decode(message))
    pushed = push_messages.decode(message)
    cache.apply_push(pushed.nodes, pushed.instances, pushed.claims)


def seen(cache: HostCache) -> dict[str, Any]:
    """Return all that a cache knows of each host, without looking at the database."""
    with cache.current(max_age=1e9) as hosts:
        return {hosts.get(row, "host"): _row(hosts, row) for row in hosts.rows()}


def _row(hosts: HostTable, row: int) -> dict[str, Any]:
    names = {*NUMBERS, *OBJECTS} - _OF_THE_MOMENT
    found = {name: hosts.get(row, name) for name in names}
    found["pci_stats"] = repr(found["pci_stats"])
    return found | {"instances": dict(hosts.instances.on(row))}


def _pushed(connection: sa.Connection, nodes: Sequence[Any], changed: Iterable[str]) -> Message:
    table = tables.instances
    query = sa.select(table).where(table.c.uuid.in_(list(changed)))
    hosts = {node.host for node in nodes}
    rows = [row for row in connection.execute(query) if row.host in hosts]
    claims = existing.as_instances(connection, [node.id for node in nodes])
    return sent(Delta(complete=False, nodes=list(nodes), instances=rows, claims=claims))


def changed(changes: Changes) -> Message:
    """Return what arrives of what claims have changed."""
    return dict(json.loads(json.dumps(claim_messages.encode(changes))))


def sent(written: push_messages.Written) -> Message:
    """Return what arrives of rows that are pushed."""
    return dict(json.loads(json.dumps(push_messages.encode(written))))
