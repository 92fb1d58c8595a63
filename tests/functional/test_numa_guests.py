# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Guests fit on NUMA cells as in Nova, and use by their domains what Nova counts for them."""

import random
from collections import Counter
from functools import cache
from typing import Any
from xml.etree import ElementTree

from compute_agent.virt.libvirt import domain_numa, nova_metadata
from compute_agent.virt.libvirt.guest_numa import placed
from compute_agent.virt.libvirt.host_cells import HostCells
from inventory.numa.cells import Ratios, with_usage
from inventory.numa.fit import GuestRequest, HostResources, fitted
from inventory.objects.node_json import guest_topology_from_json
from inventory.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from tests.fixtures.code_of_nova import ask_nova

MASKS = ["0", "1", "^0", "^1", "0-1", "1-3", "^0-1", "2,3", "1-3,^2", " ^0 ", "0,,1", "^0,^2"]
SPECS = {
    "hw:cpu_policy": ["mixed", "mixed", "mixed", "dedicated", "shared"],
    "hw:cpu_thread_policy": ["isolate", "require", "prefer"],
    "hw:emulator_threads_policy": ["isolate", "share"],
    "hw:numa_nodes": ["1", "2"],
    "hw:cpu_dedicated_mask": MASKS,
    "hw:cpu_realtime": ["yes", "True", "no"],
    "hw:cpu_realtime_mask": MASKS,
    "hw:mem_page_size": ["2048", "small", "large"],
    "resources:PCPU": ["2", "4"],
    "resources2:PCPU": ["4"],
    "trait:HW_CPU_HYPERTHREADING": ["required", "forbidden"],
    "trait1:HW_CPU_HYPERTHREADING": ["forbidden"],
}
OFTEN = {"hw:cpu_policy": 0.8, "hw:cpu_dedicated_mask": 0.4, "hw:cpu_realtime": 0.4}
PROPERTIES = {
    "hw_cpu_policy": ["dedicated", "mixed", "shared"],
    "hw_cpu_realtime_mask": MASKS,
    "hw_cpu_thread_policy": ["isolate", "require"],
    "trait:HW_CPU_HYPERTHREADING": ["required"],
}
DRAWS = 6000


def drawn_cells(chance: random.Random) -> list[dict[str, Any]]:
    """Return a host, many a cell of which has one CPU, or one for floating guests."""
    cells: list[dict[str, Any]] = []
    first, threads = 0, chance.choice([1, 1, 2])
    sets = chance.choice(["one", "one", "two"])
    for _ in range(chance.choice([1, 1, 2])):
        number = chance.choice([1, 2, 3, 4, 6] if threads == 1 else [2, 4, 6])
        cpus = list(range(first, first + number))
        first += number
        shared = cpus if sets == "one" else cpus[: chance.choice([1, 1, 2])]
        pinned = cpus if sets == "one" else [cpu for cpu in cpus if cpu not in shared]
        cores = [cpus[at : at + threads] for at in range(0, number, threads)]
        cells.append({"cpuset": shared, "pcpuset": pinned, "siblings": cores})
    return cells


def occupied(cell: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a cell of which other guests use something."""
    return {
        **cell,
        "pinned_cpus": [cpu for cpu in cell["pcpuset"] if chance.random() < 0.25],
        "cpu_usage": chance.choice([0, 0, 1, 3, 12]),
        "memory_usage": chance.choice([0, 0, 2048, 7000]),
    }


def drawn(chance: random.Random) -> dict[str, Any]:
    """Return a host and a guest that Nova may refuse, as its parts may contradict."""
    specs, image = (
        {
            name: chance.choice(values)
            for name, values in choices.items()
            if chance.random() < OFTEN.get(name, rarely)
        }
        for choices, rarely in ((SPECS, 0.12), (PROPERTIES, 0.06))
    )
    vcpus = chance.choice([1, 2, 2, 3, 4])
    return {"cells": drawn_cells(chance), "vcpus": vcpus, "specs": specs, "image": image}


def drawn_beside_others(chance: random.Random) -> dict[str, Any]:
    words = drawn(chance)
    return {**words, "cells": [occupied(cell, chance) for cell in words["cells"]]}


DRAWN = [drawn(random.Random(number)) for number in range(DRAWS)]
BESIDE_OTHERS = [drawn_beside_others(random.Random(number)) for number in range(DRAWS)]


@cache
def of_nova() -> list[dict[str, Any] | None]:
    found: list[dict[str, Any] | None] = ask_nova("numa_guests", DRAWN + BESIDE_OTHERS)
    return found


def the_host(cells: list[dict[str, Any]]) -> HostCells:
    topology = [
        NUMACell(
            id=number,
            memory=8192,
            cpuset=set(each["cpuset"]),
            pcpuset=set(each["pcpuset"]),
            siblings=[set(core) for core in each["siblings"]],
            pinned_cpus=set(each.get("pinned_cpus", ())),
            cpu_usage=each.get("cpu_usage", 0),
            memory_usage=each.get("memory_usage", 0),
            mempages=[NUMAPagesTopology(4, 2**19), NUMAPagesTopology(2048, 1024)],
        )
        for number, each in enumerate(cells)
    ]
    cpus = {cell.id: frozenset(cell.cpuset | cell.pcpuset) for cell in topology}
    return HostCells(NUMATopology(topology), cpus, None)


def ours(words: dict[str, Any], found: dict[str, Any]) -> list[list[Any]]:
    """Return what the agent counts on the cells, from the domain alone."""
    parts = "".join(found["parts"])
    huge = words["specs"].get("hw:mem_page_size")
    if huge in ("2048", "large"):
        pages = "<page size='2048' unit='KiB' nodeset='0-1'/>"
        parts += f"<memoryBacking><hugepages>{pages}</hugepages></memoryBacking>"
    domain = ElementTree.fromstring(
        f"<domain><metadata>{found['notes']}</metadata><vcpu>{words['vcpus']}</vcpu>{parts}</domain>"
    )
    notes = nova_metadata.read(domain.find("metadata"))
    host = the_host(words["cells"])
    numa = placed(domain_numa.read(domain, words["vcpus"], 2048, notes), host)
    return usage(host.numa if numa is None else with_usage(host.numa, numa))


def usage(host: NUMATopology) -> list[list[Any]]:
    return [[cell.cpu_usage, sorted(cell.pinned_cpus), cell.memory_usage] for cell in host.cells]


def chosen(words: dict[str, Any], found: dict[str, Any]) -> list[list[Any]] | None:
    """Return what a scheduler claims on the cells, None where it refuses the guest."""
    host = the_host(words["cells"]).numa
    request = GuestRequest(guest_topology_from_json(found["wanted"]))
    cells = fitted(HostResources(host, Ratios(cpu=4.0, ram=1.5)), request)
    return None if cells is None else usage(with_usage(host, cells))


def test_what_is_used_of_cells_is_what_nova_counts() -> None:
    pairs = list(zip(DRAWN, of_nova()[:DRAWS], strict=True))
    taken = [(words, found) for words, found in pairs if found and "used" in found]
    policies = Counter(str(words["specs"].get("hw:cpu_policy")) for words, _ in taken)
    assert policies["mixed"] > 200
    differing = [
        (words, found["used"], mine)
        for words, found in taken
        if (mine := ours(words, found)) != found["used"]
    ]
    assert not differing, (len(differing), len(taken), differing[:3])


def test_guests_fit_where_nova_fits_them() -> None:
    pairs = list(zip(BESIDE_OTHERS, of_nova()[DRAWS:], strict=True))
    asked = [(words, found) for words, found in pairs if found]
    fitting = sum("used" in found for _, found in asked)
    assert 200 < fitting < len(asked) - 200
    differing = [
        (words, found.get("used"), mine)
        for words, found in asked
        if (mine := chosen(words, found)) != found.get("used")
    ]
    assert not differing, (len(differing), len(asked), differing[:3])
