# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a libvirt host has of CPUs, memory and NUMA cells for guests."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from oslo_log import log

from compute_agent import cpu_sets, host_memory
from compute_agent.cpu_sets import HostCpus
from compute_agent.host_memory import HostMemory, parse_meminfo, xen_memory
from compute_agent.virt.libvirt import capabilities
from compute_agent.virt.libvirt.capabilities import Capabilities, Cell, Cpu
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.core_file import CoreFile
from compute_agent.virt.libvirt.domain_xml import DOMAIN_0
from compute_agent.virt.libvirt.host_cells import HostCells, agree, host_cells, remembered
from compute_agent.virt.libvirt.session import Link, ask
from compute_agent.virt.libvirt.xml_values import members, number
from inventory.objects.canonical_names import ARCHITECTURES, canonical
from inventory.objects.numa import NUMATopology

LOG = log.getLogger(__name__)
EXPAND_FEATURES = 1
# libvirt's imaginary host, which has no kernel and no file system.
TEST = "TEST"
XEN = "Xen"
QEMU = "QEMU"
MEMINFO = Path("/proc/meminfo")
CPU_FILES = Path("/sys/devices/system/cpu")
_NODE = "node"
# What getMemoryStats() calls the figures that it takes from /proc/meminfo.
MEMINFO_NAMES = {"total": "MemTotal", "free": "MemFree", "buffers": "Buffers", "cached": "Cached"}
# Where Nova binds guests to cells: only with QEMU, and whatever the hypervisor.
_WITH_QEMU = {"i686", "x86_64", "aarch64"}
_ALWAYS = {"ppc64", "ppc64le"}


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """The kind of hypervisor, its CPU as JSON and all else of its capabilities."""

    opening: object
    kind: str
    version: int
    cpu_info: str
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a host has; cells is None where guests cannot be bound to any."""

    hypervisor: Hypervisor
    vcpus: int
    memory: HostMemory
    cells: HostCells | None

    @property
    def numa(self) -> NUMATopology | None:
        return self.cells.numa if self.cells else None


class Host:
    """Reads a host, and what takes long only with a new connection or when CPUs come online."""

    def __init__(
        self, conf: Any, libvirt: ModuleType, connection: Connection, is_local: bool
    ) -> None:
        self._cpu_sets = cpu_sets.load(conf)
        self._reserved_pages = cpu_sets.reserved_pages(conf)
        self._libvirt = libvirt
        self._connection = connection
        self._is_local = is_local
        self._hypervisor: Hypervisor | None = None
        self._facts: HostFacts | None = None
        self._cpus = HostCpus(frozenset(), frozenset())
        # Other CPUs that are offline do not count.
        is_kept = is_local and conf.libvirt.cpu_power_management
        self._core_file = CoreFile(Path(conf.state_path)) if is_kept else None
        # The cells as libvirt described them last, and the CPUs that were online then.
        self._cells: tuple[Cell, ...] = ()
        self._described: frozenset[int] = frozenset()
        self._libvirt_mb = 0

    def look(self) -> HostFacts:
        """Return what the host has now; raises DriverError.

        As long as its CPUs are the same, so is the object that stands for its cells.
        """
        # First: CPUs that come online while libvirt describes the host are seen by the next look.
        cpus = self._connection.call(lambda link: read_cpus(self._libvirt, link))
        found = self._describe(cpus)
        libvirt_mb, memory = self._connection.call(lambda link: self._read(link, found.kind))
        self._compare(libvirt_mb, memory.total_mb)
        before = self._facts
        if before is not None and before.hypervisor is found and self._cpus == cpus:
            vcpus, cells = before.vcpus, before.cells
        else:
            vcpus, cells = self._cpu_sets.vcpus(cpus), self._host_cells(found, cpus)
        self._cpus = cpus
        self._facts = HostFacts(found, vcpus, memory, cells)
        return self._facts

    @property
    def cells(self) -> HostCells | None:
        """The cells as they were at the last look; without one, this looks."""
        return (self._facts or self.look()).cells

    def _describe(self, cpus: HostCpus) -> Hypervisor:
        """Return the hypervisor, read again where what was read no longer holds."""
        found = self._hypervisor
        is_new = found is None or found.opening is not self._connection.opening
        if found is None or is_new or not cpus.online <= self._described:
            found = self._hypervisor = read_hypervisor(self._connection, self._libvirt)
            listed = self._listed(found, cpus)
            before = self._cells or self._kept(listed, cpus)
            self._cells = remembered(listed, cpus.online, before)
            self._described = cpus.online
            if self._core_file:
                self._core_file.write(self._cells)
        return found

    def _kept(self, listed: Sequence[Cell], cpus: HostCpus) -> Sequence[Cell]:
        """Return the cells that the agent knew before its start, none if they do not fit."""
        kept = self._core_file.read() if self._core_file else ()
        return kept if agree(listed, cpus.online, kept) else ()

    def _listed(self, found: Hypervisor, cpus: HostCpus) -> Sequence[Cell]:
        """Return the cells with the CPUs that libvirt lists, or on this machine the kernel.

        libvirtd learns when it starts which CPUs a cell has, and the kernel leaves out those that
        are offline then.
        """
        cells = found.capabilities.cells
        missing = cpus.present.difference(cpu.id for cell in cells for cpu in cell.cpus)
        if not (missing and self._is_local) or found.kind == TEST:
            return cells
        more = _cpus_by_cell(missing)
        return [replace(each, cpus=(*each.cpus, *more.get(each.id, ()))) for each in cells]

    def _host_cells(self, found: Hypervisor, cpus: HostCpus) -> HostCells | None:
        """Return the cells to which guests can be bound.

        Nova's driver reports none elsewhere, on s390x and with LXC among others, so that its
        compute service would refuse guests that name some.
        """
        architecture = canonical(found.capabilities.cpu_info["arch"] or "", ARCHITECTURES)
        # The imaginary host is there to be tried.
        with_qemu = architecture in _WITH_QEMU and found.kind in {QEMU, TEST}
        if not with_qemu and architecture not in _ALWAYS:
            return None
        numa = host_cells(self._cells, cpus, self._cpu_sets, self._reserved_pages)
        if numa is None:
            return None
        return HostCells(
            numa=numa,
            cpus={cell.id: frozenset(cpu.id for cpu in cell.cpus) for cell in self._cells},
            default_pages_kib=_default_pages(found.kind, self._is_local),
        )

    def _read(self, link: Link, kind: str) -> tuple[int, HostMemory]:
        """Return libvirt's own total of the memory in MiB, 0 for none, and the memory."""
        libvirt_mb = ask(self._libvirt, link, lambda: link.getInfo()[1], 0)
        memory = read_memory(self._libvirt, link, libvirt_mb, kind, self._is_local)
        if not memory.total_mb:
            # Nothing else says how much there is, so the error counts.
            link.getInfo()
        return libvirt_mb, memory

    def _compare(self, libvirt_mb: int, total_mb: int) -> None:
        """Log when libvirt reports another total, and again only when its figure has moved."""
        if not libvirt_mb:
            return
        moved = not self._libvirt_mb or host_memory.disagree(libvirt_mb, self._libvirt_mb)
        if moved and host_memory.disagree(libvirt_mb, total_mb):
            self._libvirt_mb = libvirt_mb
            LOG.info(
                "libvirt reports %s MiB of memory, /proc/meminfo %s MiB; the value of"
                " /proc/meminfo is used",
                libvirt_mb,
                total_mb,
            )


def read_hypervisor(connection: Connection, libvirt: ModuleType) -> Hypervisor:
    """Read what takes seconds; raises DriverUnavailable or DriverAnswerUnusable."""
    # Three of these calls may take long, so each has a deadline to itself.
    kind = connection.call(lambda link: link.getType())
    opening = connection.opening
    # 0 where libvirt finds no emulator of its own to ask: filters take that for unknown.
    version = connection.call(lambda link: ask(libvirt, link, link.getVersion, 0), slow=True)
    answer = connection.call(lambda link: link.getCapabilities(), slow=True)
    found = capabilities.parse(answer)

    def expand(link: Link) -> Any:
        return ask(libvirt, link, lambda: link.baselineCPU([found.cpu], EXPAND_FEATURES), None)

    # With all features of its model, which count as part of it.
    expanded = None if found.cpu is None else connection.call(expand, slow=True)
    return Hypervisor(
        opening=opening,
        kind=kind,
        version=version,
        cpu_info=found.cpu_info_json(expanded),
        capabilities=found,
    )


def read_cpus(libvirt: ModuleType, link: Link) -> HostCpus:
    """Return the CPUs of a host; all of them are online where libvirt does not know."""
    # The CPU map of the imaginary host has nothing to do with the rest of it.
    is_imaginary = link.getType() == TEST
    cpu_map = None if is_imaginary else ask(libvirt, link, lambda: link.getCPUMap()[1], None)
    if cpu_map is None:
        cpu_map = [True] * link.getInfo()[2]
    online = frozenset(cpu for cpu, is_online in enumerate(cpu_map) if is_online)
    return HostCpus(frozenset(range(len(cpu_map))), online)


def read_memory(
    libvirt: ModuleType, link: Link, libvirt_mb: int, kind: str, is_local: bool
) -> HostMemory:
    """Return what the host has; libvirt's own figure counts where no other source exists."""
    if kind == TEST:
        return HostMemory(libvirt_mb, None)
    meminfo = _meminfo(libvirt, link, is_local)
    if kind == XEN:
        running = _running(libvirt, link)
        return xen_memory(meminfo, libvirt_mb, running.pop(DOMAIN_0, 0), running.values())
    return host_memory.host_memory(meminfo, libvirt_mb)


def _default_pages(kind: str, is_local: bool) -> int | None:
    """Return the default size of huge pages in KiB, None if the kernel does not report one."""
    if is_local and kind != TEST:
        with suppress(OSError):
            return parse_meminfo(MEMINFO.read_text()).get("Hugepagesize")
    return None


def _meminfo(libvirt: ModuleType, link: Link, is_local: bool) -> dict[str, int]:
    """Return the meminfo of the machine where libvirt runs."""
    if is_local:
        with suppress(OSError):
            return parse_meminfo(MEMINFO.read_text())
    stats: dict[str, int] = ask(libvirt, link, lambda: link.getMemoryStats(-1), {})
    return {MEMINFO_NAMES[name]: kib for name, kib in stats.items() if name in MEMINFO_NAMES}


def _running(libvirt: ModuleType, link: Link) -> dict[int, int]:
    """Return how many KiB each running domain has at the moment, by its number.

    They show in the log only, so domains that libvirt has no figures of are left out.
    """
    found = {}
    for domain in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        info = ask(libvirt, link, domain.info, None)
        if info is not None:
            found[domain.ID()] = info[2]
    return found


def _cpus_by_cell(cpus: Iterable[int]) -> dict[int, list[Cpu]]:
    """Return CPUs by their cells, as the kernel's files say; those without files are left out.

    Of a CPU that is offline neither its socket nor its siblings are known.
    """
    found: dict[int, list[Cpu]] = {}
    for cpu in sorted(cpus):
        own = CPU_FILES / f"cpu{cpu}"
        cells = (number(each.name.removeprefix(_NODE)) for each in own.glob(f"{_NODE}[0-9]*"))
        cell = next((each for each in cells if each is not None), None)
        if cell is not None:
            found.setdefault(cell, []).append(_cpu(cpu, own / "topology"))
    return found


def _cpu(cpu: int, topology: Path) -> Cpu:
    siblings = members(_text(topology / "thread_siblings_list").strip())
    socket = number(_text(topology / "physical_package_id"))
    return Cpu(cpu, socket, frozenset(siblings | {cpu}))


def _text(path: Path) -> str:
    with suppress(OSError, ValueError):
        return path.read_text()
    return ""
