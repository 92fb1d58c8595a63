# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reserved places that the instances of a request may take, host by host.

What a place holds is part of what is used of its host. So a host with a place is judged with as
much more room as the instance needs: it fits there if the host is within its limits as it is.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from inventory.objects.amounts import amounts_of, covers
from inventory.objects.reserved_place import ReservedPlace
from scheduler.decision.types import Step
from scheduler.hosts.columns import Mask
from scheduler.hosts.host_state import BARE_METAL, usage_changes
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# The name of the step that leaves the hosts with places.
NAME = "reserved_places"


def can_take(spec: RequestSpec) -> bool:
    """Return whether places are for such a request: they have no NUMA cells and no devices."""
    needs_more = spec.numa_topology or spec.devices or spec.requested_resources
    return not (spec.is_rebuild or needs_more)


class ReservedPlaces:
    """The places that fit an instance of a request and that none of its instances has taken."""

    def __init__(
        self, hosts: HostTable, spec: RequestSpec, places: Sequence[ReservedPlace]
    ) -> None:
        self._hosts = hosts
        self._spec = spec
        needs = amounts_of(spec)
        self._by_row: dict[int, list[ReservedPlace]] = defaultdict(list)
        fitting = [each for each in places if covers(each.size, needs)] if can_take(spec) else []
        rows = self._rows_of({each.node_id for each in fitting})
        for each in sorted(fitting, key=lambda place: (place.size, place.uuid)):
            if each.node_id in rows:
                self._by_row[rows[each.node_id]].append(each)

    def masks(self) -> Iterator[Mask]:
        """Yield the hosts whose smallest place has a size, for each size from the smallest on.

        So a place that is larger than needed is taken last.
        """
        rows: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for row, places in self._by_row.items():
            rows[places[0].size].append(row)
        for size in sorted(rows):
            mask = np.zeros(self._hosts.size, np.bool_)
            mask[rows[size]] = True
            yield mask

    @contextmanager
    def room_on(self, mask: Mask) -> Iterator[None]:
        """Give hosts as much more room as an instance needs, for the time of the block."""
        rows = np.flatnonzero(mask).tolist()
        for row in rows:
            give_room(self._hosts, row, self._spec)
        try:
            yield
        finally:
            for row in rows:
                give_room(self._hosts, row, self._spec, -1)

    def take(self, row: int) -> ReservedPlace:
        """Return the smallest place of a host, which the instance there has taken.

        The host has got the instance already: what the place held is free for it.
        """
        places = self._by_row[row]
        place = places.pop(0)
        if not places:
            del self._by_row[row]
        give_room(self._hosts, row, self._spec)
        return place

    def _rows_of(self, node_ids: set[int]) -> dict[int, int]:
        """Return the rows of nodes but bare-metal ones, which instances get as a whole."""
        if not node_ids:
            return {}
        hosts = self._hosts
        found = np.flatnonzero(np.isin(hosts.node_id, list(node_ids)) & hosts.present).tolist()
        return {
            hosts.get(row, "node_id"): row
            for row in found
            if hosts.get(row, "hypervisor_type") != BARE_METAL
        }


def give_room(hosts: HostTable, row: int, spec: RequestSpec, times: int = 1) -> None:
    """Give a host as much more room as an instance needs; less of it where times is -1."""
    less = (-times * each for each in amounts_of(spec))
    hosts.add_to(row, usage_changes(*less))


def step(candidates: Mask, mask: Mask) -> Step:
    """Return the step that leaves the hosts with places."""
    before, after = np.count_nonzero(candidates), np.count_nonzero(candidates & mask)
    return Step(NAME, int(before), int(after))
