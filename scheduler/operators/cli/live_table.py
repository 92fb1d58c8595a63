# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Live hosts for commands that decide themselves, by the configuration of the schedulers.

They ask no scheduler and claim nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cliff.app import App

from inventory.engine import Database
from scheduler.destination_builder import build_destinations, requested_mix
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.capacity import Simulator
from scheduler.operators.cli.database_connection import checked_database
from scheduler.operators.cli.terminal import Progress, progress
from scheduler.request_builder import build_request
from scheduler.select_destinations import Destinations
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext

BLIND_SPOTS = (
    "It does not see what only running schedulers know: instances they assume where [claims]"
    " enabled = false, and the instances and aggregates that Nova's services have reported to them."
)
NOT_SEEN = (
    "The command decides by itself, on the present state of the database, and claims nothing."
    f" {BLIND_SPOTS}"
)


@dataclass(frozen=True, slots=True)
class LiveHosts:
    """The hosts as they are now, and the decisions of a scheduler with this configuration."""

    database: Database
    destinations: Destinations

    def simulator(self, show: Progress = lambda _: None) -> Simulator:
        return Simulator.of(self.destinations.driver, show)

    def with_group(self, spec: RequestSpec) -> RequestSpec:
        """Return a request with the server group of its hint, and the hosts of its members.

        Raise what build_request() does.
        """
        arguments = SelectArguments(spec, [spec.instance_uuid])
        request = build_request(arguments, RequestContext(is_admin=True), self.database, 1)
        claimer = self.destinations.claimer
        return claimer.with_members(request.spec, ()) if claimer else request.spec

    def table(self, spec: RequestSpec) -> HostTable:
        """Return a working copy of the hosts, with their trust levels if the request needs them."""
        with self.destinations.hosts(spec, self.destinations.driver) as hosts:
            return hosts.working_copy()

    def detached_table(self, spec: RequestSpec) -> HostTable:
        """Return table() as a copy that does not change with the host cache, nor it with this."""
        with self.destinations.hosts(spec, self.destinations.driver) as hosts:
            return hosts.detached()


@contextmanager
def live_hosts(app: App) -> Iterator[LiveHosts]:
    """Yield the hosts, read once; raise PluginError, DatabaseUnavailable and SchemaError."""
    with checked_database(app) as database:
        with progress(app, "reading the hosts"):
            found = LiveHosts(database, build_destinations(app.conf, database))
            # One reading for the whole command, so that its results are consistent.
            found.destinations.host_cache.max_age = float("inf")
            found.destinations.host_cache.refresh()
            requested_mix(app.conf, database, found.destinations.host_cache).refresh()
        yield found
