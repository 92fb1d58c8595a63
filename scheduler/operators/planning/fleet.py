# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A fleet on which moves are tried: what the filters allow, what moves change, and undoing them.

While the moves of a step run, each instance counts on both of its hosts: the old ones give room
back when the step ends.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np

from inventory.objects.amounts import NOTHING, amounts_of
from scheduler.decision.pipeline import Plan, allowed, filter_hosts
from scheduler.decision.plugin_calls import applies, passes_at
from scheduler.decision.prefilter import COMPUTE_SERVICE, why_not
from scheduler.decision.types import Refusal
from scheduler.decision.weighing import weigh_hosts
from scheduler.hosts.columns import Mask
from scheduler.hosts.failure_domains import domains_of
from scheduler.hosts.host_state import Consumption, HostState, assumed_instance
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import add_instance, remove_instance
from scheduler.operators.planning.held_standbys import HeldStandbys
from scheduler.operators.planning.residents import evacuation_obstacle, located, with_members
from scheduler.operators.planning.types import EVACUATION, HeldStandby, Place, PlannedMove, Resident

Change = Callable[[], object]
# A host as it is while its service runs: that it does not is no fault of what it holds.
_SERVED = {"service_disabled": False, "forced_down": False, "unserved": False, "heartbeat_age": 0.0}


class Fleet:
    """Hosts, which it changes, with the residents that may move and the moves so far.

    plan has the filters and weighers of the schedulers. down are the rows of hosts whose service
    is down. Rows of closed, those at first, take no instance; those of avoided only what no other
    row takes. Those of lost are taken for down though they run.
    """

    def __init__(
        self, hosts: HostTable, residents: Iterable[Resident], plan: Plan, down: Mask | None = None
    ) -> None:
        self.hosts = hosts
        self.plan = plan
        self.residents = {each.uuid: each for each in residents}
        self.down: Mask = np.zeros(hosts.size, np.bool_) if down is None else down
        self.closed: Mask = self.down.copy()
        self.lost: Mask = np.zeros(hosts.size, np.bool_)
        self.avoided: Mask = np.zeros(hosts.size, np.bool_)
        self.stage = self._step = 1
        self._moves: dict[int, PlannedMove] = {}
        self._numbers = count()
        self._on: dict[int, dict[str, Resident]] = {}
        for each in self.residents.values():
            self._on.setdefault(each.row, {})[each.uuid] = each
        self._standbys = HeldStandbys(hosts, plan)
        # By row, what leaves it when the step ends.
        self._leaving: dict[int, list[tuple[str, Consumption]]] = {}
        # Those of this step by instance: how to move it, and how to take the move back.
        self._reversible: dict[str, tuple[Change, Change]] = {}
        self._undo: list[Change] = []

    @property
    def moves(self) -> list[PlannedMove]:
        """The moves in the order in which they were made."""
        return [*self._moves.values()]

    def on(self, row: int) -> list[Resident]:
        """Return the residents of a row, those not included that leave it in this step."""
        return [*self._on.get(row, {}).values()]

    def allow_evacuation(self, rows: Iterable[int]) -> None:
        """Let a plan evacuate the residents of those of these rows that are down or lost.

        Only a plan in which an operator has asked for that may: local disks are lost by it.
        """
        for row in rows:
            for each in self.on(row) if self._is_gone(row) else ():
                each.fixed = evacuation_obstacle(each)

    def kind_of_move(self, resident: Resident) -> str:
        return EVACUATION if self._is_gone(resident.row) else resident.kind

    def place(self, row: int) -> Place:
        return Place(self.hosts.get(row, "host"), self.hosts.get(row, "nodename"))

    def request(self, resident: Resident) -> RequestSpec:
        """Return the request to move a resident, with the present hosts of its group's members."""
        return located(resident.spec.for_instance(resident.uuid), self.hosts)

    def passing(self, spec: RequestSpec, hosts: HostTable | None = None) -> tuple[HostTable, Mask]:
        """Return a copy of the hosts, and which pass all filters for a request and are not closed.

        hosts are those of the fleet, or another state of the same.
        """
        copy = (hosts or self.hosts).working_copy()
        spec = with_members(spec, copy, self._standbys_beside(spec))
        candidates, _ = allowed(copy, spec, self.plan)
        candidates &= ~self.closed
        if spec.instance_uuid is not None:
            candidates[[*self.hosts.instances.rows_of(spec.instance_uuid)]] = False
        if kept := self._standby_of(spec, is_lost=False):
            candidates &= self._standbys.targets(kept, spec)
        mask, _ = filter_hosts(copy, spec, self.plan.filters, candidates)
        return copy, mask

    def best(self, spec: RequestSpec) -> int | None:
        """Return the row that schedulers would choose of those preferred, None without any.

        An instance that is evacuated goes to its standby.
        """
        own = self._standby_of(spec, is_lost=True)
        if own and not self.closed[own.row] and self.takes(spec, own.row):
            return own.row
        copy, mask = self.passing(spec)
        if not mask.any():
            return None
        rows, spec = np.flatnonzero(self.preferred(mask)), located(spec, copy)
        ranking = weigh_hosts(copy, spec, self.plan.weighers, rows)
        return int(rows[ranking.best_first(1)[0]])

    def preferred(self, mask: Mask) -> Mask:
        """Return those of some rows that are not avoided, and have no free devices, if there are.

        These are left to requests for devices, of which no other row passes the filters.
        """
        devices = self.hosts.memo("pci_stats", "some free", lambda of: bool(of and of.free()), bool)
        for worse in (self.avoided, devices):
            better = mask & ~worse
            mask = better if better.any() else mask
        return mask

    def takes(self, spec: RequestSpec, row: int, without: Iterable[Resident] = ()) -> bool:
        """Return whether a row, closed or not, passes all filters once these of it have left."""
        return self.refusal_at(spec, row, without) is None

    def refusal_at(
        self, spec: RequestSpec, row: int, without: Iterable[Resident] = ()
    ) -> Refusal | None:
        """Return why a row is refused to a request once these residents of it have left."""
        copy = self.hosts.working_copy()
        for each in without:
            remove_instance(copy, row, each.uuid, each.given_back)
        own, kept = (self._standby_of(spec, is_lost) for is_lost in (True, False))
        if own and own.row == row:
            self._standbys.free_for(copy, own, amounts_of(spec))
        if kept and (why := self._standbys.why_not(kept, spec, row)):
            return Refusal(*self.place(row), "failover", why)
        if not allowed(copy, spec, self.plan)[0][row]:
            reason = why_not(copy, spec, COMPUTE_SERVICE, row)
            return Refusal(*self.place(row), COMPUTE_SERVICE, reason)
        return self._refusal(copy, spec, row, self._standbys_beside(spec))

    def consumption(self, spec: RequestSpec, row: int) -> Consumption:
        return HostState.of(self.hosts.working_copy(), row).consume_from_request(spec)

    def move(self, resident: Resident, row: int, reason: str) -> None:
        """Move a resident to a row, where it fits; the old row gets its room back at end_step()."""
        # Moves of a step run side by side, so it has one of them at most.
        if resident.uuid in self._reversible:
            self.end_step()
        taken = self.consumption(self.request(resident), row)
        before, gives = resident.row, resident.given_back
        had, is_gone = (resident.taken, resident.place, resident.standby), self._is_gone(before)
        standby = resident.standby_if(is_gone)
        if standby and standby.of_place and standby.row != row:
            # Evacuated elsewhere, it leaves its place and the standby of that.
            standby = None
        there_too = standby and standby._replace(domains=domains_of(self.hosts, row))
        after = None if is_gone else there_too
        move = PlannedMove(
            resident.uuid,
            self.place(before),
            self.place(row),
            resident.spec.memory_mb,
            resident.spec.disk_mb,
            self.kind_of_move(resident),
            reason,
            self.stage,
            self._step,
        )
        there = replace(resident.instance, host=move.target.host, node=move.target.node)
        leaving, number = self._leaving.setdefault(before, []), next(self._numbers)

        def do() -> None:
            self._moves[number] = move
            leaving.append((resident.uuid, gives))
            add_instance(self.hosts, row, there, taken)
            self._settle(resident, row, taken, NOTHING, after)
            if standby:
                self._standbys.move(standby, after)
            self._reversible[resident.uuid] = do, undo

        def undo() -> None:
            del self._moves[number], self._reversible[resident.uuid]
            leaving.remove((resident.uuid, gives))
            remove_instance(self.hosts, row, resident.uuid, taken)
            self._settle(resident, before, *had)
            if standby:
                self._standbys.move_back(standby, after)

        self.apply(do, undo)

    def take_back(self, resident: Resident) -> None:
        """Take back the move of a resident in this step, on which no other one depends."""
        do, undo = self._reversible[resident.uuid]
        self.apply(undo, do)

    def add(self, spec: RequestSpec, row: int) -> None:
        """Place a new instance on a row, so that nothing else takes its room."""
        uuid = spec.instance_uuid
        assert uuid is not None
        taken = self.consumption(spec, row)
        instance = assumed_instance(spec, uuid, *self.place(row))
        self.apply(
            lambda: add_instance(self.hosts, row, instance, taken),
            lambda: remove_instance(self.hosts, row, uuid, taken),
        )

    def end_step(self) -> None:
        """End the step: the hosts that instances have left get their room back."""
        leaving, step, standbys = self._leaving, self._step, self._standbys.leaving
        if not any(leaving.values()):
            return
        reversible = self._reversible
        gone = [(row, *each) for row, listed in leaving.items() for each in listed]
        instances = [self.hosts.instances.on(row)[uuid] for row, uuid, _ in gone]

        def do() -> None:
            self._leaving, self._step, self._reversible = {}, step + 1, {}
            for row, uuid, taken in gone:
                remove_instance(self.hosts, row, uuid, taken)
            self._standbys.end(standbys)

        def undo() -> None:
            self._leaving, self._step, self._reversible = leaving, step, reversible
            self._standbys.take_end_back(standbys)
            for (row, _, taken), instance in zip(gone, instances, strict=True):
                add_instance(self.hosts, row, instance, taken)

        self.apply(do, undo)

    def end_stage(self) -> None:
        """End the stage with its last step; the next one begins with step 1."""
        self.end_step()
        stage, step = self.stage, self._step

        def set_to(stage: int, step: int) -> None:
            self.stage, self._step = stage, step

        self.apply(lambda: set_to(stage + 1, 1), lambda: set_to(stage, step))

    def closing(self, rows: Iterable[int]) -> AbstractContextManager[None]:
        return _marking(self.closed, rows)

    def avoiding(self, rows: Iterable[int]) -> AbstractContextManager[None]:
        return _marking(self.avoided, rows)

    @contextmanager
    def losing(self, rows: Iterable[int]) -> Iterator[None]:
        """Lose the hosts of rows in the block: they take nothing, and what they have may leave."""
        rows = [*rows]
        with _marking(self.lost, rows), self.closing(rows):
            self.allow_evacuation(rows)
            yield

    def apply(self, do: Change, undo: Change) -> None:
        """Make a change that roll_back() undoes."""
        do()
        self._undo.append(undo)

    def mark(self) -> int:
        """Return a mark to which roll_back() can return."""
        return len(self._undo)

    def roll_back(self, mark: int) -> None:
        """Undo all that was done since the mark; closed rows stay closed."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def refusal_here(self, resident: Resident, without: Iterable[Resident] = ()) -> Refusal | None:
        """Return why a filter would refuse a resident the host that it is on, None where none does.

        What leaves the host in this step has left it, and so have these others. That the service of
        the host is down or disabled does not count.
        """
        copy, row = self.hosts.working_copy(), resident.row
        others = {each.uuid: each.given_back for each in without}
        gone = others | {resident.uuid: resident.taken}
        for uuid, taken in (gone | dict(self._leaving.get(row, ()))).items():
            remove_instance(copy, row, uuid, taken)
        for name, value in _SERVED.items():
            copy.set(row, name, value)
        return self._refusal(copy, resident.spec.for_instance(resident.uuid), row)

    def _refusal(
        self,
        copy: HostTable,
        spec: RequestSpec,
        row: int,
        standbys: Mapping[str, int] = MappingProxyType({}),
    ) -> Refusal | None:
        """Return why the first filter that refuses a row does so; the copy is changed."""
        spec = with_members(spec, copy, standbys)
        for rule in (*self.plan.request_filters, *self.plan.filters):
            if applies(rule, spec) and not passes_at(copy, rule, spec, row):
                reason = rule.reason(HostState.of(copy, row), spec)
                return Refusal(*self.place(row), rule.name, reason)
        return None

    def _standbys_beside(self, spec: RequestSpec) -> dict[str, int]:
        """Return the rows with standbys of other members of the server group, by instance."""
        members = spec.instance_group.members if spec.instance_group else ()
        others = (self.residents.get(each) for each in members if each != spec.instance_uuid)
        return {each.uuid: each.standby.row for each in others if each and each.standby}

    def _is_gone(self, row: int) -> bool:
        return bool(self.down[row] or self.lost[row])

    def _standby_of(self, spec: RequestSpec, is_lost: bool) -> HeldStandby | None:
        """Return the standby of a resident if its host is lost, or if it is not."""
        resident = self.residents.get(spec.instance_uuid or "")
        if resident is None or self._is_gone(resident.row) != is_lost:
            return None
        return resident.standby_if(is_lost)

    def _settle(self, resident: Resident, row: int, taken: Consumption, *promised: Any) -> None:
        del self._on[resident.row][resident.uuid]
        resident.row, resident.taken, (resident.place, resident.standby) = row, taken, promised
        self._on.setdefault(resident.row, {})[resident.uuid] = resident


@contextmanager
def _marking(mask: Mask, rows: Iterable[int]) -> Iterator[None]:
    """Have rows in a mask in the block."""
    before = mask.copy()
    mask[[*rows]] = True
    try:
        yield
    finally:
        mask[:] = before
