# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operator changes to aggregates: what their metadata and the zones of hosts may become."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import aggregates, audit_log, instances, revisions, services
from inventory.aggregates import ZONE, AggregateRecord
from inventory.audit_log import AGGREGATE, Changed
from inventory.claims.types import CONFIRMED
from inventory.dialects import utc_now
from inventory.errors import (
    InUse,
    Malformed,
    NotFound,
    checked_text,
    collated,
    counted,
    joined,
    nearest,
    nearest_each,
    some,
    taken,
)
from inventory.instance_states import released
from inventory.objects.aggregate import PROJECT_KEY
from inventory.operations import mirrored
from inventory.rows import execute_in, select_in
from inventory.tables import aggregate_hosts, aggregate_metadata, allocations
from inventory.tables import aggregates as table
from inventory.tables import services as services_table


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an aggregate; without_others removes all other properties but the zone."""

    name: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    without: Collection[str] = ()
    without_others: bool = False


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """The zone of hosts without another, and whether hosts with instances may change theirs."""

    default: str
    # The requests of the instances may have named the zone.
    with_instances: bool = False


def create(connection: sa.Connection, name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Create an aggregate without hosts."""
    mirrored.refuse_aggregates(connection, "create")
    name, properties = checked_text("name", name), checked(properties)
    check_apart(properties)
    others = _begin(connection)
    _check_free(name, others)
    try:
        uuid = aggregates.create(connection, name, (), properties)
    except DBDuplicateEntry:
        raise _taken_by_one_of(name, others) from None
    audit_log.record(
        connection, [Changed(AGGREGATE, name, {}, {"name": name, "properties": properties})]
    )
    return aggregates.show(connection, uuid)


def delete(connection: sa.Connection, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Delete aggregates without hosts, all or none of them."""
    mirrored.refuse_aggregates(connection, "delete")
    records = _begin(connection)
    found = {each.id: each for each in (aggregates.find(records, text) for text in texts)}
    for record in found.values():
        if record.hosts:
            raise InUse(
                f"aggregate {record.name} is not empty: remove its hosts first,"
                f" {some(record.hosts)}, with 'aggregate remove host'"
            )
    # SQLite does not cascade.
    metadata = sa.delete(aggregate_metadata)
    execute_in(connection, metadata, aggregate_metadata.c.aggregate_id, found)
    execute_in(connection, sa.delete(table), table.c.id, found)
    gone = (Changed(AGGREGATE, each.name, each.fields, {}) for each in found.values())
    audit_log.record(connection, gone)
    return aggregates.listed(found.values())


def change(
    connection: sa.Connection, text: str, wanted: Change, zones: ZoneRules
) -> dict[str, Any]:
    """Change the name or the properties of an aggregate."""
    is_less = not wanted.properties and bool(wanted.without)
    mirrored.refuse_aggregates(connection, "unset" if is_less else "set")
    before = _begin(connection)
    record = aggregates.find(before, text)
    if wanted.name is not None:
        name = checked_text("name", wanted.name)
        _check_free(name, (each for each in before if each.id != record.id))
        try:
            rename = sa.update(table).where(table.c.id == record.id)
            connection.execute(rename.values(name=name))
        # Some databases compare names more loosely than we do.
        except DBDuplicateEntry:
            raise _taken_by_one_of(name, before) from None
    _write_properties(connection, record, wanted)
    return _end(connection, before, record, record.hosts, zones)


def add_hosts(
    connection: sa.Connection, text: str, hosts: Iterable[str], zones: ZoneRules
) -> dict[str, Any]:
    """Add hosts that have compute services, all or none of them."""
    mirrored.refuse_aggregates(connection, "add host")
    before = _begin(connection)
    record = aggregates.find(before, text)
    names = _existing(connection, hosts)
    present, _ = _members(record, names)
    if present:
        are = f"host {present[0]} is" if len(present) == 1 else f"hosts {some(present)} are"
        raise InUse(f"{are} in aggregate {record.name} already")
    rows = [{"aggregate_id": record.id, "host": name} for name in names]
    connection.execute(sa.insert(aggregate_hosts), rows)
    return _end(connection, before, record, names, zones)


def remove_hosts(
    connection: sa.Connection, text: str, hosts: Iterable[str], zones: ZoneRules
) -> dict[str, Any]:
    """Remove hosts, with or without services, all or none of them."""
    mirrored.refuse_aggregates(connection, "remove host")
    before = _begin(connection)
    record = aggregates.find(before, text)
    names, others = _members(record, hosts)
    if others:
        raise _no_members(record, others)
    gone = sa.delete(aggregate_hosts).where(aggregate_hosts.c.aggregate_id == record.id)
    execute_in(connection, gone, aggregate_hosts.c.host, names)
    return _end(connection, before, record, names, zones)


def _begin(connection: sa.Connection) -> list[AggregateRecord]:
    """Wait for other operations to end; return the aggregates as they have left them."""
    revisions.advance(connection, revisions.AGGREGATES)
    return aggregates.everything(connection)


def _end(
    connection: sa.Connection,
    before: Sequence[AggregateRecord],
    record: AggregateRecord,
    hosts: Iterable[str],
    zones: ZoneRules,
) -> dict[str, Any]:
    """Check the zones of hosts after the change, and log it; return the aggregate as it is now."""
    after = aggregates.everything(connection)
    is_now = next(each for each in after if each.id == record.id)
    # A project may use all hosts unless some are set aside for it.
    keys = {*record.metadata, *is_now.metadata}
    everywhere = any(key.startswith(PROJECT_KEY) for key in keys)
    revisions.advance_eligibility(connection, hosts, everywhere)
    _check_zones(connection, (before, after), hosts, zones)
    changed = Changed(AGGREGATE, record.name, record.fields, is_now.fields, [*hosts])
    audit_log.record(connection, [changed])
    stamp = sa.update(table).where(table.c.id == record.id).values(updated_at=utc_now())
    connection.execute(stamp)
    return aggregates.show(connection, record.uuid)


def _check_free(name: str, others: Iterable[AggregateRecord]) -> None:
    for each in others:
        if collated(each.name) == collated(name):
            raise taken("an aggregate", name, each.name)


def _taken_by_one_of(name: str, others: Iterable[AggregateRecord]) -> InUse:
    """Return the error for a name that the database takes for that of another aggregate."""
    known = (each.name for each in others if collated(each.name) == collated(name))
    return taken("an aggregate", name, next(known, name))


def _write_properties(connection: sa.Connection, record: AggregateRecord, wanted: Change) -> None:
    new = checked(wanted.properties)
    without = {key.strip() for key in wanted.without}
    for key in sorted(without - record.metadata.keys()):
        known = ", ".join(sorted(record.metadata)) or "none"
        raise NotFound(f"aggregate {record.name} has no property {key!r}; it has {known}")
    if wanted.without_others:
        without |= record.properties.keys()
    check_apart((record.metadata.keys() - without) | new.keys())
    gone = sa.delete(aggregate_metadata).where(aggregate_metadata.c.aggregate_id == record.id)
    execute_in(connection, gone, aggregate_metadata.c.key, without | new.keys())
    rows = [{"aggregate_id": record.id, "key": key, "value": new[key]} for key in new]
    if rows:
        connection.execute(sa.insert(aggregate_metadata), rows)


def _existing(connection: sa.Connection, hosts: Iterable[str]) -> list[str]:
    """Return names of hosts, once each, as compute services spell them, and lock the services."""
    rows, unknown = services.find_all(connection, hosts, services.COMPUTE[0])
    live = sa.select(services_table.c.id, services_table.c.host).where(
        services_table.c.binary == services.COMPUTE[0], services_table.c.deleted == 0
    )
    # In the order in which others lock services.
    locked = select_in(
        connection, live.with_for_update(), services_table.c.host, [row.host for row in rows]
    )
    names = {row.id: row.host for row in locked}
    unknown += [row.host for row in rows if row.id not in names]
    if unknown:
        known = (each.host for each in services.all_live(connection, services.COMPUTE[0], ["host"]))
        there = "'service list' shows the registered services"
        texts, hint = nearest_each("host", unknown, known, there)
        raise NotFound(
            f"there is no compute service on {texts}: start berthmaster-agent there first; {hint}"
        )
    return [names[row.id] for row in rows]


def _members(record: AggregateRecord, hosts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the hosts in an aggregate, once each and as it spells them, and those not in it."""
    spelled = {each.casefold(): each for each in record.hosts} | {
        each: each for each in record.hosts
    }
    inside: dict[str, None] = {}
    outside = []
    for host in dict.fromkeys(hosts):
        text = host.strip()
        name = spelled.get(text, spelled.get(text.casefold()))
        if name is None:
            outside.append(host)
        else:
            inside[name] = None
    return [*inside], outside


def _no_members(record: AggregateRecord, hosts: Sequence[str]) -> NotFound:
    has = f"has {some(record.hosts)}" if record.hosts else "has no hosts"
    if len(hosts) == 1:
        hint = nearest(hosts[0], record.hosts, "")
        are = f"host {hosts[0]!r} is not in aggregate {record.name}, which {has}"
        return NotFound(f"{are}; {hint}" if hint else are)
    names, _ = nearest_each("host", hosts, record.hosts, "")
    return NotFound(f"aggregate {record.name}, which {has}, lacks {names}")


def _check_zones(
    connection: sa.Connection,
    change: tuple[Sequence[AggregateRecord], Sequence[AggregateRecord]],
    hosts: Iterable[str],
    zones: ZoneRules,
) -> None:
    """Raise InUse if a change puts one of the hosts into two zones, or changes its zone in use.

    A zone is in use by instances and claims. change are the aggregates before and after it.
    """
    before, after = change
    was, will_be = aggregates.zones_by_host(before), aggregates.zones_by_host(after)
    nowhere: set[str] = set()
    moving: dict[str, str] = {}
    for host in sorted(hosts):
        old, new = was.get(host, nowhere), will_be.get(host, nowhere)
        # A host that was in several may leave them one by one.
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
        f"host {host} would be in several availability zones, {joined(ways)}, but can be in"
        " one only: remove the host from one of these aggregates first"
    )


def _check_empty(connection: sa.Connection, moving: Mapping[str, str]) -> None:
    there: dict[str, set[str]] = {}
    for row in instances.of_hosts(connection, moving):
        if not released(row.vm_state, row.task_state):
            there.setdefault(row.host, set()).add(row.uuid)
    query = sa.select(allocations.c.host, allocations.c.instance_uuid)
    unconfirmed = query.where(allocations.c.state != CONFIRMED)
    for row in select_in(connection, unconfirmed, allocations.c.host, moving):
        there.setdefault(row.host, set()).add(row.instance_uuid)
    if there:
        hosts = some(f"{host} ({len(each)}, {moving[host]})" for host, each in there.items())
        number = sum(map(len, there.values()))
        raise InUse(
            f"{counted(number, 'instance')} would be in another availability zone than before, on"
            f" {hosts}: move {'it' if number == 1 else 'them'} away first, or allow the change of"
            " zone with --with-instances"
        )


# The rule of Nova.
_KEY = re.compile(r"[a-zA-Z0-9_:. -]+")
# ZONE:HOST requests a host.
_NOT_IN_ZONES = {
    ",": "a host can be in one zone only",
    ":": "the name of a zone cannot contain a colon",
}


def checked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return valid properties without blanks around them; raises Malformed."""
    return {(key := _key(text)): _value(key, value) for text, value in properties.items()}


def check_apart(keys: Iterable[str]) -> None:
    """Raise Malformed for keys that are equal to some databases."""
    known: dict[str, str] = {}
    for key in sorted(keys):
        other = known.setdefault(key.lower(), key)
        if other != key:
            raise Malformed("property", f"{other!r} and {key!r} differ by letter case only")


def _key(text: str) -> str:
    key = checked_text("property", text)
    if not _KEY.fullmatch(key):
        raise Malformed(
            "property", f"{key!r} has other characters than letters, digits, blanks and - _ : ."
        )
    return key


def _value(key: str, text: str) -> str:
    value = checked_text(key, text)
    if key == ZONE:
        for character, why in _NOT_IN_ZONES.items():
            if character in value:
                raise Malformed(ZONE, f"{value!r}: {why}")
    return value
