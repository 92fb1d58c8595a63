# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an agent does for operators: all of inventory.operations, and what takes the host itself.

Whatever is only about rows may be asked of any agent about any host: an agent that is dead cannot
be asked, and it is the one whose service is to be deleted.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_log import log

from compute_agent.virt.driver import Driver, DriverCannot
from conf.service import liveness_limit
from inventory import host_usage, hypervisors, operations, services
from inventory.engine import Database
from inventory.idempotency import write_once
from inventory.refusals import Malformed, OperationRefused, Unknown
from scheduler.rpc.context import RequestContext

LOG = log.getLogger(__name__)
POWER_ACTIONS = ("startup", "reboot", "shutdown")
Row = dict[str, Any]
T = TypeVar("T")


class NotAllowed(OperationRefused):
    """The configuration of the agent forbids it."""


class NotPossible(OperationRefused):
    """The driver has no way to do it."""


class HostOperations:
    """Looks at hosts and switches them. Where no host is named it is that of the agent.

    All methods raise inventory.refusals.OperationRefused and DatabaseUnavailable; what changes
    something takes the caller first and leaves a line in the log.
    """

    def __init__(self, conf: cfg.ConfigOpts, database: Database, driver: Driver) -> None:
        self._conf = conf
        self._database = database
        self._driver = driver

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return str(self._conf.host)

    def host_list(self, zone: str | None) -> list[Row]:
        """Return the nodes of all hosts, or of those of a zone."""
        return self._read(host_usage.listed, self._limit, self._default_zone, zone)

    def describe(self, host: str | None) -> list[Row]:
        """Return what a host has and what is used of it, also by project."""
        return self._read(host_usage.describe, self._or_own(host))

    def service_list(self, binary: str | None) -> list[Row]:
        """Return the services of all hosts."""
        return self._read(services.listed, self._limit, self._default_zone, binary)

    def hypervisor_list(self, matching: str | None) -> list[Row]:
        """Return the hypervisors of all hosts, or those whose name contains a text."""
        return self._read(hypervisors.listed, self._limit, matching)

    def hypervisor(self, name: str | None) -> Row:
        """Return all that is known of a hypervisor."""
        return self._read(hypervisors.show, self._limit, self._or_own(name))

    def hypervisor_stats(self) -> dict[str, int]:
        """Return the sums of the figures of all enabled hypervisors."""
        return self._read(hypervisors.stats)

    def servers(self, name: str | None) -> list[Row]:
        """Return the instances on the hypervisors of a name."""
        return self._read(hypervisors.servers, self._or_own(name))

    def uptime(self, name: str | None) -> Row:
        """Return since when a hypervisor of this agent runs, by the clock of this machine."""
        name = self._or_own(name)
        self._own(self._read(hypervisors.find, name).host)
        return self._read(hypervisors.uptime, self._limit, name, time.time())

    def enable(self, caller: RequestContext, host: str | None, binary: str) -> Row:
        """Let a host have new instances again."""
        done = self._write(operations.enable, self._or_own(host), binary)
        return _accepted(caller, "enabled", done)

    def disable(
        self, caller: RequestContext, host: str | None, reason: str | None, binary: str
    ) -> Row:
        """Let a host have no new instances."""
        done = self._write(operations.disable, self._or_own(host), reason, binary)
        return _accepted(caller, "disabled", done)

    def maintenance(
        self, caller: RequestContext, host: str | None, on: bool, reason: str | None
    ) -> Row:
        """Begin or end the maintenance of a host."""
        if on:
            done = self._write(operations.begin_maintenance, self._or_own(host), reason)
            return _accepted(caller, "put into maintenance", done)
        done = self._write(operations.end_maintenance, self._or_own(host))
        return _accepted(caller, "taken out of maintenance", done)

    def force_down(self, caller: RequestContext, host: str | None, down: bool, binary: str) -> Row:
        """Count a service as down, or go by its heartbeat again."""
        done = self._write(operations.force_down, self._or_own(host), down, binary)
        return _accepted(caller, "forced down" if down else "no longer forced down", done)

    def delete(
        self, caller: RequestContext, host: str | None, binary: str, forget_guests: bool
    ) -> Row:
        """Delete a service and, with a compute service, its host."""
        done = self._write(
            operations.delete, self._or_own(host), self._limit, binary, forget_guests
        )
        return _accepted(caller, "deleted", done)

    def act_on_power(self, caller: RequestContext, host: str | None, action: str) -> Row:
        """Start, reboot or shut down a host of this agent, if an option and the driver allow it.

        Raises DriverError as well.
        """
        host = self._own(self._or_own(host))
        if action not in POWER_ACTIONS:
            raise Malformed("action", f"{action!r} is none of {', '.join(POWER_ACTIONS)}")
        if not self._conf.compute_agent.allow_host_power_actions:
            raise NotAllowed(
                "power actions are not allowed on this agent: set [compute_agent]"
                " allow_host_power_actions"
            )
        # Before it is done, since this machine may go down with it.
        LOG.info("Asked to %s host %s by %s", action, host, _who(caller))
        try:
            return {"host": host, "power_action": self._driver.act_on_power(host, action)}
        except DriverCannot as error:
            raise NotPossible(
                f"the {self._conf.compute_driver} driver cannot {error.what}"
            ) from error

    def _or_own(self, host: str | None) -> str:
        return self.agent if host is None else host

    def _own(self, host: str) -> str:
        """Return the name, as the driver spells it, of a host that is this agent's."""
        own = self._driver.hosts()
        for each in own:
            if each.casefold() == host.strip().casefold():
                return each
        more = f" and {len(own) - 1} more" if len(own) > 1 else ""
        raise Unknown(f"the agent {self.agent} serves {own[0]}{more}, not {host!r}")

    def _read(self, work: Callable[..., T], *arguments: Any) -> T:
        return self._database.read(lambda connection: work(connection, *arguments))

    def _write(self, work: Callable[..., T], *arguments: Any) -> T:
        return write_once(self._database, lambda connection: work(connection, *arguments))

    @property
    def _limit(self) -> int:
        return liveness_limit(self._conf)

    @property
    def _default_zone(self) -> str:
        return str(self._conf.default_availability_zone)


def _accepted(caller: RequestContext, what: str, done: Row) -> Row:
    """Leave the line by which it is found out who did it."""
    LOG.info(
        "Service %s on %s was %s by %s%s",
        done["binary"],
        done["host"],
        what,
        _who(caller),
        f": {done['disabled_reason']}" if done.get("disabled_reason") else "",
    )
    return done


def _who(caller: RequestContext) -> str:
    return f"{caller.user_name or caller.user_id or 'somebody'} ({caller.request_id})"
