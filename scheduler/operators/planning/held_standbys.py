# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What hosts hold for standbys while a plan moves instances; the standbys stay where they are.

While an instance moves it is in the failure domains of both of its hosts, so its standby counts for
these and those, as the standbys of both places do when schedulers decide about the move.
"""

from collections.abc import Iterable

import numpy as np

from inventory.objects.amounts import NOTHING, Amounts, covers, larger, plus
from inventory.objects.standby import held
from scheduler.decision.pipeline import Plan
from scheduler.decision.plugin_calls import passes_at
from scheduler.filters._bounds import OvercommitFilter
from scheduler.hosts.columns import Mask
from scheduler.hosts.failure_domains import domains_of, in_any
from scheduler.hosts.host_state import usage_changes
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import StandbySums
from scheduler.operators.planning.types import HeldStandby


def holders(hosts: HostTable, rows: Iterable[int]) -> list[dict[str, str]]:
    """Return for what the hosts of rows hold room, those alone that hold any, by host."""
    pairs = ((row, hosts.promises.get(hosts.get(row, "node_id"))) for row in rows)
    found = [(hosts.get(row, "host"), held.holders()) for row, held in pairs if held]
    return [{"host": host, "for": what} for host, what in sorted(found)]


class HeldStandbys:
    """The standbys on the hosts of a table.

    leaving are those of this step as they were before their instances moved.
    """

    def __init__(self, hosts: HostTable, plan: Plan) -> None:
        self._hosts = hosts
        self._bounds = [each for each in plan.filters if isinstance(each, OvercommitFilter)]
        self._sums = StandbySums(hosts)
        self.leaving: list[HeldStandby] = []

    def targets(self, standby: HeldStandby, spec: RequestSpec) -> Mask:
        """Return the hosts to which an instance may move so that its standby holds where it is.

        They do not fail together with the host of the standby, and this has room for what the
        failure domains of the new host would bring then.
        """
        hosts = self._hosts
        found = ~in_any(hosts, domains_of(hosts, standby.row))
        # A domain that brings nothing else there needs no more than is held for the present one.
        for name, amounts in self._sums.of.get(standby.row, {}).items():
            if not self._has_room(standby, spec, plus(amounts, standby.size)):
                found &= ~in_any(hosts, [name])
        return np.asarray(found, np.bool_)

    def why_not(self, standby: HeldStandby, spec: RequestSpec, row: int) -> str | None:
        """Return why an instance may not move to a row, None where its standby holds then."""
        if self.targets(standby, spec)[row]:
            return None
        host = self._hosts.get(standby.row, "host")
        return f"its standby on {host} would not hold for the loss of this host"

    def free_for(self, copy: HostTable, standby: HeldStandby, needs: Amounts) -> None:
        """Free what the host of a standby holds for standbys, for the instance evacuated to it."""
        if covers(standby.size, needs):
            all_held = held(self._sums.of.get(standby.row, {}))
            copy.add_to(standby.row, usage_changes(*plus(NOTHING, all_held, -1)))

    def move(self, before: HeldStandby, after: HeldStandby | None) -> None:
        """Hold a standby for the new place too, or no more where the instance has taken it."""
        if after is None:
            self._change(before, -1)
        else:
            self._change(after, 1)
            self.leaving.append(before)

    def move_back(self, before: HeldStandby, after: HeldStandby | None) -> None:
        if after is None:
            self._change(before, 1)
        else:
            self._change(after, -1)
            self.leaving.remove(before)

    def end(self, standbys: list[HeldStandby]) -> None:
        """End the standbys of places that instances have left."""
        self.leaving = []
        for each in standbys:
            self._change(each, -1)

    def take_end_back(self, standbys: list[HeldStandby]) -> None:
        self.leaving = standbys
        for each in standbys:
            self._change(each, 1)

    def _has_room(self, standby: HeldStandby, spec: RequestSpec, brought: Amounts) -> bool:
        """Return whether the host of a standby has room where a failure domain brings so much."""
        now = held(self._sums.of.get(standby.row, {}))
        more = plus(larger(now, brought), now, -1)
        if more == NOTHING:
            return True
        copy = self._hosts.working_copy()
        # The request needs as much as the standby: it fits then if what is held more does.
        copy.add_to(standby.row, usage_changes(*plus(more, standby.size, -1)))
        return all(passes_at(copy, rule, spec, standby.row) for rule in self._bounds)

    def _change(self, standby: HeldStandby, sign: int) -> None:
        self._sums.change(standby.row, standby.domains, standby.size, sign)
