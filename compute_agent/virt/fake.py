# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A driver that plays any number of equal hosts, always the same ones for the same options."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

from compute_agent.virt.driver import (
    CpuCounters,
    Driver,
    DriverCannot,
    DriverMisconfigured,
    DriverUnavailable,
    Guest,
    NodeFacts,
    NodeName,
)
from inventory.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology

NAMESPACE = UUID("b5b1c2a6-6f0e-4c57-9d8e-0d1f7f3b6a11")
VERSION = 1_000_000
CPU_INFO = json.dumps(
    {
        "arch": "x86_64",
        "model": "Nehalem",
        "vendor": "Intel",
        "topology": {"cells": 1, "sockets": 2, "cores": 4, "threads": 2},
        "features": ["aes", "sse4.1", "sse4.2", "vme"],
    }
)
# The kinds that images ask for, besides our own: requests need not know that they go to a fake.
SUPPORTED = tuple(("x86_64", kind, "hvm") for kind in ("fake", "kvm", "qemu"))
SMALL_PAGE_KIB = 4
# (vCPUs, MiB, GiB) of the first guest, the second and so on, again and again.
SIZES = ((1, 512, 1), (1, 1024, 10), (2, 2048, 20), (4, 8192, 40))
STATES = ("active", "active", "stopped")
NANOSECONDS = 10**9
FREQUENCY_MHZ = 2400
# What a host does after an action, in the words of host-action.
POWER = {"startup": "on", "reboot": "rebooting", "shutdown": "off"}


class FakeDriver(Driver):
    """Hosts that exist in the database only. Tests give them guests and take them away."""

    knows_uuids = True

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self._conf = conf
        self._hosts = _numbered(conf.host, conf.fake.hosts)
        # How many nodes of each host these are, and how many guests each has besides added ones.
        self._number_of_nodes, self._number_of_guests = -1, conf.fake.guests
        self._nodes: dict[str, NodeName] = {}
        # What is always the same is made once: there may be ten thousand of it, each minute.
        self._facts: dict[str, NodeFacts] = {}
        self._own: dict[str, list[Guest]] = {}
        self._added: dict[str, dict[str, Guest]] = {}
        self._outages: dict[str, str] = {}
        self._closed = False
        self._power: dict[str, str] = {}
        self._seconds: Counter[NodeName] = Counter()
        self._each = NodeFacts(
            vcpus=conf.fake.vcpus,
            memory_mb=conf.fake.memory_mb,
            local_gb=conf.fake.local_gb,
            hypervisor_type="fake",
            hypervisor_version=VERSION,
            cpu_info=CPU_INFO,
            supported_instances=SUPPORTED,
            numa=_cells(conf.fake),
        )

    def hosts(self) -> Sequence[str]:
        return self._hosts

    def nodes(self) -> Sequence[NodeName]:
        self._answer()
        return list(self._named().values())

    def facts(self, node: NodeName) -> NodeFacts:
        self._answer(node.node)
        taken = sum(each.root_gb + each.ephemeral_gb for each in self._guests(node.node))
        found = self._facts.get(node.node)
        least = self._each.local_gb - taken
        if found is None or found.disk_available_least != least:
            uuid = str(uuid5(NAMESPACE, node.node))
            found = replace(self._each, uuid=uuid, disk_available_least=least)
            self._facts[node.node] = found
        return found

    def guests(self, node: NodeName) -> Sequence[Guest]:
        self._answer(node.node)
        return self._guests(node.node)

    def close(self) -> None:
        self._closed = True
        self.changes.close()

    def cpu_counters(self, node: NodeName) -> CpuCounters:
        """Return what the CPUs have done when each question comes a second after the last one."""
        self._answer(node.node)
        self._seconds[node] += 1
        total = self._seconds[node] * self._each.vcpus * NANOSECONDS
        # From 10 to 59 %, as busy as ever.
        busy = total // 100 * (10 + uuid5(NAMESPACE, node.node).int % 50)
        user, iowait = busy // 10 * 7, busy // 10
        return CpuCounters(user, busy - user - iowait, total - busy, iowait, FREQUENCY_MHZ)

    def act_on_power(self, host: str, action: str) -> str:
        if host not in self._hosts or action not in POWER:
            raise DriverCannot(f"{action} host {host}")
        self._answer()
        self._power[host] = POWER[action]
        return self._power[host]

    def power(self, host: str) -> str:
        """Return what was last done to a host, as act_on_power() says it."""
        return self._power.get(host, POWER["startup"])

    def add_guest(self, node: str, guest: Guest) -> None:
        """Add a guest to a node, or replace the one with its uuid."""
        self._added.setdefault(node, {})[guest.uuid] = guest
        self.changes.note(self._named()[node])

    def remove_guest(self, node: str, uuid: str) -> None:
        """Remove a guest that was added."""
        del self._added[node][uuid]
        self.changes.note(self._named()[node])

    def fail(self, reason: str | None, node: str = "") -> None:
        """Answer every question, or those about a node, with DriverUnavailable; None ends it."""
        if reason is None:
            self._outages.pop(node, None)
        else:
            self._outages[node] = reason

    def _answer(self, node: str = "") -> None:
        if self._closed:
            raise DriverUnavailable("the fake driver is closed")
        reason = self._outages.get("") or self._outages.get(node)
        if reason is not None:
            raise DriverUnavailable(reason)

    def _named(self) -> dict[str, NodeName]:
        """Return the nodes by their names, from options that may change."""
        number, self._number_of_guests = self._conf.fake.nodes, self._conf.fake.guests
        if number != self._number_of_nodes:
            named = (
                NodeName(host, node)
                for host in self._hosts
                for node in _numbered(host, number, "node-")
            )
            self._nodes = {name.node: name for name in named}
            self._number_of_nodes = number
        return self._nodes

    def _guests(self, node: str) -> list[Guest]:
        number = self._number_of_guests
        own = self._own.get(node, [])
        if len(own) != number:
            own = [*own, *(_guest(node, each) for each in range(len(own), number))][:number]
            self._own[node] = own
        added = self._added.get(node)
        return [*own, *added.values()] if added else own


def _numbered(host: str, number: int, infix: str = "") -> list[str]:
    if number == 1:
        return [host]
    return [f"{host}-{infix}{position:04d}" for position in range(1, number + 1)]


def _guest(node: str, number: int) -> Guest:
    vcpus, memory_mb, root_gb = SIZES[number % len(SIZES)]
    return Guest(
        uuid=str(uuid5(NAMESPACE, f"{node} {number}")),
        name=f"guest-{number + 1:04d}",
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        vm_state=STATES[number % len(STATES)],
    )


def _cells(fake: Any) -> NUMATopology | None:
    """Return cells that share out the CPUs and the memory, None for a host without cells."""
    number = fake.numa_cells
    if number > fake.vcpus:
        raise DriverMisconfigured(
            f"[fake] numa_cells = {number}: more cells than [fake] vcpus = {fake.vcpus}"
        )
    return NUMATopology([_cell(fake, each, number) for each in range(number)]) if number else None


def _cell(fake: Any, cell: int, number: int) -> NUMACell:
    first, after = (fake.vcpus * each // number for each in (cell, cell + 1))
    cpus = set(range(first, after))
    memory_mb = fake.memory_mb * (cell + 1) // number - fake.memory_mb * cell // number
    return NUMACell(
        id=cell,
        memory=memory_mb,
        cpuset=cpus,
        pcpuset=set(cpus),
        siblings=[{cpu} for cpu in sorted(cpus)],
        mempages=[NUMAPagesTopology(SMALL_PAGE_KIB, memory_mb * 1024 // SMALL_PAGE_KIB)],
        socket=cell,
    )
