# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the capabilities of a libvirt host: its CPU, its cells and its kinds of guests."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from compute_agent.virt.driver import DriverAnswerUnusable
from compute_agent.virt.libvirt.xml_values import KIB, MIB, document, members, number, size
from inventory.objects.canonical_names import ARCHITECTURES, HYPERVISORS, MODES, canonical

QUESTION = "getCapabilities"
# As many as a column of numa_topology may hold: 8 TiB of the smallest in one cell.
MAX_PAGES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU with those that share its core, itself included."""

    id: int
    socket: int | None
    siblings: frozenset[int]


@dataclass(frozen=True, slots=True)
class Cell:
    """A NUMA cell; memory is in MiB, pages holds (size in KiB, number of pages)."""

    id: int
    memory_mb: int
    pages: tuple[tuple[int, int], ...]
    cpus: tuple[Cpu, ...]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The CPU, cells and kinds of guests of a host.

    cpu is the XML element of the host's CPU, to be expanded by libvirt; None where it names no
    model, since libvirt refuses that.
    """

    cpu_info: dict[str, Any]
    supported_instances: tuple[tuple[str, str, str], ...]
    cpu: str | None
    cells: tuple[Cell, ...]

    def cpu_info_json(self, expanded: str | None = None) -> str:
        """Return the CPU as JSON, the same text for the same CPU in every process.

        expanded is the CPU element with the features that its model stands for spelled out.
        """
        info = dict(self.cpu_info)
        if expanded is not None:
            features = _features(document(expanded, "baselineCPU"))
            info["features"] = sorted({*features} or {*info["features"]})
        return json.dumps(info)


def parse(xml: str) -> Capabilities:
    """Return the parsed answer of getCapabilities(); raises DriverAnswerUnusable."""
    root = document(xml, QUESTION)
    cpu = root.find("host/cpu")
    if cpu is None:
        raise DriverAnswerUnusable(QUESTION, "there is no element host/cpu in the capabilities")
    info: dict[str, Any] = {name: cpu.findtext(name) for name in ("arch", "model", "vendor")}
    topology = cpu.find("topology")
    attributes = {} if topology is None else topology.attrib
    numbers = {name: number(attributes.get(name)) for name in ("sockets", "cores", "threads")}
    info["topology"] = {"cells": len(root.findall("host/topology/cells/cell")) or 1, **numbers}
    limit = cpu.find("maxphysaddr")
    if limit is not None:
        info["maxphysaddr"] = {"mode": limit.get("mode"), "bits": number(limit.get("bits"))}
    info["features"] = sorted(set(_features(cpu)))
    # libvirt knows the features of the ARM models less well than the kernel reports them.
    expandable = info["model"] is not None and info["arch"] != "aarch64"
    return Capabilities(
        cpu_info=info,
        supported_instances=_supported(root),
        cpu=ElementTree.tostring(cpu, encoding="unicode") if expandable else None,
        cells=tuple(_cells(root)),
    )


def _cells(root: ElementTree.Element) -> Iterator[Cell]:
    """Yield the cells; those without a number are left out."""
    for cell in root.findall("host/topology/cells/cell"):
        memory, identity = cell.find("memory"), number(cell.get("id"))
        if identity is not None:
            yield Cell(
                id=identity,
                memory_mb=0 if memory is None else size(memory.text, memory.get("unit")) // MIB,
                pages=tuple(_pages(cell)),
                cpus=tuple(_cpus(cell)),
            )


def _pages(cell: ElementTree.Element) -> Iterator[tuple[int, int]]:
    for each in cell.findall("pages"):
        size_kib = size(each.get("size"), each.get("unit")) // KIB
        count = number(each.text, at_most=MAX_PAGES)
        if size_kib and count is not None:
            yield size_kib, count


def _cpus(cell: ElementTree.Element) -> Iterator[Cpu]:
    for each in cell.findall("cpus/cpu"):
        identity = number(each.get("id"))
        if identity is not None:
            # libvirt reports neither of a CPU that is offline.
            socket, siblings = number(each.get("socket_id")), members(each.get("siblings"))
            yield Cpu(identity, socket, frozenset(siblings | {identity}))


def _supported(root: ElementTree.Element) -> tuple[tuple[str, str, str], ...]:
    """Return (architecture, hypervisor type, vm mode) of every kind of guest, each once."""
    found = (
        (
            canonical(arch.get("name", ""), ARCHITECTURES),
            canonical(domain.get("type", ""), HYPERVISORS),
            canonical(mode, MODES),
        )
        for guest in root.findall("guest")
        for mode in [guest.findtext("os_type", "")]
        for arch in guest.findall("arch")
        for domain in arch.findall("domain")
    )
    return tuple(dict.fromkeys(found))


def _features(cpu: ElementTree.Element) -> list[str]:
    return [name for feature in cpu.findall("feature") if (name := feature.get("name"))]
