# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What daemons report about themselves in their service rows: release, name, start, last error."""

import time
from datetime import timedelta
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from conf.daemon.process import PACKAGE
from inventory.dialects import current_time, utc_now
from inventory.rows import time_text

if TYPE_CHECKING:
    from conf.daemon.log_records import Problem

# What fits in the column.
_LONGEST = 255


@cache
def _version() -> str:
    # Each heartbeat writes it, and it is read from a file.
    return metadata.version(PACKAGE)


def release(daemon_host: str | None = None) -> dict[str, Any]:
    """Return the columns that each heartbeat writes.

    daemon_host is the [DEFAULT] host of the daemon, by which it is called over RPC.
    """
    found = {"daemon_release": _version(), "daemon_host": daemon_host}
    return {**found, "reported_at": utc_now()}


def history(connection: sa.Connection, uptime: float, problem: "Problem | None") -> dict[str, Any]:
    """Return the columns with the start of this process, and with its last error if it had one.

    uptime is in seconds. The times are the database's. Until a process has an error of its own, the
    row keeps that of the process before it.
    """
    # Commands, which read facts only, start without the options.
    from conf.secrets import without_secrets

    now = current_time(connection, utc_now)
    found: dict[str, Any] = {"started_at": now - timedelta(seconds=uptime)}
    if problem is not None:
        found["last_error"] = without_secrets(problem.text)[:_LONGEST]
        found["last_error_at"] = now - timedelta(seconds=max(0.0, time.time() - problem.at))
    return found


def of_row(row: sa.Row[Any]) -> dict[str, str | None]:
    """Return what the daemon of a row of services.all_live() has reported; None where it has not.

    Daemons of schemas before 0014 report nothing. If one follows a later release on its host, the
    facts in the row are those of the later release, and untrue.
    """
    at = row.reported_at
    is_current = at is not None and at >= (row.last_seen_up or at)
    found = {
        "release": row.daemon_release,
        "daemon_host": row.daemon_host,
        "started_at": time_text(row.started_at),
        "last_error": row.last_error,
        "last_error_at": time_text(row.last_error_at),
    }
    return found if is_current else dict.fromkeys(found)


def caller_name(row: sa.Row[Any]) -> str:
    """Return the name by which the daemon of a row is called; of an earlier release its host's."""
    return of_row(row)["daemon_host"] or str(row.host)
