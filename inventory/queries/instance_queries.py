# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances as operators know them: where they are or will be, and what is known about each.

An instance is known by the row that an agent or the builder of instances has written, by a claim,
or by both. One that moves has several places.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from inventory import decisions, server_groups
from inventory.claims.types import ALTERNATE, PENDING
from inventory.errors import Malformed, NotFound, nearest
from inventory.queries import host_queries, name_queries
from inventory.rows import named, time_text, where_given
from inventory.tables import allocations, decision_instances, instances

# uuids of a name in an error.
_LISTED = 10
# Characters from which on a text is an id or a uuid rather than a name.
_ID = 32
_PLACE = ("uuid", "display_name", "project_id", "flavor_name", "host", "node")
_SIZE = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_CLAIM = (
    *("state", "host", "node", "vcpus", "memory_mb", "disk_mb"),
    *("request_id", "created_at", "expires_at"),
)
_LIVE = instances.c.deleted == 0
_Row = dict[str, Any]


def listed(
    connection: sa.Connection, host: str | None = None, project: str | None = None
) -> list[_Row]:
    """Return the instances, or those of a host and a project, by their hosts and names.

    Each place of an instance is a row; the state is pending where only a claim says that it will
    be there. Sizes are in MB and GB. Raise NotFound for a host or a project that is not known.
    """
    if host is not None:
        host = host_queries.spelled_host(connection, host)
    if project is not None:
        _check_project(connection, project)
    rows = [*_instances(connection, host, project), *_pending(connection, host, project)]
    return sorted(rows, key=lambda row: (row["host"], row["name"] or "", row["uuid"]))


def show(connection: sa.Connection, text: str) -> _Row:
    """Return what is known about the instance of a uuid or a name; raise NotFound, Malformed."""
    uuid = _find(connection, text.strip())
    c, claims = instances.c, _claims(connection, uuid)
    columns = (c[name] for name in (*_PLACE, *_SIZE, "vm_state", "task_state"))
    query = sa.select(*columns).where(c.uuid == uuid, _LIVE).order_by(c.host, c.node)
    places = named(connection.execute(query))
    group = server_groups.memberships(connection, [uuid]).get(uuid)
    newest = decisions.find(connection, uuid, 1)
    return {
        "uuid": uuid,
        **_facts(connection, uuid, places),
        "host": ", ".join(dict.fromkeys(row.host for row in places)) or None,
        "places": [
            {"host": row.host, "node": row.node, "state": row.vm_state, "task": row.task_state}
            for row in places
        ],
        "claims": claims,
        "server_group": group.group_name if group else None,
        "server_group_uuid": group.group_uuid if group else None,
        "decision": newest[0].id if newest else None,
        "decided_at": time_text(newest[0].decided_at) if newest else None,
        "decision_outcome": newest[0].outcome if newest else None,
    }


def _instances(connection: sa.Connection, host: str | None, project: str | None) -> list[_Row]:
    c = instances.c
    columns = [c[name] for name in (*_PLACE, *_SIZE, "vm_state", "task_state")]
    query = sa.select(*columns).where(_LIVE)
    query = where_given(query, (c.host, host), (c.project_id, project))
    return [
        _place(row) | {"state": row.vm_state, "task": row.task_state}
        for row in named(connection.execute(query))
    ]


def _pending(connection: sa.Connection, host: str | None, project: str | None) -> list[_Row]:
    """Return where instances will be by their pending claims, if they are not there."""
    a, c = allocations.c, instances.c
    there = sa.exists().where(c.uuid == a.instance_uuid, c.host == a.host, c.node == a.node, _LIVE)
    names = sa.select(sa.func.max(c.display_name)).where(c.uuid == a.instance_uuid, _LIVE)
    columns = [a[name] for name in (*_PLACE, *_SIZE) if name not in ("uuid", "display_name")]
    query = sa.select(
        a.instance_uuid.label("uuid"), names.scalar_subquery().label("display_name"), *columns
    ).where(a.state == PENDING, ~there)
    query = where_given(query, (a.host, host), (a.project_id, project))
    rows = named(connection.execute(query))
    return [_place(row) | {"state": PENDING, "task": None} for row in rows]


def _place(row: Any) -> _Row:
    return {
        "uuid": row.uuid,
        "name": row.display_name,
        "host": row.host,
        "node": row.node,
        "project_id": row.project_id,
        "flavor": row.flavor_name,
        **_sizes(row),
    }


def _sizes(row: Any) -> _Row:
    disk = (row.root_gb or 0) + (row.ephemeral_gb or 0)
    return {"vcpus": row.vcpus, "memory_mb": row.memory_mb, "disk_gb": disk}


def _facts(connection: sa.Connection, uuid: str, places: Iterable[Any]) -> _Row:
    """Return name, project, flavor and size by the first of the places, else by a claim."""
    row = next(iter(places), None)
    name = row.display_name if row else None
    if row is None:
        a = allocations.c
        columns = (a[each] for each in ("project_id", "flavor_name", *_SIZE))
        of_it = sa.select(*columns).where(a.instance_uuid == uuid).order_by(a.state != PENDING)
        row = connection.execute(of_it).first()
    assert row is not None, "found before"
    facts = {"name": name, "project_id": row.project_id, "flavor": row.flavor_name}
    return facts | _sizes(row)


def _claims(connection: sa.Connection, uuid: str) -> list[_Row]:
    """Return the claims of an instance: the pending one first, its alternates last."""
    a = allocations.c
    query = sa.select(*(a[name] for name in _CLAIM)).where(a.instance_uuid == uuid)
    query = query.order_by(a.state != PENDING, a.state == ALTERNATE, a.id)
    rows = connection.execute(query).mappings()
    times = ("created_at", "expires_at")
    # Plain keys, since YAML writes none of SQLAlchemy's names.
    return [
        {name: time_text(row[name]) if name in times else row[name] for name in _CLAIM}
        for row in rows
    ]


def _find(connection: sa.Connection, text: str) -> str:
    """Return the uuid of the instance of a uuid, else of a name, else of the start of a uuid.

    Names are compared in any letter case.
    """
    c, a, folded = instances.c, allocations.c, text.lower()
    for column, condition in ((c.uuid, _LIVE), (a.instance_uuid, sa.true())):
        known = connection.scalar(
            sa.select(column).where(column.in_((text, folded)), condition).limit(1)
        )
        if known is not None:
            return str(known)
    query = sa.select(c.uuid, c.display_name, c.host).where(_LIVE)
    rows = connection.execute(query.where(sa.func.lower(c.display_name) == folded)).all()
    exact = [row for row in rows if row.display_name == text]
    hosts: dict[str, list[str]] = {}
    for row in exact or rows or _beginning(connection, folded):
        hosts.setdefault(row.uuid, []).append(row.host)
    if len(hosts) > 1:
        raise _ambiguous("the name" if rows else "a uuid that begins with", text, hosts)
    if hosts:
        return next(iter(hosts))
    raise _unknown(connection, text)


def _beginning(connection: sa.Connection, start: str) -> Sequence[Any]:
    """Return (uuid, host) of the instances and of pending claims whose uuids begin so."""
    c, a = instances.c, allocations.c
    there = c.uuid.startswith(start, autoescape=True)
    coming = a.instance_uuid.startswith(start, autoescape=True)
    query = sa.union(
        sa.select(c.uuid, c.host).where(there, _LIVE),
        # Reserved places are rows there, too, and no instances.
        sa.select(a.instance_uuid.label("uuid"), a.host).where(coming, a.state == PENDING),
    )
    return named(connection.execute(query)) if start else []


def _ambiguous(what: str, text: str, hosts: Mapping[str, Iterable[str]]) -> Malformed:
    shown = [f"{uuid} on {', '.join(sorted(on))}" for uuid, on in sorted(hosts.items())]
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return Malformed(
        "instance",
        f"{len(shown)} instances have {what} {text!r}: {'; '.join(shown[:_LISTED])}{more}; name"
        " one of them by its uuid",
    )


def _unknown(connection: sa.Connection, text: str) -> NotFound:
    of_it = sa.select(decision_instances.c.decision_id).where(
        decision_instances.c.instance_uuid == text.lower()
    )
    if connection.scalar(of_it.limit(1)) is not None:
        return NotFound(
            f"instance {text!r} is on no host and has no claim; 'berthmaster explain {text}' shows"
            " the decision about the instance"
        )
    known = name_queries.names(connection, "instances")
    hint = _similar(text, known, "see 'instance list'")
    return NotFound(f"there is no instance {text!r}; {hint}")


def _check_project(connection: sa.Connection, name: str) -> None:
    """Raise NotFound unless an instance, a claim or one of the newest decisions has a project."""
    c, a = instances.c, allocations.c
    query = sa.union(sa.select(c.project_id).where(_LIVE), sa.select(a.project_id))
    known = {each for each in connection.scalars(query) if each}
    known.update(name_queries.names(connection, "projects"))
    if name not in known:
        hint = _similar(name, known, "see 'instance list --long'")
        raise NotFound(f"there is no instance of a project {name!r}; {hint}")


def _similar(text: str, known: Iterable[str], otherwise: str) -> str:
    like = name_queries.nearest_of_ids if len(text) >= _ID else nearest
    return like(text, known, otherwise)
