# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The audit log: what operators and agents have changed, written in the transaction of the change.

A transaction is logged if it has an actor. The command of operators gives one to all that it does,
agents to the switching of their own services, and of those that Nova has switched. What serves
requests or follows Nova else has none.
"""

import json
import os
import pwd
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

import sqlalchemy as sa

from inventory import stored_documents
from inventory.dialects import current_time
from inventory.errors import some
from inventory.objects.field_types import without_surrogates
from inventory.rows import CHUNK, select_in, time_text
from inventory.tables import audit_log as table

# The option of a connection or of an engine that has the actor.
ACTOR = "berthmaster_actor"
# Kinds of objects. A host stands for its compute service.
HOST, SERVICE, AGGREGATE, GROUP = "host", "service", "aggregate", "server group"
RESERVATION, CLAIM = "reservation", "claim"
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something: the account or the given name, the machine, and the command there.

    changed_at is when, if not now.
    """

    operator: str
    machine: str
    command: str
    changed_at: datetime | None = None

    @classmethod
    def of_process(cls, command: str, operator: str | None = None) -> Self:
        """Return the actor of this process, by default in the name of its account."""
        return cls((operator or account())[:255], socket.gethostname()[:255], command)


class Changed(NamedTuple):
    """The fields of one object before and after a change, {} where it does not exist."""

    kind: str
    name: str
    before: Fields
    after: Fields
    hosts: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries are looked for: of this host, aggregate or operator, not older than since.

    The host is found in any case.
    """

    host: str | None = None
    aggregate: str | None = None
    operator: str | None = None
    since: datetime | None = None


def account() -> str:
    """Return the account of this process by its real uid, with who became root by sudo beside it.

    Variables of the environment may say anything; only root's is that of sudo, which root alone
    could have changed.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    # Some containers have no entry for the user.
    except KeyError:
        name = str(uid)
    by = os.environ.get("SUDO_USER", "") if uid == 0 else ""
    return without_surrogates(f"{name} (sudo by {by})" if by and by != name else name)


def acting(connection: sa.Connection, actor: Actor) -> sa.Connection:
    """Return the connection, whose transaction is logged as that of an actor from here on."""
    return connection.execution_options(**{ACTOR: actor})


def record(connection: sa.Connection, changes: Iterable[Changed]) -> None:
    """Write an entry for each change of which a field differs, if the transaction has an actor."""
    actor = connection.get_execution_options().get(ACTOR)
    if actor is None:
        return
    entries = [*_entries(changes)]
    if entries:
        # Read first: drivers send many rows together only if all of their values are parameters.
        about = asdict(actor)
        about["changed_at"] = actor.changed_at or current_time(connection)
        connection.execute(sa.insert(table), [about | each for each in entries])


def search(connection: sa.Connection, wanted: EntryFilter, limit: int) -> list[dict[str, Any]]:
    """Return the newest entries that are wanted, the newest first; times are in UTC."""
    c = table.c
    query = sa.select(table).order_by(c.id.desc()).limit(limit)
    if wanted.host is not None:
        folded = _json(wanted.host).lower()
        query = query.where(sa.func.lower(c.hosts).contains(folded, autoescape=True))
    if wanted.aggregate is not None:
        query = query.where(c.kind == AGGREGATE, c.name == wanted.aggregate)
    if wanted.operator is not None:
        query = query.where(c.operator == wanted.operator)
    if wanted.since is not None:
        query = query.where(c.changed_at >= wanted.since)
    return [_document(row._asdict()) for row in connection.execute(query)]


def turned_on(
    connection: sa.Connection, switches: Collection[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, Any] | None]:
    """Return the entries of the changes by which switches, (host, name), were turned on.

    All of them are on. None for those that are not in the log. A reason that was changed later is
    no such change.
    """
    c, found = table.c, dict.fromkeys(switches)
    for switch in {name for _, name in switches}:
        turned = _is_on(c.before, switch) != _is_on(c.after, switch)
        newest = sa.select(sa.func.max(c.id)).where(c.kind == HOST, turned).group_by(c.name)
        hosts = {host for host, name in switches if name == switch}
        ids = [number for (number,) in select_in(connection, newest, c.name, hosts)]
        for row in select_in(connection, sa.select(table), c.id, ids):
            entry = _document(row._asdict())
            if entry["after"].get(switch) not in (None, False):
                found[row.name, switch] = entry
    return found


def _is_on(fields: sa.Column[str], switch: str) -> sa.ColumnElement[bool]:
    """Return where fields, as JSON, have a switch that is on: true, or a reason."""
    return sa.or_(*(fields.contains(f'"{switch}":{on}', autoescape=True) for on in ("true", '"')))


def in_words(fields: Fields) -> str:
    """Return fields of an entry as a line for people."""
    return ", ".join(f"{key}={_word(value)}" for key, value in fields.items())


def prune(connection: sa.Connection, keep: float) -> bool:
    """Delete some entries that are older than this, in seconds; return whether there were any."""
    until = current_time(connection) - timedelta(seconds=keep)
    # Other processes that prune wait here.
    old = sa.select(table.c.id).where(table.c.changed_at < until)
    in_order = old.order_by(table.c.changed_at, table.c.id).limit(CHUNK)
    ids = connection.scalars(in_order.with_for_update()).all()
    return bool(connection.execute(sa.delete(table).where(table.c.id.in_(ids))).rowcount)


def _entries(changes: Iterable[Changed]) -> Iterator[dict[str, Any]]:
    for kind, name, before, after, hosts in changes:
        old, new = _without(before, after), _without(after, before)
        if old or new:
            texts = {"hosts": _json(sorted(hosts)), "before": _json(old), "after": _json(new)}
            yield {"kind": kind, "name": name, **texts}


def _without(fields: Fields, others: Fields) -> dict[str, Any]:
    """Return the fields that differ from others: of a list or a mapping, what differs in it."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        other = others.get(key)
        if value == other:
            continue
        if isinstance(value, Mapping):
            value = _without(value, other or {})
        elif isinstance(value, list):
            value = sorted({*value} - {*(other or ())})
        if value or key in others:
            found[key] = value
    return found


def _word(value: Any) -> str:
    if isinstance(value, list):
        return some(value) or "none"
    if isinstance(value, Mapping):
        return f"({in_words(value)})"
    return "none" if value in (None, "") else str(value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    read = {name: _read(row, name) for name in ("hosts", "before", "after")}
    return {**row, "changed_at": time_text(row["changed_at"]), **read}


def _read(row: Mapping[str, Any], name: str) -> Any:
    """Return a column of an entry; an unreadable one costs no other entry."""
    kind = list if name == "hosts" else dict
    found = stored_documents.read(
        lambda text: kind(json.loads(text)),
        row[name],
        f"Column {name} of entry {row['id']} of the audit log",
        "the entry is shown without this column, until it is old enough to be deleted",
    )
    return kind() if found is None else found
