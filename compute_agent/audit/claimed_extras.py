# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a guest has what is claimed for it besides its size: CPUs, huge pages, devices. Pure.

As many, not the same ones: Nova's compute service chooses for itself.
"""

from collections import Counter

from compute_agent.virt.driver import Guest
from inventory.objects.node_json import guest_topology_from_json, pci_pools_from_json
from inventory.objects.numa import InstanceNUMATopology

# KiB of the largest pages that a kernel has for everybody.
_ORDINARY = 64


def lacks_cells(guest: Guest, claimed: str | None) -> bool:
    """Return whether a guest has fewer pinned CPUs or huge pages than a claim, as JSON."""
    if not claimed:
        return False
    has = _own(guest.numa or InstanceNUMATopology())
    return not _own(guest_topology_from_json(claimed)) <= has


def lacks_devices(guest: Guest, claimed: str | None) -> bool:
    """Return whether a guest has fewer devices than a claim, as JSON."""
    number = sum(pool.count for pool in pci_pools_from_json(claimed))
    return number > len(guest.pci_addresses) + len(guest.device_names)


def _own(numa: InstanceNUMATopology) -> Counter[str]:
    """Return how many CPUs are pinned, and how many MiB are in huge pages by their size."""
    found = Counter(cpus=sum(len(cell.pcpuset) for cell in numa.cells))
    for cell in numa.cells:
        if cell.pagesize and cell.pagesize > _ORDINARY:
            found[f"{cell.pagesize} KiB"] += cell.memory
    return found
