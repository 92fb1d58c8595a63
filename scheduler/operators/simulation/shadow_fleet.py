# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The fleet as it would be, had other rules decided since a time."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from scheduler.operators.occupancy import add_instance, remove_instance, reported
from scheduler.operators.simulation.simulation import Decide


class _Place(NamedTuple):
    host: str
    node: str


class ShadowFleet:
    """Where other rules have put the instances that they were asked about, None where they refused.

    All else is as it is: which hosts there are, which instances were there before, and which leave.
    """

    def __init__(self) -> None:
        self._places: dict[str, _Place | None] = {}

    def view(self, real: HostTable, undecided: Collection[str] = ()) -> HostTable:
        """Return the would-be fleet of real hosts, without instances that are yet to be decided.

        An instance that has left for real is forgotten.
        """
        found = real.working_copy()
        taken_out = dict(_taken_out(found, {*self._places, *undecided}))
        self._places = {uuid: at for uuid, at in self._places.items() if uuid in taken_out}
        for uuid, place in self._places.items():
            # A host that is gone has nothing on it.
            row = None if place is None else found.names.row_of(*place)
            if row is not None:
                instance = taken_out[uuid]
                add_instance(found, row, instance, reported(instance), _is_built_now(instance))
        return found

    def decide(self, hosts: HostTable, request: Request, decide: Decide) -> Decision:
        """Return the decision about a request on a view, on which its instances then are."""
        decision = decide(hosts.working_copy(), request)
        for uuid in filter(None, request.instance_uuids):
            self._places[uuid] = None
        for each in decision.placements if decision.shortage is None else ():
            chosen = each.chosen
            if each.instance_uuid is not None and each.taken is not None:
                HostState.of(hosts, chosen.row).consume(each.taken)
                self._places[each.instance_uuid] = _Place(chosen.host, chosen.nodename)
        return decision


def _taken_out(hosts: HostTable, uuids: Collection[str]) -> Iterator[tuple[str, Instance]]:
    """Take instances off hosts, as far as they are there; yield their uuids with what they are."""
    for uuid in uuids:
        for row in [*hosts.instances.rows_of(uuid)]:
            instance = hosts.instances.on(row)[uuid]
            remove_instance(hosts, row, uuid, reported(instance), _is_built_now(instance))
            yield uuid, instance


def _is_built_now(instance: Instance) -> bool:
    """Return whether an instance counts as being built, as one does that is claimed only."""
    return instance.vm_state == "building"
