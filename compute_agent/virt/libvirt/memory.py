# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory a libvirt host has and uses, by the rule for its kind. In a native thread."""

from contextlib import suppress
from pathlib import Path
from types import ModuleType

from compute_agent.host_memory import HostMemory, host_memory, parse_meminfo, xen_memory
from compute_agent.virt.libvirt.hypervisor import TEST, XEN
from compute_agent.virt.libvirt.session import Link, asked

MEMINFO = Path("/proc/meminfo")
# What getMemoryStats() calls the figures that it takes from /proc/meminfo.
MEMINFO_NAMES = {"total": "MemTotal", "free": "MemFree", "buffers": "Buffers", "cached": "Cached"}
DOMAIN_0 = 0


def look(libvirt: ModuleType, link: Link, libvirt_mb: int, kind: str, is_local: bool) -> HostMemory:
    """Return what the host has; libvirt's own figure counts where nobody knows more."""
    if kind == TEST:
        return HostMemory(libvirt_mb, None)
    meminfo = _meminfo(libvirt, link, is_local)
    if kind == XEN:
        running = _running(libvirt, link)
        return xen_memory(meminfo, libvirt_mb, running.pop(DOMAIN_0, 0), running.values())
    return host_memory(meminfo, libvirt_mb)


def _meminfo(libvirt: ModuleType, link: Link, is_local: bool) -> dict[str, int]:
    """Return the meminfo of the machine where libvirt is, which need not be this one."""
    if is_local:
        with suppress(OSError):
            return parse_meminfo(MEMINFO.read_text())
    stats: dict[str, int] = asked(libvirt, link, lambda: link.getMemoryStats(-1), {})
    return {MEMINFO_NAMES[name]: kib for name, kib in stats.items() if name in MEMINFO_NAMES}


def _running(libvirt: ModuleType, link: Link) -> dict[int, int]:
    """Return how many KiB each running domain has at the moment, by its number."""
    found = {}
    for domain in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
        try:
            found[domain.ID()] = domain.info()[2]
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
    return found
