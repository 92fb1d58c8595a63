# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The services: schedulers, agents, the database, the broker, and who holds which lease."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from importlib import metadata
from typing import Any

import sqlalchemy as sa

from conf.daemon.process import PACKAGE
from inventory import compute_nodes, daemon_facts, leases, migrations, services
from inventory.database_errors import DatabaseUnavailable
from inventory.dialects import current_time
from inventory.migrations import SchemaError
from inventory.queries.fleet import LOST, STATES, UP, state_of
from inventory.rows import time_text
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View

# Agents that are not up, and errors of agents, of which there may be thousands.
_LISTED = 50
# Agents of releases with a schema before 0014 do not report theirs.
_UNKNOWN = "unknown"
# Work that one process of several does at a time, by the name of its lease. Others are shown while
# somebody has them.
_WORK = {"nova mirror": "mirror of a Nova cloud", "standbys": "keeper of standbys"}


def view(source: Source, asked: Asked) -> View:
    """Return what is known of the services; health is that of the scheduler that was asked."""
    facts: dict[str, Any] = {
        "host": source.conf.host,
        "release": metadata.version(PACKAGE),
        "health": asked.health,
    }
    try:
        facts |= source.read(_facts, source.liveness_limit)
    # What the scheduler itself knows is wanted most then.
    except (DatabaseUnavailable, SchemaError) as error:
        facts |= {"database": {"problem": str(error)}}
    return View("Services", "services.html", facts, {"work": _WORK})


def _facts(connection: sa.Connection, limit: float) -> dict[str, Any]:
    began = time.monotonic()
    held = leases.listed(connection)
    seconds = time.monotonic() - began
    schedulers = services.all_live(connection, services.SCHEDULER[0])
    agents = [
        (state_of(row, limit), row) for row in services.all_live(connection, services.COMPUTE[0])
    ]
    states = Counter(state for state, _ in agents)
    off = sorted(
        (each for each in agents if each[0] != UP),
        key=lambda each: (each[0] not in LOST, each[1].host),
    )
    alive = [row for state, row in agents if state not in LOST]
    beats = [services.heartbeat_age(row) for row in alive]
    reports = [(row.host, daemon_facts.of_row(row)) for _, row in agents]
    return {
        "database": _database(connection, seconds),
        "schedulers": [_service(state_of(row, limit), row) for row in schedulers],
        "agents": {
            "states": {state: states[state] for state in STATES if states[state]},
            "releases": dict(Counter(each["release"] or _UNKNOWN for _, each in reports)),
            "oldest_heartbeat": round(max(beats), 1) if beats else None,
            "oldest_row": _oldest_row(connection, {row.host for row in alive}),
            "not_up": [_service(*each) for each in off[:_LISTED]],
            "last_errors": _errors(reports),
        },
        "leases": {name: _lease(*held.get(name, ("", -1.0))) for name in (*_WORK, *held)},
    }


def _oldest_row(connection: sa.Connection, alive: Collection[str]) -> dict[str, Any] | None:
    """Return of which of these hosts a node's row was written longest ago, and its age in seconds.

    Agents write a row when it changes, and at least at an interval. None without rows.
    """
    nodes = compute_nodes.all_live(connection, ("host", "updated_at"))
    written = [(each.updated_at, each.host) for each in nodes if each.host in alive]
    oldest = min((each for each in written if each[0]), default=None)
    if oldest is None:
        return None
    now = current_time(connection)
    return {"host": oldest[1], "age": round((now - oldest[0]).total_seconds(), 1)}


def _errors(reports: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the last errors of agents, the newest first, equal ones together."""
    hosts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host, each in reports:
        if each["last_error"]:
            hosts[each["last_error_at"], each["last_error"]].append(host)
    newest = sorted(hosts, reverse=True)[:_LISTED]
    return [{"at": at, "error": error, "hosts": hosts[at, error]} for at, error in newest]


def _database(connection: sa.Connection, seconds: float) -> dict[str, Any]:
    dialect = connection.dialect
    name = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    version = ".".join(map(str, dialect.server_version_info or ())) or "unknown"
    return {
        "server": f"{name} {version}",
        "schema": migrations.revision(connection),
        "milliseconds": round(1000 * seconds, 1),
    }


def _service(state: str, row: Any) -> dict[str, Any]:
    return {
        "host": row.host,
        "state": state,
        "reason": services.switched_off(row)[1],
        "heartbeat_age": round(services.heartbeat_age(row), 1),
        "registered_at": time_text(row.created_at),
        **daemon_facts.of_row(row),
    }


def _lease(owner: str, seconds: float) -> Mapping[str, Any]:
    """Return the owner of a lease and its seconds: until it ends, or since it has ended."""
    held = seconds > 0
    return {
        "held": held,
        "owner": owner or None,
        "seconds": round(abs(seconds), 1) if owner else None,
    }
