# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A small fleet of unlike hosts, each with an agent of its own, and a ledger of it."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import Guest, NodeFacts, NodeName, PciDevice
from compute_agent.virt.fake import FakeDriver
from inventory.engine import Database
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from tests.contract.database.claims_model import Host, Ledger, Taken, memory_of_cell
from tests.fixtures import agent

GB = 1024
# Small ones, of which a few requests leave nothing; some limits are no whole numbers.
HOSTS = {
    "alpha": Host(4, 8192, 20 * GB, Taken(0, 512, 0), 0),
    "beta": Host(8, 16384, 30 * GB, Taken(1, 0, 700), 5 * GB, {0: (0, 4), 1: (4, 8)}),
    "gamma": Host(6, 6144, 12 * GB, Taken(0, 0, 0), 0, {}, {"1520": 2, "10ed": 1}),
}
RATIOS = {"alpha": (1.5, 1.1, 1.0), "beta": (1.1, 1.5, 1.5), "gamma": (1.0, 1.0, 1.1)}


def limits(host: str) -> dict[str, float]:
    """Return what may be claimed of a host, in the units in which filters say it."""
    has, (cpu, ram, disk) = HOSTS[host], RATIOS[host]
    return {
        "vcpu": has.vcpus * cpu,
        "memory_mb": has.memory_mb * ram,
        "disk_gb": has.disk_mb * disk / GB,
    }


class OddDriver(FakeDriver):
    """A host with devices, and with a file system that is not only for guests."""

    has: Host

    def facts(self, node: NodeName) -> NodeFacts:
        found = super().facts(node)
        assert found.disk_available_least is not None
        least = found.disk_available_least - self.has.strangers_mb // GB
        devices = tuple(
            PciDevice(address, "8086", product) for address, product in addresses(self.has)
        )
        return replace(found, disk_available_least=least, pci_devices=devices)


class Agents:
    """The agents of the fleet, which begin anew with every history."""

    def __init__(self, directory: Path) -> None:
        self._confs = {host: _conf(directory / host, host) for host in HOSTS}

    def begin(self, database: Database) -> None:
        self.drivers: dict[str, OddDriver] = {}
        self.trackers: dict[str, ResourceTracker] = {}
        for host, conf in self._confs.items():
            conf.set_override("nodes", 1, group="fake")
            self.drivers[host] = OddDriver(conf)
            self.drivers[host].has = HOSTS[host]
            self.restart(database, host)

    def restart(self, database: Database, host: str) -> None:
        """Let the agent of a host forget what it knows."""
        self.trackers[host] = ResourceTracker(self._confs[host], database, self.drivers[host])

    def audit(self, host: str) -> None:
        self.trackers[host].audit({host: 1})

    def exists(self, host: str, there: bool) -> None:
        """Let a host be there, or be gone with its next audit."""
        self._confs[host].set_override("nodes", int(there), group="fake")

    def show(self, ledger: Ledger, host: str, states: dict[str, str]) -> None:
        """Let a host have the guests that the ledger has."""
        driver = self.drivers[host]
        for uuid in list(driver._added.get(host, {})):
            driver.remove_guest(host, uuid)
        for uuid, each in ledger.running[host].items():
            taken = each.taken
            driver.add_guest(
                host,
                Guest(
                    uuid=uuid,
                    name=uuid,
                    vcpus=taken.vcpus,
                    memory_mb=taken.memory_mb,
                    root_gb=taken.disk_mb // GB,
                    swap_mb=taken.disk_mb % GB,
                    vm_state=states.get(uuid, "active"),
                    numa=guest_cells(taken),
                    pci_addresses=each.addresses,
                ),
            )


def _conf(directory: Path, host: str) -> cfg.ConfigOpts:
    directory.mkdir()
    has, kept = HOSTS[host], HOSTS[host].reserved
    options: dict[str, Any] = {
        "compute_driver": "fake",
        "host": host,
        "reserved_host_cpus": kept.vcpus,
        "reserved_host_memory_mb": kept.memory_mb,
        "reserved_host_disk_mb": kept.disk_mb,
    }
    fake = {
        "vcpus": has.vcpus,
        "memory_mb": has.memory_mb,
        "local_gb": has.disk_mb // GB,
        "numa_cells": len(has.cells),
    }
    return agent.options(directory, DEFAULT=options, fake=fake, pci={"device_spec": "{}"})


def addresses(has: Host) -> list[tuple[str, str]]:
    """Return the devices of a host as (address, product)."""
    products = [product for product, count in has.devices.items() for _ in range(count)]
    return [(f"0000:0{slot}:00.0", product) for slot, product in enumerate(products, 1)]


def free_addresses(ledger: Ledger, host: str, taken: Taken) -> tuple[str, ...]:
    """Return devices for a guest, of those that no other one has."""
    used = {address for each in ledger.running[host].values() for address in each.addresses}
    free = [each for each in addresses(HOSTS[host]) if each[0] not in used]
    chosen: list[str] = []
    for product, count in taken.devices:
        some = [address for address, kind in free if kind == product][:count]
        assert len(some) == count, "what was claimed is not connected to the message broker"
        chosen += some
    return tuple(chosen)


def guest_cells(taken: Taken) -> InstanceNUMATopology | None:
    """Return the fitted cells of an instance."""
    memory = memory_of_cell(taken)
    cells = [
        InstanceNUMACell(cell, memory, cpuset=set(range(cpus))) for cell, cpus in taken.floating
    ]
    cells += [
        InstanceNUMACell(
            cell,
            memory,
            pcpuset=set(range(len(cpus))),
            cpu_pinning=dict(enumerate(sorted(cpus))),
            cpu_policy="dedicated",
        )
        for cell, cpus in taken.pinned
    ]
    return InstanceNUMATopology(cells) if cells else None


def hosts(names: Iterable[str] = HOSTS) -> Ledger:
    """Return a ledger of empty hosts."""
    return Ledger(
        hosts={name: HOSTS[name] for name in names},
        alive=set(),
        running={name: {} for name in names},
        seen={name: {} for name in names},
    )
