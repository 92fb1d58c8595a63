# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The methods that operators' tools call on the topic 'compute', in the namespace 'berthmaster'.

They are served under a name of our own, see scheduler.client.agent_client. What only reads or
writes rows may be asked of any agent about any host: the agent of a dead host cannot be asked, and
its service is the one to delete.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import oslo_messaging
from oslo_config import cfg
from oslo_log import log

from compute_agent.identity import shortened
from compute_agent.rpc_arguments import served
from compute_agent.virt.driver import Driver, DriverCannot
from conf.service import liveness_limit
from conf.settings_in_effect import settings_in_effect
from inventory import services
from inventory.engine import Database
from inventory.operations import service_operations
from inventory.queries import host_queries, hypervisor_queries
from scheduler.client.agent_client import NAMESPACE, VERSION
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import ComputeHostNotFound, Forbidden, InvalidInput, Unsupported

LOG = log.getLogger(__name__)
COMPUTE = services.COMPUTE[0]
POWER_ACTIONS = ("startup", "reboot", "shutdown")
Row = dict[str, Any]
T = TypeVar("T")


class HostEndpoint:
    """Queries and operations of operators. host is by default the agent's own.

    What changes a service answers the service's switches and logs who did it.
    """

    target = oslo_messaging.Target(namespace=NAMESPACE, version=VERSION)

    def __init__(self, conf: cfg.ConfigOpts, database: Database, driver: Driver) -> None:
        self._conf = conf
        self._database = database
        self._driver = driver

    @served
    def ping(self, caller: RequestContext, *, arg: str | None = None) -> Row:
        """Return the name of the agent."""
        return {"service": "berthmaster-agent", "host": self._conf.host, "arg": arg}

    @served
    def config_show(self, caller: RequestContext) -> Row:
        """Return the options of this agent and what set each, without secrets, to operators."""
        if not caller.is_admin:
            raise Forbidden("Only administrators may see the configuration.")
        return {"settings": settings_in_effect(self._conf)}

    @served
    def host_list(self, caller: RequestContext, *, zone: str | None = None) -> list[Row]:
        """Return the nodes of all hosts, or of the hosts of a zone."""
        return self._in_zones(host_queries.listed, zone)

    @served
    def host_describe(self, caller: RequestContext, *, host: str | None = None) -> list[Row]:
        """Return what a host has and what is used of it, also by project."""
        return self._read(host_queries.describe, self._or_own(host))

    @served
    def set_host_enabled(
        self,
        caller: RequestContext,
        *,
        enabled: bool,
        reason: str | None = None,
        host: str | None = None,
    ) -> Row:
        """Enable or disable a host."""
        if not enabled:
            return self._change(caller, "disabled", service_operations.disable, host, reason)
        if reason is not None:
            raise InvalidInput("reason: only a host that is being disabled can have a reason")
        return self._change(caller, "enabled", service_operations.enable, host)

    @served
    def host_maintenance_mode(
        self,
        caller: RequestContext,
        *,
        mode: bool,
        reason: str | None = None,
        host: str | None = None,
    ) -> Row:
        """Begin or end the maintenance of a host."""
        if mode:
            begin = service_operations.begin_maintenance
            return self._change(caller, "put into maintenance", begin, host, reason)
        if reason is not None:
            raise InvalidInput("reason: the end of maintenance has no reason")
        end = service_operations.end_maintenance
        return self._change(caller, "taken out of maintenance", end, host)

    @served
    def host_power_action(
        self, caller: RequestContext, *, action: str, host: str | None = None
    ) -> Row:
        """Start, reboot or shut down a host of this agent, if an option and the driver allow it."""
        host = self._own(self._or_own(host))
        if action not in POWER_ACTIONS:
            raise InvalidInput(f"action: {action!r} is not one of {', '.join(POWER_ACTIONS)}")
        if not self._conf.compute_agent.allow_host_power_actions:
            raise Forbidden(
                "power actions are not allowed on this agent: set [compute_agent]"
                " allow_host_power_actions"
            )
        # Before it is done, since this machine may go down with it.
        LOG.info("Asked to %s host %s by %s", action, host, _name(caller))
        try:
            return {"host": host, "power_action": self._driver.act_on_power(host, action)}
        except DriverCannot as error:
            raise Unsupported(
                f"the {self._conf.compute_driver} driver cannot {error.what}"
            ) from error

    @served
    def get_host_uptime(self, caller: RequestContext, *, hypervisor: str | None = None) -> Row:
        """Return since when a hypervisor of this agent runs, by the clock of this machine."""
        name = self._or_own(hypervisor)
        self._own(self._read(hypervisor_queries.find, name).host)
        return self._read(hypervisor_queries.uptime, self._limit, name, time.time())

    @served
    def service_list(self, caller: RequestContext, *, binary: str | None = None) -> list[Row]:
        """Return the services of all hosts."""
        return self._in_zones(services.listed, binary)

    @served
    def service_enable(
        self, caller: RequestContext, *, host: str | None = None, binary: str = COMPUTE
    ) -> Row:
        """Enable a service."""
        return self._change(caller, "enabled", service_operations.enable, host, binary)

    @served
    def service_disable(
        self,
        caller: RequestContext,
        *,
        reason: str | None = None,
        host: str | None = None,
        binary: str = COMPUTE,
    ) -> Row:
        """Disable a service."""
        return self._change(caller, "disabled", service_operations.disable, host, reason, binary)

    @served
    def service_force_down(
        self,
        caller: RequestContext,
        *,
        forced_down: bool = True,
        host: str | None = None,
        binary: str = COMPUTE,
    ) -> Row:
        """Count a service as down, or go by its heartbeat again."""
        what = "forced down" if forced_down else "no longer forced down"
        force_down = service_operations.force_down
        return self._change(caller, what, force_down, host, forced_down, binary)

    @served
    def service_delete(
        self,
        caller: RequestContext,
        *,
        host: str | None = None,
        binary: str = COMPUTE,
        forget_guests: bool = False,
    ) -> Row:
        """Delete a service that has ended and, with a compute service, its host."""
        more = self._limit, binary, forget_guests
        return self._change(caller, "deleted", service_operations.delete, host, *more)

    @served
    def hypervisor_list(self, caller: RequestContext, *, matching: str | None = None) -> list[Row]:
        """Return the hypervisors of all hosts, or those whose name contains a text."""
        return self._read(hypervisor_queries.listed, self._limit, matching)

    @served
    def hypervisor_show(self, caller: RequestContext, *, hypervisor: str | None = None) -> Row:
        """Return all that is known of a hypervisor."""
        return self._read(hypervisor_queries.show, self._limit, self._or_own(hypervisor))

    @served
    def hypervisor_stats(self, caller: RequestContext) -> dict[str, int]:
        """Return the sums of the figures of all enabled hypervisors."""
        return self._read(hypervisor_queries.stats)

    @served
    def hypervisor_servers(
        self, caller: RequestContext, *, hypervisor: str | None = None
    ) -> list[Row]:
        """Return the instances on the hypervisors of a name."""
        return self._read(hypervisor_queries.servers, self._or_own(hypervisor))

    def _or_own(self, host: str | None) -> str:
        return self._conf.host if host is None else host

    def _own(self, host: str) -> str:
        """Return the name, as the driver spells it, of a host that is this agent's."""
        own = self._driver.hosts()
        for each in own:
            if each.casefold() == host.strip().casefold():
                return each
        raise ComputeHostNotFound(
            f"the agent {self._conf.host} serves {shortened(own)}, not {host!r}"
        )

    def _read(self, work: Callable[..., T], *arguments: Any) -> T:
        return self._database.read(lambda connection: work(connection, *arguments))

    def _in_zones(self, work: Callable[..., T], *arguments: Any) -> T:
        return self._read(work, self._limit, self._conf.default_availability_zone, *arguments)

    def _change(
        self,
        caller: RequestContext,
        what: str,
        work: Callable[..., list[Row]],
        host: str | None,
        *more: Any,
    ) -> Row:
        """Change the service of a host, log who did it, and return the change."""
        hosts = [self._or_own(host)]
        (done,) = self._database.write_once(lambda connection: work(connection, hosts, *more))
        reason = f": {done['disabled_reason']}" if done.get("disabled_reason") else ""
        service = done["binary"], done["host"]
        LOG.info("Service %s on %s was %s by %s%s", *service, what, _name(caller), reason)
        return done

    @property
    def _limit(self) -> int:
        return liveness_limit(self._conf)


def _name(caller: RequestContext) -> str:
    return f"{caller.user_name or caller.user_id or 'an unnamed user'} ({caller.request_id})"
