# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Live hosts for commands that decide themselves, and what they do not see."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from cliff.app import App

from inventory.errors import NotReported
from inventory.queries import promised
from scheduler.hosts.table import HostTable
from scheduler.operators.cli.database_connection import checked_database
from scheduler.operators.cli.terminal import progress
from scheduler.operators.live_hosts import LiveHosts

BLIND_SPOTS = (
    "The command does not see what only running schedulers know: instances that they assume on"
    " hosts where [claims] enabled = false, and instances and aggregates that Nova's services"
    " have reported to them."
)
NOT_SEEN = (
    "The command decides by itself, on the present state of the database, and claims nothing."
    f" {BLIND_SPOTS}"
)


@contextmanager
def live_hosts(app: App) -> Iterator[LiveHosts]:
    """Yield the hosts, read once; raise PluginError, DatabaseUnavailable and SchemaError."""
    with checked_database(app) as database:
        with progress(app, "reading the hosts"):
            # One reading for the whole command, so that its results are consistent.
            found = LiveHosts.of(app.conf, database, max_age=float("inf"))
            found.destinations.host_cache.refresh()
            found.mix.refresh()
            with found.destinations.host_cache.current() as hosts:
                hosts.promises = database.read(promised.read)
        yield found


def check_reported(tables: Iterable[HostTable]) -> None:
    """Raise NotReported if there is no host in any of these tables."""
    if not any(map(len, tables)):
        raise NotReported(
            "no host has reported yet: start berthmaster-agent on the hosts, with the [database] of"
            " this command; see 'host list'"
        )
