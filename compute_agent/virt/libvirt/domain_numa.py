# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory of the host a libvirt domain may take, and what it says of cells and CPUs there.

Only a domain that names cells of the host, confines the CPUs of the guest to CPUs of the host, or
takes huge pages is bound to any; others may be anywhere. placed() of guest_numa needs the host as
well to say where that is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple
from xml.etree.ElementTree import Element

from compute_agent.virt.libvirt.nova_metadata import NovaMetadata
from compute_agent.virt.libvirt.xml_values import KIB, MAX_CPUS, mebibytes, members, number, size
from inventory.numa.cells import LARGE
from inventory.numa.pinning import ISOLATE, REQUIRE

THREAD_POLICIES = {"prefer", REQUIRE, ISOLATE}
# Memory in a file or on a device of the host, though libvirt adds it to the guest's memory.
PERSISTENT = {"nvdimm", "virtio-pmem"}


@dataclass(frozen=True, slots=True)
class DomainCell:
    """A cell of a domain, or a memory device with a place of its own; memory is in MiB.

    pins holds the host CPU of each guest CPU that has just one, cpus the other guest CPUs.
    host_cell is the cell that the domain names; near are sets of host CPUs, each of which tells the
    cell as well if all of it are there, the best first. pagesize is in KiB, LARGE for the host's
    default. reserved are host CPUs that the emulator threads have for themselves.
    """

    memory: int
    cpus: frozenset[int] = frozenset()
    pins: Mapping[int, int] = field(default_factory=dict)
    host_cell: int | None = None
    near: tuple[frozenset[int], ...] = ()
    pagesize: int | None = None
    thread_policy: str | None = None
    reserved: frozenset[int] = frozenset()

    @property
    def is_bound(self) -> bool:
        return bool(self.pins or self.near or self.pagesize or self.host_cell is not None)


class _Device(NamedTuple):
    """A memory device: its guest cell, bytes, and its own KiB of a page and host cells, if any."""

    model: str
    cell: int
    bytes: int
    pagesize: int
    nodes: set[int]


class _Tuning(NamedTuple):
    """The host CPUs of guest CPUs that have some, of the others and of the emulator threads."""

    ranges: Mapping[int, set[int]]
    others: set[int]
    emulator: set[int]

    def near(self, cpus: set[int]) -> tuple[frozenset[int], ...]:
        """Return sets of host CPUs whose cell may be that of these guest CPUs."""
        own = [self.ranges.get(cpu, self.others) for cpu in cpus]
        together = chain.from_iterable(own if all(own) else ())
        return tuple(filter(None, (frozenset(together), frozenset(self.emulator))))


def memory_mb(domain: Element) -> int:
    """Return the most that a domain may have, in MiB, with the memory that was plugged in."""
    persistent = sum(each.bytes for each in _devices(domain) if each.model in PERSISTENT)
    return mebibytes(max(0, _size(domain.find("memory")) - persistent))


def read(domain: Element, vcpus: int, memory_mb: int, nova: NovaMetadata) -> tuple[DomainCell, ...]:
    """Return the cells of a domain with these CPUs and MB; none where it is bound to nothing.

    A guest CPU that may still be plugged in keeps the host CPU that it is pinned to. Host CPUs that
    the emulator threads have for themselves are with the first cell.
    """
    tuning, homes = _tuning(domain), _homes(domain)
    pins = _pins(tuning)
    for cpu in nova.floating(pins.keys()):
        del pins[cpu]
    online = _online(domain, vcpus)
    guest_cells = _guest_cells(domain, online | pins.keys(), memory_mb)
    threads = nova.thread_policy
    reserved = _emulator_cpus(domain, nova).difference(pins.values()) if pins else ()
    found = {
        number: DomainCell(
            memory=memory,
            cpus=frozenset(cpus & online - pins.keys()),
            pins={cpu: pins[cpu] for cpu in cpus & pins.keys()},
            host_cell=homes.get(number, homes.get(None)),
            near=tuning.near(cpus & (online | pins.keys()) or online),
            pagesize=_pagesize(domain, number),
            thread_policy=threads if threads in THREAD_POLICIES else None,
            reserved=frozenset(() if index else reserved),
        )
        for index, (number, (memory, cpus)) in enumerate(guest_cells.items())
    }
    cells = (*found.values(), *_plugged_elsewhere(domain, found))
    return cells if any(cell.is_bound for cell in cells) else ()


def _tuning(domain: Element) -> _Tuning:
    """Return to which host CPUs a domain confines its threads.

    The CPUs of guests that are pinned in no other way are no place of theirs: Nova has all its
    floating guests on the shared ones. But huge pages are allocated there, by emulator threads.
    """
    takes_pages = domain.find("memoryBacking/hugepages") is not None
    vcpu = domain.find("vcpu")
    return _Tuning(
        ranges={
            cpu: on
            for pin in domain.findall("cputune/vcpupin")
            if (cpu := number(pin.get("vcpu"), at_most=MAX_CPUS)) is not None
            and (on := members(pin.get("cpuset")))
        },
        others=members(vcpu.get("cpuset")) if takes_pages and vcpu is not None else set(),
        emulator=_emulator_pin(domain) if takes_pages else set(),
    )


def _pins(tuning: _Tuning) -> dict[int, int]:
    """Return the host CPU of each guest CPU that has just one.

    A floating guest may be confined to a single CPU as well, where a cell has no more for such
    guests. Only Nova can tell the difference, or the host, where that CPU is not for pinning.
    """
    return {cpu: min(on) for cpu, on in tuning.ranges.items() if len(on) == 1}


def _emulator_pin(domain: Element) -> set[int]:
    pin = domain.find("cputune/emulatorpin")
    return members(None if pin is None else pin.get("cpuset"))


def _emulator_cpus(domain: Element, nova: NovaMetadata) -> set[int]:
    """Return the host CPUs that the emulator threads may have for themselves.

    Without a policy of Nova a single CPU counts as theirs. It may be one that the emulator threads
    of all guests share, but such a CPU is not for pinning, and placed() leaves it out.
    """
    cpus = _emulator_pin(domain)
    policy = nova.wish("emulator_threads_policy")
    return cpus if policy == ISOLATE or (policy is None and len(cpus) == 1) else set()


def _homes(domain: Element) -> dict[int | None, int]:
    """Return the host cell of each guest cell that names just one; None stands for the others."""
    return {
        number(each.get("cellid")): on
        for each in domain.findall("numatune/*")
        if (on := _only(members(each.get("nodeset")))) is not None
    }


def _online(domain: Element, vcpus: int) -> set[int]:
    """Return the guest CPUs that are plugged in; libvirt lists them where it is not the first."""
    listed = domain.findall("vcpus/vcpu")
    found = {number(each.get("id"), MAX_CPUS) for each in listed if each.get("enabled") == "yes"}
    return {cpu for cpu in found if cpu is not None} or {*range(vcpus)}


def _guest_cells(
    domain: Element, cpus: set[int], memory_mb: int
) -> dict[int, tuple[int, set[int]]]:
    """Return MiB and CPUs of each cell by the guest's number; one cell where it has none."""
    added = plugged_in(domain)
    found = {}
    for position, cell in enumerate(domain.findall("cpu/numa/cell")):
        named = number(cell.get("id"))
        own = position if named is None else named
        memory = size(cell.get("memory"), cell.get("unit")) + added.get(own, 0)
        found[own] = mebibytes(memory), members(cell.get("cpus"))
    if not found:
        return {0: (memory_mb, cpus)}
    # As libvirt does with CPUs that are in no cell.
    _, first = next(iter(found.values()))
    first.update(cpus.difference(*(own for _, own in found.values())))
    return found


def plugged_in(domain: Element) -> dict[int, int]:
    """Return the bytes that devices add to each cell of the guest, where its memory is."""
    added: dict[int, int] = {}
    for each in _devices(domain):
        if each.model not in PERSISTENT and not (each.pagesize or each.nodes):
            added[each.cell] = added.get(each.cell, 0) + each.bytes
    return added


def _plugged_elsewhere(domain: Element, cells: Mapping[int, DomainCell]) -> Iterator[DomainCell]:
    """Yield memory devices with pages or host cells of their own, otherwise as their cell's."""
    for each in _devices(domain):
        if each.model not in PERSISTENT and (each.pagesize or each.nodes):
            cell = cells.get(each.cell, DomainCell(0))
            yield DomainCell(
                memory=mebibytes(each.bytes),
                host_cell=_only(each.nodes) if each.nodes else cell.host_cell,
                near=() if each.nodes else cell.near,
                pagesize=each.pagesize or cell.pagesize,
            )


def _devices(domain: Element) -> Iterator[_Device]:
    for device in domain.findall("devices/memory"):
        target = device.find("target")
        if target is not None:
            yield _Device(
                model=device.get("model", ""),
                cell=number(target.findtext("node")) or 0,
                bytes=_size(target.find("size")),
                pagesize=_size(device.find("source/pagesize")) // KIB,
                nodes=members(device.findtext("source/nodemask")),
            )


def _only(numbers: set[int]) -> int | None:
    return min(numbers) if len(numbers) == 1 else None


def _size(element: Element | None) -> int:
    return 0 if element is None else size(element.text, element.get("unit"))


def _pagesize(domain: Element, cell: int) -> int | None:
    """Return the KiB of a guest cell's huge pages, LARGE for the host's default, None for none."""
    huge = domain.find("memoryBacking/hugepages")
    if huge is None:
        return None
    pages = huge.findall("page")
    if not pages:
        return LARGE
    # Those without a set are for the cells that no other names.
    for page in sorted(pages, key=lambda page: page.get("nodeset") is None):
        cells = page.get("nodeset")
        if cells is None or cell in members(cells):
            return size(page.get("size"), page.get("unit")) // KIB or None
    return None
