# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of a libvirt host once per connection: it takes seconds and does not change."""

from dataclasses import dataclass
from types import ModuleType

from compute_agent.virt.libvirt import capabilities
from compute_agent.virt.libvirt.capabilities import Capabilities
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.session import Link, asked

EXPAND_FEATURES = 1
# libvirt's imaginary host, which has no kernel and no file system.
TEST = "TEST"
XEN = "Xen"
QEMU = "QEMU"


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """The kind of hypervisor, its CPU as JSON and all else of its capabilities."""

    opening: object
    kind: str
    version: int
    cpu_info: str
    capabilities: Capabilities


def read(connection: Connection, libvirt: ModuleType) -> Hypervisor:
    """Ask for all of it; raises DriverUnavailable or DriverAnswerUnusable."""
    # Three of these calls may take long, so each has a deadline to itself.
    kind = connection.call(lambda link: link.getType())
    opening = connection.opening
    version = connection.call_dear(lambda link: link.getVersion())
    found = capabilities.parse(connection.call_dear(lambda link: link.getCapabilities()))
    expanded = connection.call_dear(lambda link: _expanded(libvirt, link, found.cpu))
    return Hypervisor(
        opening=opening,
        kind=kind,
        version=version,
        cpu_info=found.cpu_info_json(expanded),
        capabilities=found,
    )


def _expanded(libvirt: ModuleType, link: Link, cpu: str | None) -> str | None:
    """Return the CPU element with all features of its model; they count as part of it."""
    if cpu is None:
        return None
    expanded: str | None = asked(
        libvirt, link, lambda: link.baselineCPU([cpu], EXPAND_FEATURES), None
    )
    return expanded
