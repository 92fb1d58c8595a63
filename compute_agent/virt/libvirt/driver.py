# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The driver that looks at one libvirt host, /proc/meminfo and the file system of the guests."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from oslo_log import log

from compute_agent import host_memory
from compute_agent.virt.driver import Driver, Guest, NodeFacts, NodeName
from compute_agent.virt.libvirt import capabilities, domains
from compute_agent.virt.libvirt.connection import Connection, Lane, Link, library
from conf import libvirt as options

LOG = log.getLogger(__name__)
T = TypeVar("T")
MEMINFO = Path("/proc/meminfo")
GIB = 1024**3
EXPAND_FEATURES = 1
# libvirt's imaginary host, whose CPU map has nothing to do with the rest of it.
TEST = "TEST"
# What getMemoryStats() calls the figures that it takes from /proc/meminfo.
MEMINFO_NAMES = {"total": "MemTotal", "free": "MemFree", "buffers": "Buffers", "cached": "Cached"}


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What is asked once per connection, since it can take seconds and does not change."""

    opening: int
    hypervisor_type: str
    hypervisor_version: int
    cpu_info: str
    supported_instances: tuple[tuple[str, str, str], ...]


class LibvirtDriver(Driver):
    """Looks at the host that [libvirt] connection_uri leads to."""

    def __init__(self, conf: Any, libvirt: ModuleType | None = None) -> None:
        super().__init__(conf)
        self._host: str = conf.host
        self._uri = options.uri(conf)
        self._instances_path = Path(conf.instances_path)
        self._libvirt = libvirt or library()
        self._connection = Connection(self._libvirt, self._uri, conf.libvirt.call_timeout)
        # Of its own: the file system may be one of a network that hangs while libvirt answers.
        self._disk = Lane(f"the file system of {self._instances_path}", conf.libvirt.call_timeout)
        self._node = ""
        self._fixed: _Fixed | None = None
        self._libvirt_mb = 0

    def hosts(self) -> Sequence[str]:
        return [self._host]

    def nodes(self) -> Sequence[NodeName]:
        name = self._connection.call(lambda link: link.getHostname())
        if self._node and name != self._node:
            # Seen when DNS comes or goes. Two rows for one machine would double its capacity.
            LOG.warning("The hypervisor now calls itself %s; it stays %s here", name, self._node)
        self._node = self._node or name
        return [NodeName(host=self._host, node=self._node)]

    def facts(self, node: NodeName) -> NodeFacts:
        fixed = self._once_per_connection()
        libvirt_mb, vcpus, meminfo = self._connection.call(self._moving)
        memory = host_memory.host_memory(meminfo, libvirt_mb)
        self._compare(libvirt_mb, memory.total_mb)
        disk = self._disk.run(lambda: os.statvfs(_existing(self._instances_path)))
        return NodeFacts(
            vcpus=vcpus,
            memory_mb=memory.total_mb,
            memory_used_mb=memory.used_mb,
            local_gb=disk.f_frsize * disk.f_blocks // GIB,
            disk_available_least=disk.f_frsize * disk.f_bavail // GIB,
            hypervisor_type=fixed.hypervisor_type,
            hypervisor_version=fixed.hypervisor_version,
            cpu_info=fixed.cpu_info,
            supported_instances=fixed.supported_instances,
        )

    def guests(self, node: NodeName) -> Sequence[Guest]:
        return self._connection.call(lambda link: domains.read(link, self._libvirt))

    def close(self) -> None:
        self._connection.close()
        self._disk.close()
        self.changes.close()

    def _once_per_connection(self) -> _Fixed:
        if self._fixed is None or self._fixed.opening != self._connection.openings:
            self._fixed = self._read_fixed()
        return self._fixed

    def _read_fixed(self) -> _Fixed:
        # Two of these calls may take long, so each has a deadline to itself.
        kind = self._connection.call(lambda link: link.getType())
        opening = self._connection.openings
        version = self._connection.call(lambda link: link.getVersion())
        found = capabilities.parse(self._connection.call(lambda link: link.getCapabilities()))
        expanded = self._connection.call(lambda link: self._expanded(link, found.cpu))
        return _Fixed(
            opening=opening,
            hypervisor_type=kind,
            hypervisor_version=version,
            cpu_info=found.cpu_info_json(expanded),
            supported_instances=found.supported_instances,
        )

    def _expanded(self, link: Link, cpu: str | None) -> str | None:
        """Return the CPU element with all features of its model; they count as part of it."""
        if cpu is None:
            return None
        expanded: str | None = self._asked(
            link, lambda: link.baselineCPU([cpu], EXPAND_FEATURES), None
        )
        return expanded

    def _moving(self, link: Link) -> tuple[int, int, dict[str, int]]:
        """Return libvirt's total memory in MiB, the CPUs in use and the host's meminfo in KiB."""
        info = link.getInfo()
        if link.getType() == TEST:
            return info[1], info[2], {}
        online = self._asked(link, lambda: link.getCPUMap()[2], info[2])
        return info[1], online, self._meminfo(link)

    def _meminfo(self, link: Link) -> dict[str, int]:
        """Return the meminfo of the machine where libvirt is, which need not be this one."""
        if not urlsplit(self._uri).hostname:
            with suppress(OSError):
                return host_memory.parse_meminfo(MEMINFO.read_text())
        stats: dict[str, int] = self._asked(link, lambda: link.getMemoryStats(-1), {})
        return {MEMINFO_NAMES[name]: kib for name, kib in stats.items() if name in MEMINFO_NAMES}

    def _asked(self, link: Link, question: Callable[[], T], otherwise: T) -> T:
        """Return question(), or otherwise where this kind of hypervisor has no answer to it."""
        try:
            return question()
        except self._libvirt.libvirtError:
            if link.isAlive() != 1:
                raise
            return otherwise

    def _compare(self, libvirt_mb: int, total_mb: int) -> None:
        """Say so when libvirt sees another total, and again only when its figure has moved."""
        if not host_memory.disagree(libvirt_mb, total_mb):
            return
        if not self._libvirt_mb or host_memory.disagree(libvirt_mb, self._libvirt_mb):
            self._libvirt_mb = libvirt_mb
            LOG.info(
                "libvirt sees %s MiB of memory, /proc/meminfo %s; the latter counts",
                libvirt_mb,
                total_mb,
            )


def _existing(path: Path) -> Path:
    """Return the directory or, before it is there, the nearest one that it will be in."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())
