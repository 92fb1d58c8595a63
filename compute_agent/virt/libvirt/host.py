# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a libvirt host has of CPUs and memory for guests."""

from collections.abc import Set
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from oslo_log import log

from compute_agent import cpu_sets, host_memory
from compute_agent.host_memory import HostMemory
from compute_agent.virt.libvirt import cells, hypervisor, memory
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.hypervisor import QEMU, TEST, Hypervisor
from compute_agent.virt.libvirt.session import Link, asked
from scheduler.objects.numa import NUMATopology

LOG = log.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The host at one moment; numa holds its cells with nothing in use."""

    hypervisor: Hypervisor
    vcpus: int
    memory: HostMemory
    numa: NUMATopology | None


@dataclass(frozen=True, slots=True)
class _Moment:
    """What may be different at each look; libvirt's own total of the memory is in MiB."""

    libvirt_mb: int
    memory: HostMemory
    online: frozenset[int]


class Host:
    """Looks at a host, and asks only once per connection for what is dear."""

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
        self._online: frozenset[int] = frozenset()
        self._libvirt_mb = 0

    def look(self) -> HostFacts:
        """Return what the host has now; raises DriverError.

        As long as its CPUs are the same, so is the object that stands for its cells.
        """
        found = self._once_per_connection()
        moment = self._connection.call(lambda link: self._moment(link, found.kind))
        self._compare(moment)
        before, same_cpus = self._facts, self._online == moment.online
        if before is not None and before.hypervisor is found and same_cpus:
            vcpus, numa = before.vcpus, before.numa
        else:
            vcpus = self._cpu_sets.vcpus(moment.online)
            numa = self._cells(found, moment.online)
        self._online = moment.online
        self._facts = HostFacts(found, vcpus, moment.memory, numa)
        return self._facts

    @property
    def numa(self) -> NUMATopology | None:
        """The cells as they were at the last look; without one, this looks."""
        return (self._facts or self.look()).numa

    def _once_per_connection(self) -> Hypervisor:
        known = self._hypervisor
        if known is None or known.opening is not self._connection.opening:
            known = self._hypervisor = hypervisor.read(self._connection, self._libvirt)
        return known

    def _cells(self, found: Hypervisor, online: Set[int]) -> NUMATopology | None:
        architecture = found.capabilities.cpu_info["arch"]
        # The imaginary host is there to be tried.
        if not cells.can_bind(architecture, found.kind in {QEMU, TEST}):
            return None
        return cells.host_cells(found.capabilities, online, self._cpu_sets, self._reserved_pages)

    def _moment(self, link: Link, kind: str) -> _Moment:
        info = link.getInfo()
        online = frozenset(range(info[2]))
        # The CPU map of the imaginary host has nothing to do with the rest of it.
        if kind != TEST:
            cpu_map = asked(self._libvirt, link, lambda: link.getCPUMap()[1], None)
            if cpu_map is not None:
                online = frozenset(cpu for cpu, is_online in enumerate(cpu_map) if is_online)
        found = memory.look(self._libvirt, link, info[1], kind, self._is_local)
        return _Moment(libvirt_mb=info[1], memory=found, online=online)

    def _compare(self, moment: _Moment) -> None:
        """Say so when libvirt sees another total, and again only when its figure has moved."""
        libvirt_mb, total_mb = moment.libvirt_mb, moment.memory.total_mb
        if not host_memory.disagree(libvirt_mb, total_mb):
            return
        if not self._libvirt_mb or host_memory.disagree(libvirt_mb, self._libvirt_mb):
            self._libvirt_mb = libvirt_mb
            LOG.info(
                "libvirt sees %s MiB of memory, /proc/meminfo %s; the latter counts",
                libvirt_mb,
                total_mb,
            )
