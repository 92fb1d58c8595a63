# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Prints domains as Nova's libvirt driver writes them, and what Nova counts on the host's cells.

Reads a list of hosts and flavors as JSON: cells, each with its cpuset, pcpuset and siblings and
with what is used of it, extra specs, image properties, and vcpus. Prints the topology that the
guest asks for, the elements of a domain that concern its CPUs, Nova's notes in it, and for each
cell the CPUs that float, those that are pinned, and the memory in use; null for what Nova refuses,
and nothing but the topology for a guest that does not fit. It runs in the environment of Nova.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

from lxml import etree
from nova import config, exception, objects
from nova.virt import hardware
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt.driver import LibvirtDriver

from tests.peer import specs

MEMORY = 8192
# Annotations below name its classes.
objects.register_all()


def host_cell(number: int, words: dict[str, Any]) -> objects.NUMACell:
    sizes = {4: 2**19, 2048: 1024}
    return objects.NUMACell(
        id=number,
        cpuset=set(words["cpuset"]),
        pcpuset=set(words["pcpuset"]),
        memory=MEMORY,
        cpu_usage=words.get("cpu_usage", 0),
        memory_usage=words.get("memory_usage", 0),
        pinned_cpus=set(words.get("pinned_cpus", ())),
        siblings=[set(each) for each in words["siblings"]],
        mempages=[
            objects.NUMAPagesTopology(size_kb=size, total=total, used=0, reserved=0)
            for size, total in sizes.items()
        ],
        network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
        socket=number,
    )


class Driver(LibvirtDriver):
    """As much of the driver as writes the CPUs of a guest."""

    def __init__(self, topology: objects.NUMATopology) -> None:
        self.topology = topology
        online = set().union(*(cell.cpuset | cell.pcpuset for cell in topology.cells))
        self._host = SimpleNamespace(get_online_cpus=lambda: online)

    def _has_numa_support(self) -> bool:
        return True

    def _get_host_numa_topology(self) -> objects.NUMATopology:
        return self.topology

    def _get_guest_iothread(self) -> int:
        return 0


def counted(words: dict[str, Any]) -> dict[str, Any] | None:
    topology = objects.NUMATopology(cells=[host_cell(*each) for each in enumerate(words["cells"])])
    flavor = specs.a_flavor({"vcpus": words["vcpus"], "extra_specs": words["specs"]})
    try:
        image = specs.an_image(words["image"])
        wanted = hardware.numa_get_constraints(flavor, image)
        if not wanted:
            return None
        asked = {"wanted": json.dumps(wanted.obj_to_primitive())}
        limits = objects.NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.5)
        fitted = hardware.numa_fit_instance_to_host(topology, wanted, None, limits)
        if not fitted:
            return asked
        # It refuses emulator threads on a core that others use in part, which were fitted there.
        used = hardware.numa_usage_from_instance_numa(topology, fitted)
    except exception.NovaException:
        return None
    found = Driver(topology)._get_guest_numa_config(fitted, flavor, image)
    cpu = vconfig.LibvirtConfigGuestCPU()
    cpu.numa = found.numaconfig
    notes = vconfig.LibvirtConfigGuestMetaNovaInstance()
    notes.package = "34.0.0"
    notes.flavor = vconfig.LibvirtConfigGuestMetaNovaFlavor()
    notes.flavor.name, notes.flavor.id = flavor.name, flavor.flavorid
    notes.flavor.memory, notes.flavor.vcpus = flavor.memory_mb, flavor.vcpus
    notes.flavor.extra_specs = flavor.extra_specs
    notes.image = vconfig.LibvirtConfigGuestMetaImage()
    attributes = dict.fromkeys(each for each, _ in notes.image.attrs)
    properties = image.properties.to_dict()
    notes.image.image_meta = SimpleNamespace(**attributes, properties=properties)
    parts = [found.cputune, found.numatune, cpu]
    return {
        **asked,
        "parts": [etree.tostring(each.format_dom()).decode() for each in parts if each],
        "notes": etree.tostring(notes.format_dom()).decode(),
        "used": [
            [cell.cpu_usage, sorted(cell.pinned_cpus), cell.memory_usage] for cell in used.cells
        ],
    }


def main() -> None:
    config.parse_args(["nova-compute"], default_config_files=[])

    json.dump([counted(words) for words in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
