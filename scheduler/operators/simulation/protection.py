# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys of the instances of a simulation."""

from dataclasses import replace

from inventory.objects.standby import NONE, Protection
from inventory.objects.standby_sums import NodeSums
from scheduler.decision.pipeline import Request
from scheduler.decision.types import PlannedStandby
from scheduler.hosts.table import HostTable
from scheduler.operators.occupancy import StandbySums


class SimulatedProtection:
    """Protects all instances that come, in a mode; what hosts hold already stays."""

    def __init__(self, hosts: HostTable, mode: str) -> None:
        self._hosts = hosts
        self._mode = mode
        self._sums = StandbySums(hosts)
        self._standbys: dict[str, PlannedStandby] = {}

    def protected(self, request: Request) -> Request:
        """Return a request whose instances get standbys, or none by the mode none."""
        if self._mode == NONE:
            return replace(request, protection=None)
        get = self._hosts.get
        sums = NodeSums({get(row, "node_id"): each for row, each in self._sums.of.items()})
        return replace(request, protection=Protection(self._mode, sums))

    def hold(self, uuid: str, planned: PlannedStandby | None) -> None:
        if planned is not None and planned.host is not None:
            self._standbys[uuid] = planned
            self._sums.change(planned.host.row, planned.domains, planned.size, 1)

    def end(self, uuid: str) -> None:
        planned = self._standbys.pop(uuid, None)
        if planned is not None and planned.host is not None:
            self._sums.change(planned.host.row, planned.domains, planned.size, -1)
