# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Placement says that nodes have: it bounds what is placed there, not Nova's own rows."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from compute_agent.virt.driver import MIB_PER_GIB, DriverMisconfigured, NodeFacts, NodeName
from compute_agent.virt.nova.poller import Depth, Intervals, Poller
from inventory.nova.placement import Inventory, PlacementClient
from inventory.nova.placement_errors import PlacementMisconfigured
from inventory.nova.placement_session import is_configured

# Reading may take up to this share of the time, for Placement has other callers.
_SHARE = 0.05
_Inventories = Mapping[str, Inventory]


class PlacementInventories:
    """The inventories of all nodes, in memory. One thread polls, another asks.

    changed() is given each node whose inventories have changed; interval is in seconds. Without a
    client, and while Placement has never answered, facts stay what Nova's rows say.
    """

    def __init__(
        self, client: PlacementClient | None, interval: float, changed: Callable[[NodeName], None]
    ) -> None:
        self._client = client
        self._changed = changed
        # By the uuid of the node, as the two below.
        self._known: dict[str, _Inventories] = {}
        self._generations: dict[str, int] = {}
        self._names: dict[str, NodeName] = {}
        self._next = float("-inf")
        intervals = Intervals(math.inf, interval, math.inf)
        self._poller = Poller("Placement", self._poll, lambda: None, math.inf, intervals)

    def start(self) -> None:
        if self._client is not None:
            self._poller.start()

    def close(self) -> None:
        self._poller.stop()
        if self._client is not None:
            self._client.close()

    def applied(self, node: NodeName, facts: NodeFacts) -> NodeFacts:
        """Return the facts of a node, bounded by what Placement says."""
        if self._client is None or facts.uuid is None or facts.settings is None:
            return facts
        self._names[facts.uuid] = node
        if found := self._known.get(facts.uuid):
            return bounded(facts, found)
        if self._poller.tried.is_set():
            return facts
        # Soon known. Until then the row keeps the ratios that the mirror before has written.
        return replace(facts, settings=replace(facts.settings, ratios={}))

    def _poll(self, _depth: Depth) -> None:
        """Read the inventories of the providers that have another generation."""
        began = time.monotonic()
        if began < self._next:
            return
        assert self._client is not None
        try:
            there = {each.uuid: each.generation for each in self._client.providers()}
            changed = there.items() - self._generations.items()
            found = self._client.inventories_of([uuid for uuid, _ in changed])
        finally:
            self._next = began + (time.monotonic() - began) / _SHARE
        before = {uuid: self._known.get(uuid) for uuid in found}
        self._known = {
            uuid: each for uuid, each in {**self._known, **found}.items() if uuid in there
        }
        self._generations = there
        for uuid, inventories in found.items():
            if before[uuid] != inventories and (name := self._names.get(uuid)):
                self._changed(name)


def placement_client(conf: cfg.ConfigOpts) -> PlacementClient | None:
    """Return who asks Placement, None without its section; raises DriverMisconfigured."""
    if not is_configured(conf):
        return None
    try:
        return PlacementClient(conf)
    except PlacementMisconfigured as error:
        raise DriverMisconfigured(str(error)) from error


def bounded(facts: NodeFacts, inventories: _Inventories) -> NodeFacts:
    """Return facts with totals and ratios that let in as much as Placement does.

    To us a node has room for total x ratio - used, where used includes what is reserved. To
    Placement it is (total - reserved) x ratio - used, and max_unit for one instance. What a node
    itself does not have, such as disks of a pool that is a provider of its own, stays as it is.
    """
    settings = facts.settings
    assert settings is not None
    reserved = settings.reserved
    ratios, totals = {**settings.ratios}, dict[str, Any]()
    for classes, total, ratio, rest in (
        # vCPUs of their own count as vCPUs in requests.
        (("VCPU", "PCPU"), "vcpus", "cpu_allocation_ratio", reserved.vcpus),
        (("MEMORY_MB",), "memory_mb", "ram_allocation_ratio", reserved.memory_mb),
        (("DISK_GB",), "local_gb", "disk_allocation_ratio", reserved.disk_mb / MIB_PER_GIB),
    ):
        own = [inventories[each] for each in classes if each in inventories]
        if own:
            totals[total] = sum(map(_most, own))
            ratios[ratio] = _ratio(own, totals[total], rest)
    return replace(facts, **totals, settings=replace(settings, ratios=ratios))


def _most(inventory: Inventory) -> int:
    """Return what one instance may have of a provider, which is at least what there is of it.

    A smaller max_unit is left to Placement, since the total is also what people are shown.
    """
    return max(inventory.total, min(inventory.max_unit, inventory.capacity))


def _ratio(own: Sequence[Inventory], total: int, reserved: float) -> float:
    """Return the ratio with which total x ratio - reserved is the capacity in Placement."""
    capacity = sum(each.capacity for each in own)
    ratio = own[0].allocation_ratio
    # The same ratio as there is what people look for; amounts are whole numbers.
    if math.floor(total * ratio - reserved) == capacity:
        return ratio
    ratio = (capacity + reserved) / total
    return ratio if total * ratio >= capacity + reserved else math.nextafter(ratio, math.inf)
