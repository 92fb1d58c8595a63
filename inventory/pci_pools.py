# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The free PCI devices of a host: which requests they can serve, and what is left.

Source: behaviour reference 1.10. Requests are served one after another, from the pools with the
fewest tags first, then in the order of the host's report. Another order might serve more, but the
compute host uses this one and would refuse them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from inventory.errors import joined
from inventory.objects.numa import NUMACell
from inventory.objects.pci_and_network import InstancePCIRequest, PciDevicePool

Alternatives = Sequence[Mapping[str, object]]
# The index of a pool, the counts of which it is one, and how many of it are allowed.
_Part = tuple[int, list[Any], Any]

_FIELDS = frozenset({"vendor_id", "product_id", "numa_node"})
# Used by Nova's Placement only.
_NOT_COMPARED = frozenset({"resource_class", "traits", "rp_uuids"})
# Types of devices, such as whole network cards, that are used only if requested.
_ONLY_IF_ASKED_FOR = frozenset({"type-pf", "vdpa"})
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})


class PciPools:
    """Pools of free devices; immutable, so that hosts with equal ones can share them."""

    __slots__ = ("pools",)

    def __init__(self, pools: Iterable[PciDevicePool] = ()) -> None:
        # Those of devices that are all in use tell their hosts from hosts that have none.
        reported = (pool for pool in pools if pool.count >= 0)
        # Sorted again, since released claims add their devices at the end.
        self.pools = tuple(sorted(reported, key=lambda pool: len(pool.tags)))

    def __iter__(self) -> Iterator[PciDevicePool]:
        return iter(self.pools)

    def __len__(self) -> int:
        return len(self.pools)

    def __bool__(self) -> bool:
        """Return True: a host without devices has reported them, too."""
        return True

    def __repr__(self) -> str:
        return f"PciPools({list(self.pools)})"

    def consume(
        self,
        requests: Sequence[InstancePCIRequest],
        cells: Sequence[NUMACell] = (),
        host_cells: Sequence[NUMACell] = (),
    ) -> "PciPools | None":
        """Return what is left when all requests are served, None if they cannot be.

        cells are the host cells of the guest; without them devices of any cell can be used.
        host_cells are all cells of the host, for the policy socket.
        """
        left = self._left(cells, host_cells)
        if self._unserved(left, requests):
            return None
        return PciPools(
            pool if count == pool.count else replace(pool, count=count)
            for pool, count in zip(self.pools, left.counts(), strict=True)
        )

    def support_requests(
        self, requests: Sequence[InstancePCIRequest], numa_cells: Sequence[NUMACell] | None = None
    ) -> bool:
        """Return whether all requests can be served together."""
        return self._unserved(self._left(numa_cells or (), ()), requests) is None

    def which_support(
        self,
        requests: Sequence[InstancePCIRequest],
        chosen: Mapping[int, Any],
        host_cells: Sequence[NUMACell],
    ) -> Any:
        """Return for many combinations of host cells whether all requests can be served.

        chosen has for the ids of host cells in which of the combinations they are.
        """
        wanted = sum(max(0, request.count) for request in requests)
        if wanted > self.free():
            return False
        # More than all requests want makes no difference, and small numbers are fast.
        counts = [min(pool.count, wanted) for pool in self.pools]
        small = list(np.array(counts, np.min_scalar_type(sum(counts))))
        served: Any = True
        for missing in self._serve(_Left(self.pools, small, chosen, host_cells), requests):
            served = served & (missing == 0)
            if not np.any(served):
                return False
        return served

    def refusal(
        self,
        requests: Sequence[InstancePCIRequest],
        cells: Sequence[NUMACell] = (),
        host_cells: Sequence[NUMACell] = (),
    ) -> str | None:
        """Return in one line which request cannot be served and why, else None."""
        unserved = self._unserved(self._left(cells, host_cells), requests)
        if unserved is None:
            return None
        position, found = unserved
        request = requests[position]
        asked, besides = self._of_kind(request.spec)
        wanted = f"needs {request.count} of {described(request.spec)}"
        if cells:
            nodes = ", ".join(str(cell.id) for cell in cells)
            wanted += f" for NUMA cells {nodes} (policy {request.numa_policy or 'legacy'})"
        rest = (
            f"{found} left by the other requests of this instance" if position else f"{found} free"
        )
        if not position and not cells and asked and all(pool.total is not None for pool in asked):
            rest += f" of {sum(pool.total or 0 for pool in asked)}"
        if besides:
            rest += f" besides {joined(besides, 'or')}"
        elif not asked:
            rest = "none reported"
        return " ".join(f"{wanted}, {rest}".split())

    def reports(self, requests: Sequence[InstancePCIRequest]) -> bool:
        """Return whether there are devices for each of the requests, free or in use."""
        return all(self._of_kind(request.spec)[0] for request in requests)

    def cells_with(self, requests: Sequence[InstancePCIRequest]) -> set[int | None]:
        """Return the ids of the host cells with devices that some request accepts."""
        specs = [request.spec for request in requests]
        free = [pool for pool in self if pool.count]
        return {pool.numa_node for pool in free if any(_matches(pool, spec) for spec in specs)}

    def free(self) -> int:
        """Return the number of free devices."""
        return sum(self._counts())

    def free_on(self, cell_id: int) -> int:
        """Return the number of free devices of a host cell."""
        return sum(pool.count for pool in self.pools if pool.numa_node == cell_id)

    def _of_kind(self, alternatives: Alternatives) -> tuple[list[PciDevicePool], list[str]]:
        """Return the pools for a request, and of which special kinds others have free devices."""
        matching = [pool for pool in self if _matches(pool, alternatives)]
        asked = [pool for pool in matching if _unasked(pool, alternatives) is None]
        special = {_unasked(pool, alternatives) for pool in matching if pool.count}
        return asked, sorted(kind for kind in special if kind is not None)

    def _counts(self) -> list[int]:
        return [pool.count for pool in self.pools]

    def _left(self, cells: Sequence[NUMACell], host_cells: Sequence[NUMACell]) -> "_Left":
        """Return all free devices; those of any host cell are near a guest without cells."""
        chosen = dict.fromkeys((cell.id for cell in cells), True)
        return _Left(self.pools, self._counts(), chosen or None, host_cells)

    def _unserved(
        self, left: "_Left", requests: Sequence[InstancePCIRequest]
    ) -> tuple[int, int] | None:
        """Return the position of the first request that cannot be served and its free devices."""
        for position, missing in enumerate(self._serve(left, requests)):
            if missing:
                return position, requests[position].count - missing
        return None

    def _serve(self, left: "_Left", requests: Sequence[InstancePCIRequest]) -> Iterator[Any]:
        """Remove the devices from left, and yield for each request how many are missing."""
        for request in requests:
            missing: Any = max(0, request.count)
            for index, part, free in left.allowed(request):
                if _unasked(self.pools[index], request.spec) is None:
                    taken = _least(free, missing)
                    part[index] -= taken
                    missing -= taken
            yield missing


class _Left:
    """The devices that are left of each pool, those near the guest apart from the others.

    Numbers, or arrays with one for each of many choices of host cells.
    """

    __slots__ = ("_far", "_near", "_on_socket", "_pools")

    def __init__(
        self,
        pools: Sequence[PciDevicePool],
        counts: Sequence[Any],
        chosen: Mapping[int, Any] | None,
        host_cells: Sequence[NUMACell],
    ) -> None:
        """chosen has for the ids of host cells whether the guest is on them; None is near all."""
        self._pools = pools
        on = [True if chosen is None else _at(pool.numa_node, chosen) for pool in pools]
        self._near = [count * near for count, near in zip(counts, on, strict=True)]
        self._far = [count - near for count, near in zip(counts, self._near, strict=True)]
        sockets: dict[int | None, Any] = {}
        for cell in host_cells:
            sockets[cell.socket] = sockets.get(cell.socket, False) | _at(cell.id, chosen or {})
        # Not comparable unless the sockets of all cells are known.
        known = () if None in sockets else host_cells
        self._on_socket = {cell.id: sockets[cell.socket] for cell in known}

    def counts(self) -> list[Any]:
        """Return how many devices are left of each pool."""
        return [near + far for near, far in zip(self._near, self._far, strict=True)]

    def allowed(self, request: InstancePCIRequest) -> list[_Part]:
        """Return the matching pools in the order of use, and what the policy allows of each."""
        nodes = {
            index: pool.numa_node
            for index, pool in enumerate(self._pools)
            if pool.count and _matches(pool, request.spec)
        }
        # Nearer devices come first, others only if these are too few. Unknown policies are strict.
        policy = request.numa_policy or "legacy"
        allowed = [(index, self._near, self._near[index]) for index in nodes]
        few = policy in {"socket", "legacy", "preferred"} and _few(allowed, request)
        if not np.count_nonzero(few):
            return allowed
        if policy == "socket":
            others = {index: few & _at(node, self._on_socket) for index, node in nodes.items()}
        else:
            # Many hosts do not report the cells of their devices.
            others = {index: few for index, node in nodes.items() if node is None}
        allowed += [(index, self._far, self._far[index] * each) for index, each in others.items()]
        allowed.sort(key=itemgetter(0))
        if policy == "preferred":
            few = _few(allowed, request)
            known = (index for index, node in nodes.items() if node is not None)
            allowed += [(index, self._far, self._far[index] * few) for index in known]
        return allowed


def _at(node: int | None, chosen: Mapping[int, Any]) -> Any:
    return False if node is None else chosen.get(node, False)


def _few(allowed: Sequence[_Part], request: InstancePCIRequest) -> Any:
    """Return 1 where there are fewer devices than requested, else 0."""
    few: Any = sum(free for _, _, free in allowed) < request.count
    return few if isinstance(few, bool) else few.view(np.uint8)


def _least(one: Any, other: Any) -> Any:
    single = isinstance(one, int) and isinstance(other, int)
    return min(one, other) if single else np.minimum(one, other)


def described(alternatives: Alternatives) -> str:
    """Return in words which devices a request accepts."""
    texts = (
        " ".join(f"{name}={value}" for name, value in each.items()) or "any device"
        for each in alternatives
    )
    return joined(texts, "or") or "no device"


def _matches(pool: PciDevicePool, alternatives: Alternatives) -> bool:
    """Return whether a pool has all properties of one of the alternatives."""
    # live_migratable needs no rule of its own: a request has it in all alternatives.
    return any(map(_has, repeat(pool), alternatives))


def _has(pool: PciDevicePool, properties: Mapping[str, object]) -> bool:
    for name, wanted in properties.items():
        found = getattr(pool, name) if name in _FIELDS else pool.tags.get(name)
        if not (name in _NOT_COMPARED or found == wanted or _agree(found, wanted)):
            return False
    return True


def _unasked(pool: PciDevicePool, alternatives: Alternatives) -> str | None:
    """Return the special kind of a pool if no alternative requests it, else None."""
    kind = _folded(pool.tags.get("dev_type"))
    if kind in _ONLY_IF_ASKED_FOR and not any(
        _folded(each.get("dev_type")) == kind for each in alternatives
    ):
        return f"dev_type={pool.tags['dev_type']}"
    if _true(pool.tags.get("remote_managed")) and not any(
        _true(each.get("remote_managed")) for each in alternatives
    ):
        return "remote_managed=true"
    return None


def _agree(found: object, wanted: object) -> bool:
    if isinstance(found, list) and isinstance(wanted, list):
        return all(each in found for each in wanted)
    return _folded(found) == _folded(wanted)


def _folded(value: object) -> str | None:
    """Return a value for comparison without letter case."""
    return None if value is None else str(value).lower()


def _true(value: object) -> bool:
    return _folded(value) in _TRUE
