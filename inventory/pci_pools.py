# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The free PCI devices of a host: which requests they can serve, and what is left.

Source: behaviour reference 1.10. Requests are served one after another, from the pools with the
fewest tags first, then in the order of the host's report. Another order might serve more, but the
compute host uses this one and would refuse them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from inventory.objects.numa import NUMACell
from inventory.objects.pci_and_network import InstancePCIRequest, PciDevicePool

Alternatives = Sequence[Mapping[str, object]]

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
        reported = (pool for pool in pools if pool.count > 0)
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
        left = self._counts()
        if self._serve(left, requests, _Cells.of(cells, host_cells)):
            return None
        return PciPools(
            pool if count == pool.count else replace(pool, count=count)
            for pool, count in zip(self.pools, left, strict=True)
        )

    def support_requests(
        self, requests: Sequence[InstancePCIRequest], numa_cells: Sequence[NUMACell] | None = None
    ) -> bool:
        """Return whether all requests can be served together."""
        return self._serve(self._counts(), requests, _Cells.of(numa_cells or (), ())) is None

    def refusal(
        self,
        requests: Sequence[InstancePCIRequest],
        cells: Sequence[NUMACell] = (),
        host_cells: Sequence[NUMACell] = (),
    ) -> str | None:
        """Return in one line which request cannot be served and why, else None."""
        unserved = self._serve(self._counts(), requests, _Cells.of(cells, host_cells))
        if unserved is None:
            return None
        position, found = unserved
        request = requests[position]
        wanted = f"needs {request.count} of {described(request.spec)}"
        if cells:
            nodes = ", ".join(str(cell.id) for cell in cells)
            wanted += f" for NUMA cells {nodes} (policy {request.numa_policy or 'legacy'})"
        rest = "left by the requests before it" if position else "free"
        kinds = {_unasked(pool, request.spec) for pool in self if _matches(pool, request.spec)}
        besides = " or ".join(sorted(kind for kind in kinds if kind is not None))
        rest += f" besides {besides}" if besides else ""
        return " ".join(f"{wanted}, {found} {rest}".split())

    def free(self) -> int:
        """Return the number of free devices."""
        return sum(self._counts())

    def free_on(self, cell_id: int) -> int:
        """Return the number of free devices of a host cell."""
        return sum(pool.count for pool in self.pools if pool.numa_node == cell_id)

    def _counts(self) -> list[int]:
        return [pool.count for pool in self.pools]

    def _serve(
        self, left: list[int], requests: Sequence[InstancePCIRequest], near: "_Cells"
    ) -> tuple[int, int] | None:
        """Remove devices from left, the counts of the pools, for one request after another.

        Return the position of the first request that cannot be served and its free devices.
        """
        for position, request in enumerate(requests):
            usable = self._usable(left, request, near)
            found = sum(left[index] for index in usable)
            if found < request.count:
                return position, found
            wanted = max(0, request.count)
            for index in usable:
                taken = min(left[index], wanted)
                left[index] -= taken
                wanted -= taken
        return None

    def _usable(self, left: list[int], request: InstancePCIRequest, near: "_Cells") -> list[int]:
        """Return the indexes of the pools for a request, in the order of use."""
        matching = [index for index, pool in enumerate(self.pools) if _matches(pool, request.spec)]
        if near.cells:
            matching = self._near(matching, left, request, near)
        return [index for index in matching if _unasked(self.pools[index], request.spec) is None]

    def _near(
        self, matching: list[int], left: list[int], request: InstancePCIRequest, near: "_Cells"
    ) -> list[int]:
        """Return those of the matching pools that the NUMA policy of the request allows."""

        def on(cells: frozenset[int | None]) -> list[int]:
            return [index for index in matching if self.pools[index].numa_node in cells]

        def enough(pools: list[int]) -> bool:
            return sum(left[index] for index in pools) >= request.count

        policy = request.numa_policy or "legacy"
        nearest = on(near.cells)
        # Nearer devices come first. Unknown policies are strict.
        if policy not in {"socket", "legacy", "preferred"} or enough(nearest):
            return nearest
        if policy == "socket":
            return on(near.same_socket)
        # Many hosts do not report the cells of their devices.
        perhaps_near = near.cells | {None}
        if policy == "legacy" or enough(on(perhaps_near)):
            return on(perhaps_near)
        return sorted(matching, key=lambda index: self.pools[index].numa_node not in perhaps_near)


@dataclass(frozen=True, slots=True)
class _Cells:
    """The ids of the host cells that a guest is on, and of all cells on the same sockets."""

    cells: frozenset[int | None]
    same_socket: frozenset[int | None]

    @classmethod
    def of(cls, cells: Sequence[NUMACell], host_cells: Sequence[NUMACell]) -> "_Cells":
        ids = frozenset(cell.id for cell in cells)
        sockets = {cell.socket for cell in host_cells if cell.id in ids}
        # Not comparable unless the sockets of all cells are known.
        if any(cell.socket is None for cell in host_cells):
            sockets = set()
        return cls(ids, frozenset(cell.id for cell in host_cells if cell.socket in sockets))


def described(alternatives: Alternatives) -> str:
    """Return in words which devices a request accepts."""
    return (
        " or ".join(
            " ".join(f"{name}={value}" for name, value in each.items()) or "any device"
            for each in alternatives
        )
        or "no device"
    )


def _matches(pool: PciDevicePool, alternatives: Alternatives) -> bool:
    """Return whether a pool has all properties of one of the alternatives."""
    # live_migratable needs no rule of its own: a request has it in all alternatives.
    return any(_has(pool, each) for each in alternatives)


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
