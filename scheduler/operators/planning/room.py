# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Make room: find the fewest moves after which hosts take instances that none takes now.

The search deepens: with one move more each time, hosts and sets of their residents are tried, those
that lack the least first. Residents that move may need room as well, which others make by the moves
that are left; a cycle is broken by whatever host has room meanwhile. On small fleets the number of
moves is the smallest one. On large ones the tries are bounded: there it is small.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from scheduler.hosts.columns import Weights
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import remove_instance
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import KeepGoing, Resident

# The most moves for what is asked for, and hosts and sets of residents that are looked at for it.
MAX_MOVES = 6
MAX_HOSTS = 64
MAX_SETS = 256
# How many sets of residents are moved, to be moved back where that does not help.
MAX_TRIES = 500


class PendingPlacement(NamedTuple):
    """An instance that needs a host: its request, and how it goes to a row.

    reason is that of the moves that make room for it.
    """

    spec: RequestSpec
    take: Callable[[int], None]
    reason: str


def pending_move(fleet: Fleet, resident: Resident, reason: str) -> PendingPlacement:
    """Return a resident that is to move for a reason, as an instance that needs a host."""
    return PendingPlacement(
        resident.spec.for_instance(resident.uuid),
        lambda row: fleet.move(resident, row, reason),
        f"makes room for {resident.uuid}",
    )


class RoomSearch:
    """Place instances on a fleet, with moves of residents where there is no room."""

    def __init__(self, fleet: Fleet, keep_going: KeepGoing = lambda: True) -> None:
        self._fleet = fleet
        self._keep_going = keep_going
        self._tries = 0

    def place(self, placements: Sequence[PendingPlacement], most: int = MAX_MOVES) -> bool:
        """Place all of these instances, by the fewest moves of others, or change nothing."""
        self._tries = MAX_TRIES
        if any(self._search(placements, moves) for moves in range(most + 1) if self._has_time()):
            return True
        self._tries = MAX_TRIES
        return self._clear_a_host(placements)

    @cached_property
    def _without_residents(self) -> HostTable:
        """The hosts as they were when this was first asked, without residents that can move."""
        found = self._fleet.hosts.detached()
        for each in self._fleet.residents.values():
            if each.fixed is None:
                remove_instance(found, each.row, each.uuid, each.given_back)
        return found

    def _has_time(self) -> bool:
        return self._tries > 0 and self._keep_going()

    def _search(self, placements: Sequence[PendingPlacement], moves: int) -> bool:
        """Place all of these instances by at most `moves` moves of others, or change nothing."""
        fleet, left = self._fleet, [*placements]
        start = fleet.mark()
        while left and self._taken_at_once(left[0]):
            del left[0]
        if not left:
            return True
        for row, leaving in self._options(left[0], moves) if moves else ():
            if not self._has_time():
                break
            mark = fleet.mark()
            used = self._moved_away(row, leaving, left[0].reason, moves)
            if used is not None and fleet.takes(left[0].spec, row):
                left[0].take(row)
                if self._search(left[1:], moves - used):
                    return True
            fleet.roll_back(mark)
        fleet.roll_back(start)
        return False

    def _taken_at_once(self, pending: PendingPlacement) -> bool:
        """Place an instance without moves of others, where that is possible."""
        fleet = self._fleet
        mark = fleet.mark()
        row = fleet.best(pending.spec)
        if row is None:
            # What leaves other hosts in this step may be in its way.
            fleet.end_step()
            row = fleet.best(pending.spec) if fleet.mark() > mark else None
        if row is None:
            fleet.roll_back(mark)
            return False
        pending.take(row)
        return True

    def _moved_away(
        self, row: int, leaving: Sequence[Resident], reason: str, moves: int
    ) -> int | None:
        """Move residents off a row by at most `moves` moves; return how many it took, else None."""
        fleet, before = self._fleet, len(self._fleet.moves)
        self._tries -= 1
        with fleet.avoiding([row]):
            # The largest have the fewest hosts to go to.
            for number, each in enumerate(sorted(leaving, key=lambda each: each.size_order)):
                still = len(leaving) - number
                spare = moves - (len(fleet.moves) - before) - still
                pending = pending_move(fleet, each, reason)
                if not any(self._search([pending], more) for more in range(spare + 1)):
                    return None
        fleet.end_step()
        return len(fleet.moves) - before

    def _options(
        self, pending: PendingPlacement, moves: int
    ) -> Iterator[tuple[int, Sequence[Resident]]]:
        """Yield rows, and residents without which each takes an instance, at most `moves`."""
        fleet, spec = self._fleet, pending.spec
        for row, lacks in self._possible(spec):
            movable = [each for each in fleet.on(row) if _may_help(each, spec)]
            movable.sort(key=lambda each: (each.spec.memory_mb, each.uuid))
            looked_at = 0
            for number in range(1, moves + 1):
                for leaving in combinations(movable, number):
                    if _frees(leaving, lacks):
                        looked_at += 1
                        if fleet.takes(spec, row, leaving):
                            yield row, leaving
                    if looked_at >= MAX_SETS:
                        break

    def _possible(self, spec: RequestSpec) -> list[tuple[int, Weights]]:
        """Return rows that take a request without their residents, and what each lacks with them.

        They come in the order of that, as a share of their limits; resources without a limit are
        not counted.
        """
        hosts = self._fleet.hosts
        emptied, mask = self._fleet.passing(spec, self._without_residents)
        rows = np.flatnonzero(mask)
        most = np.array([kind.limits(emptied.limits, rows) for kind in KINDS])
        used = np.array([kind.amounts(hosts, rows)[1] for kind in KINDS])
        needs = np.array([[getattr(spec, kind.name)] for kind in KINDS])
        with np.errstate(all="ignore"):
            lacks = np.nan_to_num(np.maximum(0.0, used + needs - most))
            shares = np.nan_to_num(lacks / most).sum(axis=0)
        order = np.argsort(shares, kind="stable")[:MAX_HOSTS]
        return [(int(rows[at]), lacks[:, at]) for at in order]

    def _clear_a_host(self, placements: Sequence[PendingPlacement]) -> bool:
        """Place instances one by one, each on a host that as many residents leave as it takes."""
        fleet = self._fleet
        start = fleet.mark()
        for pending in placements:
            if not self._taken_at_once(pending) and not self._taken_after_clearing(pending):
                fleet.roll_back(start)
                return False
        return True

    def _taken_after_clearing(self, pending: PendingPlacement) -> bool:
        fleet, spec = self._fleet, pending.spec
        for row, _ in self._possible(spec):
            if not self._has_time():
                break
            leaving = self._enough(spec, row)
            mark = fleet.mark()
            used = self._moved_away(row, leaving, pending.reason, len(leaving)) if leaving else None
            if used is not None and fleet.takes(spec, row):
                pending.take(row)
                return True
            fleet.roll_back(mark)
        return False

    def _enough(self, spec: RequestSpec, row: int) -> list[Resident]:
        """Return residents without which a row takes a request, none of which could stay."""
        fleet = self._fleet
        leaving = [each for each in fleet.on(row) if _may_help(each, spec)]
        if not fleet.takes(spec, row, leaving):
            return []
        for each in sorted(leaving, key=lambda each: each.size_order):
            others = [one for one in leaving if one is not each]
            if fleet.takes(spec, row, others):
                leaving = others
        return leaving


def _may_help(resident: Resident, spec: RequestSpec) -> bool:
    """Return whether it may help a request that a resident moves.

    Where one of the same kind goes that is as large, the instance of the request could go at once.
    """
    other = resident.spec
    is_alike = _kind(other) == _kind(spec) and not (other.instance_group or spec.instance_group)
    is_as_large = all(getattr(other, kind.name) >= getattr(spec, kind.name) for kind in KINDS)
    return resident.fixed is None and not (is_alike and is_as_large)


def _kind(spec: RequestSpec) -> tuple[Any, ...]:
    """Return what filters look at besides the size."""
    flavor, cells = spec.flavor.name, spec.numa_topology
    return spec.project_id, spec.availability_zone, flavor, spec.image, cells, spec.pci_requests


def _frees(leaving: Sequence[Resident], lacks: Weights) -> bool:
    """Return whether residents give back at least these vCPUs, MB of memory and MB of disk."""
    taken = [each.given_back for each in leaving]
    # Not by KINDS, which takes twice as long: it is asked of every set of residents.
    return bool(
        sum(each.vcpus for each in taken) >= lacks[0]
        and sum(each.memory_mb for each in taken) >= lacks[1]
        and sum(each.disk_mb for each in taken) >= lacks[2]
    )
