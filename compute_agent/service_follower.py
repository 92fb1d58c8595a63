# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Services of hosts that come and go, and live and are switched as the driver says."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from inventory import audit_log, services
from inventory.audit_log import Actor
from inventory.engine import Database
from inventory.heartbeat import Heartbeat
from inventory.services import ServiceState


class ServiceFollower:
    """Has the rows of services follow the states of a driver.

    limit is the age in seconds up to which a heartbeat counts as alive.
    """

    def __init__(self, database: Database, heartbeat: Heartbeat, limit: float) -> None:
        self._database = database
        self._heartbeat = heartbeat
        self._limit = limit
        self._actor = Actor.of_process("berthmaster-agent", "Nova")
        # Hosts that ended, with their services, as long as these have rows.
        self.gone: dict[str, int] = {}
        self._alive: dict[str, bool] = {}
        self._switched: dict[str, ServiceState] = {}

    def serve(self, hosts: Sequence[str], states: Mapping[str, ServiceState]) -> None:
        """Send the heartbeats of the hosts that are alive."""
        before = self._heartbeat.ids_by_host()
        self._heartbeat.serve(hosts, {each for each in hosts if not _is_alive(states, each)})
        there = frozenset(hosts)
        self.gone = {
            host: number for host, number in (self.gone | before).items() if host not in there
        }

    def report(self, states: Mapping[str, ServiceState]) -> None:
        """Have those down at once that are dead, and those up that are alive again."""
        ids = self._heartbeat.ids_by_host()
        alive = {host: _is_alive(states, host) for host in ids}
        changed = {host for host in ids if self._alive.get(host) != alive[host]}
        down = [ids[host] for host in changed if not alive[host]]
        up = [ids[host] for host in changed if alive[host]]

        def write(connection: sa.Connection) -> None:
            services.report_down(connection, down, self._limit)
            services.revive(connection, up, self._limit)

        if changed:
            self._database.write(write)
            self._alive = alive

    def switch(self, states: Mapping[str, ServiceState], everything: bool) -> None:
        """Switch the services of which the states changed, or all, and end those that are gone.

        The audit log has when each was switched. Of one that is found switched that may be unknown.
        """
        ids, known = self._heartbeat.ids_by_host(), self._switched
        unlogged: dict[int, ServiceState] = {}
        logged: dict[datetime | None, dict[int, ServiceState]] = defaultdict(dict)
        for host, each in states.items():
            is_new = known.get(host) != each
            if host not in ids or not (everything or is_new):
                continue
            at = each.switched_at if is_new else None
            found = logged[at] if at or host in known else unlogged
            found[ids[host]] = each
        gone = list(self.gone.values())

        def write(connection: sa.Connection) -> None:
            services.follow(connection, unlogged)
            services.delete(connection, gone)
            for at, found in logged.items():
                actor = replace(self._actor, changed_at=at)
                services.follow(audit_log.acting(connection, actor), found)

        if unlogged or logged or gone:
            self._database.write(write)
        self._switched, self.gone = dict(states), {}


def _is_alive(states: Mapping[str, ServiceState], host: str) -> bool:
    return host in states and states[host].is_alive
