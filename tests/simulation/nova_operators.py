# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operators of a simulated Nova cloud, who switch hosts and aggregates in Nova.

They are told that it is done once Berthmaster shows it.
"""

import time
from collections.abc import Callable
from typing import Any

from inventory import aggregates, services
from inventory.nova.computes import COMPUTE
from inventory.objects.aggregate import FAILURE_DOMAIN
from tests.databases import a_uuid
from tests.simulation.model import Violation
from tests.simulation.nova_cloud import NovaCloud
from tests.simulation.operators import TENANT, Operator

# Seconds within which what was changed in Nova is shown where no mirror and no database is broken.
STALENESS = 10.0
# The same where anything may be.
LONGEST = 120.0


class NovaOperator(Operator):
    """Switches hosts and aggregates in Nova; all else is as with other clouds."""

    def __init__(self, cloud: NovaCloud, is_calm: bool, *of_operator: Any) -> None:
        super().__init__(*of_operator)
        self._cloud, self._is_calm = cloud, is_calm

    def _disable(self, host: str) -> None:
        self._switch(host, True)
        self._model.disabled.add(host)

    def _enable(self, host: str) -> None:
        self._model.disabled.discard(host)
        self._switch(host, False)

    def _isolate(self, host: str) -> None:
        self._aggregate(f"only-{host}", [host], {"filter_tenant_id": TENANT})
        self._model.projects[host] = TENANT

    def _share(self, host: str) -> None:
        self._model.projects.pop(host, None)
        self._aggregate(f"only-{host}", [], {"filter_tenant_id": TENANT})

    def _rack(self, hosts: list[str]) -> None:
        self._aggregate("rack", hosts, {FAILURE_DOMAIN: "rack"})
        self._model.rack.update(hosts)

    def _switch(self, host: str, disabled: bool) -> None:
        reason = "told" if disabled else None
        changed = {"disabled": disabled, "disabled_reason": reason}
        self._cloud.cell.change("services", ("host", host), **changed)

        def is_shown(connection: Any) -> bool:
            found = services.find(connection, host, COMPUTE)
            return found is not None and services.switched_off(found)[0] == disabled

        self._wait(is_shown)

    def _aggregate(self, name: str, hosts: list[str], metadata: dict[str, str]) -> None:
        """Make an aggregate of Nova's have these hosts."""
        rows = self._cloud.api
        text = "SELECT id FROM aggregates WHERE name = ?"
        found = rows.connection.execute(text, [name]).fetchone()
        number = found[0] if found else rows.add("aggregates", name=name, uuid=a_uuid(name))
        for key, value in metadata.items() if not found else ():
            rows.add("aggregate_metadata", aggregate_id=number, key=key, value=value)
        rows.remove("aggregate_hosts", ("aggregate_id", number))
        for host in hosts:
            rows.add("aggregate_hosts", aggregate_id=number, host=host)

        def is_shown(connection: Any) -> bool:
            there = {each.name: each for each in aggregates.everything(connection)}
            return name in there and [*there[name].hosts] == hosts

        self._wait(is_shown)

    def _wait(self, is_shown: Callable[[Any], bool]) -> None:
        began = self._simulator.now
        while not self._database.read(is_shown):
            limit = STALENESS if self._is_calm else LONGEST
            if self._simulator.now > began + limit:
                text = f"not shown within {limit:g} s"
                raise Violation("what an operator was told", text)
            time.sleep(0.5)
