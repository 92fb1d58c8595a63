# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What operators do to aggregates, with the rules for it.

Every order counts the revision of aggregates up before it reads any. Until its transaction ends no
other order gets further than that, so what was checked stays true, and all schedulers see the
change at their next decision. It counts the eligibility of the hosts concerned as well, before it
looks for claims there: what was decided before it cannot be claimed after it. All functions raise
OperationRefused, after which the transaction is to be rolled back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory import (
    aggregate_properties,
    aggregates,
    eligibility,
    names,
    revisions,
    services,
    zone_changes,
)
from inventory.aggregates import AggregateRecord
from inventory.chunks import chunks
from inventory.names import some
from inventory.refusals import InUse, Unknown
from inventory.tables import aggregate_hosts, aggregate_metadata, utc_now
from inventory.tables import aggregates as table
from inventory.tables import services as services_table
from inventory.zone_changes import Zones
from scheduler.objects.aggregate import PROJECT_KEY


@dataclass(frozen=True, slots=True)
class Change:
    """What of an aggregate is to be otherwise; without_others ends all properties but the zone."""

    name: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    without: Collection[str] = ()
    without_others: bool = False


def create(connection: sa.Connection, name: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Create an aggregate without hosts."""
    name, properties = names.checked("name", name), aggregate_properties.checked(properties)
    aggregate_properties.check_apart(properties)
    _check_free(name, _begin(connection))
    try:
        identity = aggregates.create(connection, name, (), properties)
    except DBDuplicateEntry:
        raise _taken(name) from None
    return _shown(connection, identity)


def delete(connection: sa.Connection, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Delete aggregates that have no hosts, all or none of them."""
    records = _begin(connection)
    found = {each.id: each for each in (aggregates.find(records, text) for text in texts)}
    for record in found.values():
        if record.hosts:
            raise InUse(
                f"aggregate {record.name} is not empty: remove its hosts first,"
                f" {some(record.hosts)}, with 'aggregate remove host'"
            )
    # A file of SQLite deletes nothing along with what it belongs to.
    for ids in chunks(list(found)):
        of_these = aggregate_metadata.c.aggregate_id.in_(ids)
        connection.execute(sa.delete(aggregate_metadata).where(of_these))
        connection.execute(sa.delete(table).where(table.c.id.in_(ids)))
    return aggregates.listed(found.values())


def change(connection: sa.Connection, text: str, asked: Change, zones: Zones) -> dict[str, Any]:
    """Give an aggregate another name, other properties, or both."""
    before = _begin(connection)
    record = aggregates.find(before, text)
    if asked.name is not None:
        others = [each for each in before if each.id != record.id]
        _rename(connection, record, names.checked("name", asked.name), others)
    _write_properties(connection, record, asked)
    return _end(connection, before, record, record.hosts, zones)


def add_host(connection: sa.Connection, text: str, host: str, zones: Zones) -> dict[str, Any]:
    """Add a host that has a compute service."""
    before = _begin(connection)
    record = aggregates.find(before, text)
    name = _existing(connection, host)
    if _member(record, name):
        raise InUse(f"host {name} is in aggregate {record.name} already")
    connection.execute(sa.insert(aggregate_hosts).values(aggregate_id=record.id, host=name))
    return _end(connection, before, record, [name], zones)


def remove_host(connection: sa.Connection, text: str, host: str, zones: Zones) -> dict[str, Any]:
    """Remove a host, which need not have a service any more."""
    before = _begin(connection)
    record = aggregates.find(before, text)
    name = _member(record, host.strip())
    if name is None:
        has = f"has {some(record.hosts)}" if record.hosts else "has none"
        raise Unknown(f"host {host!r} is not in aggregate {record.name}, which {has}")
    place = sa.and_(aggregate_hosts.c.aggregate_id == record.id, aggregate_hosts.c.host == name)
    connection.execute(sa.delete(aggregate_hosts).where(place))
    return _end(connection, before, record, [name], zones)


def _begin(connection: sa.Connection) -> list[AggregateRecord]:
    """Wait for all other orders to end; return the aggregates as those have left them."""
    revisions.advance(connection, revisions.AGGREGATES)
    return aggregates.everything(connection)


def _end(
    connection: sa.Connection,
    before: Sequence[AggregateRecord],
    record: AggregateRecord,
    hosts: Iterable[str],
    zones: Zones,
) -> dict[str, Any]:
    """Check what has become of the zones of hosts; return the aggregate as it is now."""
    after = aggregates.everything(connection)
    is_now = next(each for each in after if each.id == record.id)
    # Whether other hosts are open to a project depends on whether any is set aside for it.
    keys = {*record.metadata, *is_now.metadata}
    everywhere = any(key.startswith(PROJECT_KEY) for key in keys)
    eligibility.advance(connection, hosts, everywhere)
    zone_changes.check(connection, (before, after), hosts, zones)
    stamp = sa.update(table).where(table.c.id == record.id).values(updated_at=utc_now())
    connection.execute(stamp)
    return _shown(connection, record.id)


def _shown(connection: sa.Connection, identity: int) -> dict[str, Any]:
    uuid = connection.scalar(sa.select(table.c.uuid).where(table.c.id == identity))
    return aggregates.show(connection, str(uuid))


def _check_free(name: str, others: Iterable[AggregateRecord]) -> None:
    if any(each.name.casefold() == name.casefold() for each in others):
        raise _taken(name)


def _taken(name: str) -> InUse:
    return InUse(f"there is an aggregate {name!r} already; see 'aggregate list'")


def _rename(
    connection: sa.Connection, record: AggregateRecord, name: str, others: Iterable[AggregateRecord]
) -> None:
    _check_free(name, others)
    try:
        connection.execute(sa.update(table).where(table.c.id == record.id).values(name=name))
    # Some databases take more names for one than we do.
    except DBDuplicateEntry:
        raise _taken(name) from None


def _write_properties(connection: sa.Connection, record: AggregateRecord, asked: Change) -> None:
    new = aggregate_properties.checked(asked.properties)
    without = {key.strip() for key in asked.without}
    for key in sorted(without - record.metadata.keys()):
        known = ", ".join(sorted(record.metadata)) or "none"
        raise Unknown(f"aggregate {record.name} has no property {key!r}; it has {known}")
    if asked.without_others:
        without |= record.properties.keys()
    aggregate_properties.check_apart((record.metadata.keys() - without) | new.keys())
    for keys in chunks(sorted(without | new.keys())):
        of_it = aggregate_metadata.c.aggregate_id == record.id
        these = aggregate_metadata.c.key.in_(keys)
        connection.execute(sa.delete(aggregate_metadata).where(of_it, these))
    rows = [{"aggregate_id": record.id, "key": key, "value": new[key]} for key in new]
    if rows:
        connection.execute(sa.insert(aggregate_metadata), rows)


def _existing(connection: sa.Connection, host: str) -> str:
    """Return the name of a host as its compute service has it, which nobody deletes meanwhile."""
    row = services.find(connection, host, services.COMPUTE[0])
    if row is not None:
        live = sa.and_(services_table.c.id == row.id, services_table.c.deleted == 0)
        query = sa.select(services_table.c.host).where(live).with_for_update()
        name: str | None = connection.scalar(query)
        if name is not None:
            return name
    raise Unknown(
        f"there is no compute service on a host {host!r}: start berthmaster-agent there first;"
        " 'service list' shows those that there are"
    )


def _member(record: AggregateRecord, host: str) -> str | None:
    """Return the name of a host as an aggregate has it, None where it has no such host."""
    if host in record.hosts:
        return host
    return next((each for each in record.hosts if each.casefold() == host.casefold()), None)
