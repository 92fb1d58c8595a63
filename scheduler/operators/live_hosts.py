# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Live hosts for what decides beside the schedulers, by their configuration.

It asks no scheduler and claims nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from oslo_config import cfg

from inventory.claims.group_locks import read_members
from inventory.engine import Database
from inventory.errors import NotFound
from scheduler.host_cache.requested_mix import RequestedMix
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.capacity import Simulator
from scheduler.select_destinations.destination_builder import build_destinations, requested_mix
from scheduler.select_destinations.destinations import Destinations
from scheduler.select_destinations.request_builder import build_request, with_members
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class LiveHosts:
    """The hosts as they are now, and the decisions of a scheduler with this configuration."""

    database: Database
    destinations: Destinations
    mix: RequestedMix

    @classmethod
    def of(cls, conf: cfg.ConfigOpts, database: Database, max_age: float) -> Self:
        """Return the hosts, which are read again when they are older than max_age seconds.

        Raises PluginError.
        """
        destinations = build_destinations(conf, database)
        destinations.host_cache.max_age = max_age
        return cls(database, destinations, requested_mix(conf, database, destinations.host_cache))

    def simulator(
        self,
        progress: Callable[[int], None] = lambda _: None,
        may_go_on: Callable[[], bool] = lambda: True,
    ) -> Simulator:
        return Simulator.of(self.destinations.driver, progress, may_go_on)

    def with_group(self, spec: RequestSpec) -> RequestSpec:
        """Return a request with the server group of its hint, and the hosts of its members.

        Raise NotFound for a group that is not there.
        """
        arguments = SelectArguments(spec, [spec.instance_uuid])
        try:
            request = build_request(arguments, RequestContext(is_admin=True), self.database, 1)
        except InvalidInput as error:
            raise NotFound(f"{error.reason}; see 'server group list'") from error
        if self.destinations.claimer is None:
            return request.spec
        members = read_members(self.database.read, [request.spec.instance_group])
        return with_members(request, (), members).spec

    def table(self, spec: RequestSpec) -> HostTable:
        """Return a working copy of the hosts, with their trust levels if the request needs them."""
        with self.destinations.hosts(spec, self.destinations.settings) as hosts:
            return hosts.working_copy()

    def detached_table(self, spec: RequestSpec) -> HostTable:
        """Return table() as a copy that does not change with the host cache, nor it with this."""
        with self.destinations.hosts(spec, self.destinations.settings) as hosts:
            return hosts.detached()
