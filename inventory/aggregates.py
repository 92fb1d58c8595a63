# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregates: sets of hosts with metadata, availability zones among them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from inventory import revisions
from inventory.dialects import utc_now
from inventory.errors import Malformed, NotFound, nearest
from inventory.tables import aggregate_hosts, aggregate_metadata, aggregates

# The metadata that makes an aggregate an availability zone.
ZONE = "availability_zone"


def zones_in(text: str) -> set[str]:
    """Return the zones that a value of an aggregate's metadata names."""
    return {part.strip() for part in text.split(",")}


@dataclass(frozen=True, slots=True)
class AggregateRecord:
    """One aggregate with its hosts and metadata."""

    id: int
    uuid: str
    name: str
    hosts: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def zones(self) -> set[str]:
        """The zones of its hosts: more than one only if not written by our commands."""
        text = self.metadata.get(ZONE)
        return set() if text is None else zones_in(text)

    @property
    def properties(self) -> dict[str, str]:
        """The metadata without the zone."""
        return {key: self.metadata[key] for key in sorted(self.metadata) if key != ZONE}

    @property
    def fields(self) -> dict[str, Any]:
        """What the audit log has of it."""
        return {"name": self.name, "properties": self.metadata, "hosts": sorted(self.hosts)}


def zones_by_host(records: Iterable[AggregateRecord]) -> dict[str, set[str]]:
    """Return {host: zones} of the hosts of these aggregates; no zones mean the default one."""
    found: dict[str, set[str]] = {}
    for each in records:
        for host in each.hosts:
            found.setdefault(host, set()).update(each.zones)
    return found


def find(records: Iterable[AggregateRecord], text: str) -> AggregateRecord:
    """Return the aggregate of this uuid, name or id in any case; raises NotFound, Malformed."""
    records, text = list(records), text.strip()
    named = [each for each in records if each.name == text] or [
        each for each in records if each.name.casefold() == text.casefold()
    ]
    numbered = [each for each in records if str(each.id) == text and each not in named]
    found = [each for each in records if each.uuid == text.lower()] or named + numbered
    if not found:
        hint = nearest(text, (each.name for each in records), "see 'aggregate list'")
        raise NotFound(f"there is no aggregate {text!r}; {hint}")
    if len(found) > 1:
        several = ", ".join(f"{each.name} (id {each.id}, uuid {each.uuid})" for each in found)
        raise Malformed("aggregate", f"{text!r} is ambiguous: {several}; use its uuid")
    return found[0]


def listed(records: Iterable[AggregateRecord]) -> list[dict[str, Any]]:
    """Return aggregates as operators see them."""
    return [
        {
            "id": each.id,
            "uuid": each.uuid,
            "name": each.name,
            ZONE: each.metadata.get(ZONE),
            "hosts": sorted(each.hosts),
            "properties": each.properties,
        }
        for each in records
    ]


def show(connection: sa.Connection, text: str) -> dict[str, Any]:
    """Return the details of one aggregate; see find()."""
    record = find(everything(connection), text)
    stamps = sa.select(aggregates.c.created_at, aggregates.c.updated_at)
    row = connection.execute(stamps.where(aggregates.c.id == record.id)).one()
    times = {name: str(value or "") for name, value in row._mapping.items()}
    return listed([record])[0] | times


def create(
    connection: sa.Connection, name: str, hosts: Collection[str], metadata: Mapping[str, str]
) -> str:
    """Create an aggregate and return its uuid; a name that exists raises DBDuplicateEntry."""
    uuid = str(uuid4())
    insert(connection, {"uuid": uuid, "name": name}, hosts, metadata)
    revisions.advance(connection, revisions.AGGREGATES)
    revisions.advance_eligibility(connection, hosts)
    return uuid


def insert(
    connection: sa.Connection,
    names: Mapping[str, Any],
    hosts: Iterable[str],
    metadata: Mapping[str, str],
) -> None:
    """Add the rows of an aggregate: names has its uuid and name, and the id if it is given."""
    stamps = {"created_at": utc_now(), "updated_at": utc_now()}
    result = connection.execute(sa.insert(aggregates).values(**names, **stamps))
    owner = {"aggregate_id": names.get("id") or int(result.lastrowid)}
    members = [owner | {"host": host} for host in dict.fromkeys(hosts)]
    if members:
        connection.execute(sa.insert(aggregate_hosts), members)
    pairs = [owner | {"key": key, "value": value} for key, value in metadata.items()]
    if pairs:
        connection.execute(sa.insert(aggregate_metadata), pairs)


def everything(connection: sa.Connection) -> list[AggregateRecord]:
    """Return all aggregates by id."""
    tables = (aggregates, aggregate_hosts, aggregate_metadata)
    return joined(*(connection.execute(sa.select(table)) for table in tables))


def joined(
    rows: Iterable[Any], hosts: Iterable[Any], metadata: Iterable[Any]
) -> list[AggregateRecord]:
    """Return aggregates by id from the rows of their tables, without what is left of others.

    SQLite keeps hosts and metadata of deleted aggregates.
    """
    found = {row.id: AggregateRecord(row.id, row.uuid, row.name) for row in rows}
    for row in hosts:
        if row.aggregate_id in found:
            found[row.aggregate_id].hosts.append(row.host)
    for row in metadata:
        if row.aggregate_id in found:
            found[row.aggregate_id].metadata[row.key] = row.value
    return [found[number] for number in sorted(found)]
