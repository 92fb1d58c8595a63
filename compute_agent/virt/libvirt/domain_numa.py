# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory of the host a libvirt domain may take, and on which cells and CPUs it is.

Only a domain that names cells of the host, or gives CPUs of the guest one CPU of the host each,
takes part in them; others may be anywhere. parse() of domain_xml gives a guest its topology by
read(), as far as the domain tells; once the host's cells are known, placed() completes it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element

from compute_agent.virt.libvirt.nova_metadata import NovaMetadata
from compute_agent.virt.libvirt.units import KIB, MAX_CPUS, mebibytes, members, number, size
from inventory.numa.cells import LARGE
from inventory.numa.pinning import ISOLATE, REQUIRE
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology, NUMACell, NUMATopology

# The id of a cell that the domain alone does not place on the host.
UNPLACED = -1
THREAD_POLICIES = {"prefer", REQUIRE, ISOLATE}
# Memory in a file or on a device of the host, though libvirt adds it to the guest's memory.
PERSISTENT = {"nvdimm", "virtio-pmem"}


def memory_mb(domain: Element) -> int:
    """Return the most that a domain may have, in MiB, with the memory that was plugged in."""
    persistent = sum(amount for model, _, amount in _memory_devices(domain) if model in PERSISTENT)
    return mebibytes(max(0, _size(domain.find("memory")) - persistent))


def read(
    domain: Element, vcpus: int, memory_mb: int, nova: NovaMetadata
) -> InstanceNUMATopology | None:
    """Return the topology of a domain with so many CPUs and MiB, None where it is bound to nothing.

    The id of a cell is that of the host's, or UNPLACED. A guest CPU that may still be plugged in
    keeps the host CPU that it is pinned to. Host CPUs that the emulator threads have for themselves
    are with the first cell.
    """
    tune = domain.find("cputune")
    pins = {} if tune is None else _pins(tune, nova)
    homes = _homes(domain)
    if not pins and not homes:
        return None
    online = _online(domain, vcpus)
    threads = nova.wish("cpu_thread_policy")
    cells = [
        InstanceNUMACell(
            id=homes.get(each.id, homes.get(None, UNPLACED)),
            memory=each.memory,
            cpuset=each.cpuset & online - pins.keys(),
            pcpuset=each.cpuset & pins.keys(),
            cpu_pinning={cpu: pins[cpu] for cpu in each.cpuset & pins.keys()} or None,
            cpu_thread_policy=threads if threads in THREAD_POLICIES else None,
            pagesize=_pagesize(domain, each.id),
        )
        for each in _guest_cells(domain, online | pins.keys(), memory_mb)
    ]
    if tune is not None and pins:
        cells[0].cpuset_reserved = _emulator_cpus(tune, nova) - {*pins.values()} or None
    return InstanceNUMATopology([_with_policy(cell) for cell in cells])


def placed(
    numa: InstanceNUMATopology | None, host: NUMATopology | None
) -> InstanceNUMATopology | None:
    """Return the topology that read() returned on the cells of the host, None if on no cell.

    Pinned CPUs count on the cells where they are; what floats and the memory on the cell that the
    domain names, or else where most of its pinned CPUs are. Neither of the arguments is changed.
    """
    if numa is None or host is None:
        return None
    cells = [part for cell in numa.cells for part in _parts(cell, host.cells)]
    return replace(numa, cells=cells) if cells else None


def _pins(tune: Element, nova: NovaMetadata) -> dict[int, int]:
    """Return the host CPU of each guest CPU that has just one.

    A floating guest may be confined to a single CPU as well, where a cell has no more for such
    guests. Only Nova can tell the difference.
    """
    if nova.wish("cpu_policy") == "shared":
        return {}
    return {
        cpu: on.pop()
        for pin in tune.findall("vcpupin")
        if (cpu := number(pin.get("vcpu"), at_most=MAX_CPUS)) is not None
        and len(on := members(pin.get("cpuset"))) == 1
    }


def _emulator_cpus(tune: Element, nova: NovaMetadata) -> set[int]:
    """Return the host CPUs that the emulator threads may have for themselves.

    Without a policy of Nova a single CPU counts as theirs. It may be one that the emulator threads
    of all guests share, but such a CPU is not for pinning, and placed() leaves it out.
    """
    pin = tune.find("emulatorpin")
    cpus = members(None if pin is None else pin.get("cpuset"))
    policy = nova.wish("emulator_threads_policy")
    return cpus if policy == ISOLATE or (policy is None and len(cpus) == 1) else set()


def _homes(domain: Element) -> dict[int | None, int]:
    """Return the host cell of each guest cell that names just one; None stands for the others."""
    tune = domain.find("numatune")
    return {
        number(each.get("cellid")): on.pop()
        for each in (() if tune is None else tune)
        if len(on := members(each.get("nodeset"))) == 1
    }


def _online(domain: Element, vcpus: int) -> set[int]:
    """Return the guest CPUs that are plugged in; libvirt lists them where it is not the first."""
    listed = domain.findall("vcpus/vcpu")
    found = {number(each.get("id"), MAX_CPUS) for each in listed if each.get("enabled") == "yes"}
    return {cpu for cpu in found if cpu is not None} or {*range(vcpus)}


def _guest_cells(domain: Element, cpus: set[int], memory_mb: int) -> list[InstanceNUMACell]:
    """Return the cells as the guest numbers them, with all its CPUs; one where it has none."""
    added = plugged_in(domain)
    found = []
    for position, cell in enumerate(domain.findall("cpu/numa/cell")):
        named = number(cell.get("id"))
        own = position if named is None else named
        memory = size(cell.get("memory"), cell.get("unit")) + added[own]
        found.append(InstanceNUMACell(own, mebibytes(memory), members(cell.get("cpus"))))
    if not found:
        return [InstanceNUMACell(0, memory_mb, cpus)]
    # As libvirt does with CPUs that are in no cell.
    found[0].cpuset.update(cpus.difference(*(cell.cpuset for cell in found)))
    return found


def plugged_in(domain: Element) -> Counter[int]:
    """Return the bytes that devices add to each cell of the guest."""
    added: Counter[int] = Counter()
    for model, cell, amount in _memory_devices(domain):
        if model not in PERSISTENT:
            added[cell] += amount
    return added


def _memory_devices(domain: Element) -> list[tuple[str, int, int]]:
    """Return (model, guest cell, bytes) of each memory device."""
    devices = domain.find("devices")
    targets = (
        []
        if devices is None
        else [(each.get("model", ""), each.find("target")) for each in devices.findall("memory")]
    )
    return [
        (model, number(target.findtext("node")) or 0, _size(target.find("size")))
        for model, target in targets
        if target is not None
    ]


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


def _parts(cell: InstanceNUMACell, hosts: list[NUMACell]) -> Iterator[InstanceNUMACell]:
    """Yield what a guest's cell has on each cell of the host."""
    home = _home(cell, hosts)
    pins = cell.cpu_pinning or {}
    for host in hosts:
        here = {cpu: on for cpu, on in pins.items() if on in host.cpuset | host.pcpuset}
        reserved = (cell.cpuset_reserved or set()) & host.pcpuset
        if host is home or here or reserved:
            part = replace(
                cell,
                id=host.id,
                memory=cell.memory if host is home else 0,
                cpuset=set(cell.cpuset) if host is home else set(),
                pcpuset={*here},
                cpu_pinning=here or None,
                cpuset_reserved=reserved or None,
                pagesize=_default_pagesize(host) if cell.pagesize == LARGE else cell.pagesize,
            )
            yield _with_policy(part)


def _home(cell: InstanceNUMACell, hosts: list[NUMACell]) -> NUMACell | None:
    """Return the host cell where a guest's cell has its memory, None if it is unknown."""
    pinned = {*(cell.cpu_pinning or {}).values()}
    for host in hosts:
        if host.id == cell.id or len(hosts) == 1:
            return host
    near = max(hosts, key=lambda host: len(pinned & (host.cpuset | host.pcpuset)), default=None)
    return near if near and pinned & (near.cpuset | near.pcpuset) else None


def _default_pagesize(host: NUMACell) -> int | None:
    """Return the smallest huge pages, which are the default of all but odd hosts."""
    return next(iter(sorted(pages.size_kb for pages in host.mempages)[1:]), None)


def _with_policy(cell: InstanceNUMACell) -> InstanceNUMACell:
    floats = "mixed" if cell.cpuset else "dedicated"
    return replace(cell, cpu_policy=floats if cell.pcpuset else "shared")
