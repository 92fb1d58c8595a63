# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Plan the moves after which a resource or a metric is used alike on all hosts, within a margin."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.hosts.columns import Mask, Weights
from scheduler.hosts.metrics import metric_values
from scheduler.hosts.resources import KINDS, resources
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import (
    Budget,
    KeepGoing,
    MovePlan,
    PlannedMove,
    Resident,
    Unplanned,
    cost_of,
)
from scheduler.operators.planning.unplanned import explain_unplanned

RESOURCES = ("vcpus", "memory", "disk")
# Gains below this are an error of rounding.
_LEAST_GAIN = 1e-9


@dataclass(slots=True)
class Load:
    """What is used of what each host has, in one unit, and what of it each instance uses.

    Hosts without any of it, or without the metric, have NaN for capacity.
    """

    name: str
    used: Weights
    capacity: Weights
    amounts: Mapping[str, float]

    @property
    def shares(self) -> Weights:
        """The share of each host that is in use, 1 for a full one, NaN where there is none."""
        return self.used / self.capacity


def resource_load(fleet: Fleet, name: str) -> Load:
    """Return the load of a resource, by what instances have of it and hosts may give, in all."""
    place = RESOURCES.index(name)
    found = resources(fleet.hosts)[place]
    limit = np.where(found.limit > 0, found.limit, np.nan)
    size = KINDS[place].name
    amounts = {each.uuid: float(getattr(each.spec, size)) for each in fleet.residents.values()}
    return Load(name, limit - found.free, limit, amounts)


def metric_load(fleet: Fleet, name: str) -> Load:
    """Return the load of a metric in per cent of each host, by the vCPUs of its instances.

    What a host measures is shared out to its instances by their vCPUs, and it is taken that an
    instance is as busy on another host, in relation to what this one has of physical CPUs.
    """
    hosts = fleet.hosts
    metrics = (metric_values(hosts.get(row, "metrics")) for row in range(hosts.size))
    percent = np.array([each.get(name, np.nan) for each in metrics])
    capacity = np.where(np.isfinite(percent), hosts.vcpus_total, np.nan)
    used = percent / 100.0 * capacity
    amounts: dict[str, float] = {}
    for row in hosts.rows():
        here = fleet.on(row)
        vcpus = sum(each.spec.vcpus for each in here)
        for each in here:
            amounts[each.uuid] = float(used[row]) * each.spec.vcpus / max(1, vcpus)
    return Load(name, used, capacity, amounts)


def balance(
    fleet: Fleet, load: Load, margin: float, budget: Budget, keep_going: KeepGoing
) -> MovePlan:
    """Return moves after which the shares in use of no two hosts differ by more than the margin.

    Each move is the one that brings the loads closest together. Hosts that are disabled or down, or
    have nothing of the resource, are left out. Where no move helps any more, what keeps instances
    on the fullest host is among the unplanned ones.
    """
    hosts = fleet.hosts
    counted = hosts.served & ~hosts.service_disabled & ~fleet.down & np.isfinite(load.capacity)
    counted &= load.capacity > 0
    before = _spread(load, counted)
    cost, stuck = cost_of(()), False
    while _spread(load, counted) > margin and keep_going():
        found = _best_move(fleet, load, counted)
        if found is None:
            # What leaves hosts in this step may be in the way.
            mark = fleet.mark()
            fleet.end_step()
            found = _best_move(fleet, load, counted) if fleet.mark() > mark else None
        stuck = found is None
        if found is None or not budget.has(cost.plus(cost_of([found[0]]))):
            break
        resident, row = found
        cost = cost.plus(cost_of([resident]))
        _move(fleet, load, resident, row)
    fleet.end_step()
    after = _spread(load, counted)
    result = {"of": load.name, "before": before, "after": after, "reached": after <= margin}
    result |= _extremes(fleet, load, counted)
    return MovePlan("balance", fleet.moves, _kept(fleet, load, counted) if stuck else (), result)


def _by_share(load: Load, counted: Mask) -> list[int]:
    """Return the rows that count, the emptiest first."""
    rows = np.flatnonzero(counted)
    return [*map(int, rows[np.argsort(load.shares[rows], kind="stable")])]


def _extremes(fleet: Fleet, load: Load, counted: Mask) -> dict[str, tuple[str, float]]:
    """Return the emptiest and the fullest host, each with the share of it that is in use."""
    order = _by_share(load, counted)
    if not order:
        return {}
    return {
        name: (fleet.place(row).host, float(load.shares[row]))
        for name, row in (("emptiest", order[0]), ("fullest", order[-1]))
    }


def _kept(fleet: Fleet, load: Load, counted: Mask) -> list[Unplanned]:
    """Return why the instances of the fullest host stay there."""
    row = _by_share(load, counted)[-1]
    here = [each for each in fleet.on(row) if load.amounts[each.uuid] > 0]
    too_large = [
        each
        for each in here
        if each.fixed is None
        and not (counted & (_gains(load, row, load.amounts[each.uuid]) > _LEAST_GAIN)).any()
    ]
    others = [each for each in here if each not in too_large]
    return explain_unplanned(fleet, others) + [
        Unplanned(
            each.uuid, fleet.place(row), "is too large: hosts would differ more after its move"
        )
        for each in too_large
    ]


def _spread(load: Load, counted: Mask) -> float:
    """Return the difference of the largest and the smallest share in use, 0 without hosts."""
    shares = load.shares[counted]
    return float(np.ptp(shares)) if len(shares) else 0.0


def _best_move(fleet: Fleet, load: Load, counted: Mask) -> tuple[Resident, int] | None:
    """Return the move that brings loads closest together, from the fullest host that has one."""
    shares = np.where(counted, load.shares, -np.inf)
    mean = float(load.used[counted].sum() / load.capacity[counted].sum())
    low = counted & (shares < mean)
    # Hosts with free devices come after others that are to get fuller.
    first = fleet.preferred(low)
    choices = (counted,) if np.array_equal(first, low) else (first, counted)
    for row in np.argsort(-shares, kind="stable").tolist():
        if not counted[row] or shares[row] <= mean:
            return None
        for targets in choices:
            found = _best_from(fleet, load, row, targets)
            if found is not None:
                return found
    return None


def _best_from(fleet: Fleet, load: Load, row: int, targets: Mask) -> tuple[Resident, int] | None:
    """Return the move from a row to one of some that brings loads closest together."""
    best: tuple[float, Resident, int] | None = None
    for each in fleet.on(row):
        amount = load.amounts[each.uuid]
        if each.fixed is not None or amount <= 0:
            continue
        gains = _gains(load, row, amount)
        # Asking the filters costs more than to see that no host would do.
        worth = targets & (gains > (best[0] if best else _LEAST_GAIN))
        if not worth.any():
            continue
        worth &= fleet.passing(fleet.request(each))[1]
        if worth.any():
            target = int(np.argmax(np.where(worth, gains, -np.inf)))
            best = float(gains[target]), each, target
    return best[1:] if best else None


def _gains(load: Load, row: int, amount: float) -> Weights:
    """Return how much closer together the loads are with an amount of a row on each other row.

    It is by how much the squares of all shares, each times the capacity, get smaller.
    """
    capacity = load.capacity
    ahead = load.shares[row] - load.shares
    gains = amount * (2 * ahead - amount * (1 / capacity + 1 / capacity[row]))
    return np.asarray(np.nan_to_num(gains, nan=-np.inf), np.float64)


def _move(fleet: Fleet, load: Load, resident: Resident, row: int) -> PlannedMove:
    source, amount = resident.row, load.amounts[resident.uuid]
    shares = load.shares
    fleet.move(
        resident,
        row,
        f"{load.name} {shares[source]:.0%} in use on {fleet.place(source).host},"
        f" {shares[row]:.0%} on {fleet.place(row).host}",
    )
    load.used[source] -= amount
    load.used[row] += amount
    return fleet.moves[-1]
