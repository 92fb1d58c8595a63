# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that come to a host of the table and leave it, with all that they take there.

Adding and removing are each other's inverse, also for NUMA cells, devices and standbys.
"""

from collections.abc import Iterable

from inventory.claims.numa_pci_usage import pools_with
from inventory.fits import local_disk_mb
from inventory.numa.cells import with_usage
from inventory.objects.amounts import NOTHING, Amounts, plus
from inventory.objects.standby import DomainSums, changed, held
from inventory.pci_pools import PciPools
from scheduler.hosts.host_state import Consumption, usage_changes
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance


def reported(instance: Instance) -> Consumption:
    """Return what an instance takes of its host, as far as agents report it."""
    disk = local_disk_mb(instance.root_gb or 0, instance.ephemeral_gb or 0, 0)
    return Consumption(instance.vcpus or 0, instance.memory_mb or 0, disk)


def add_instance(
    hosts: HostTable, row: int, instance: Instance, taken: Consumption, is_building: bool = False
) -> None:
    """Add an instance to the host of a row; one that is being built counts as work for its disk."""
    use(hosts, row, taken, 1, is_building)
    hosts.instances.add(row, instance.uuid, instance)


def remove_instance(
    hosts: HostTable, row: int, uuid: str, taken: Consumption, is_building: bool = False
) -> None:
    """Remove an instance from the host of a row, and give back what it takes."""
    use(hosts, row, taken, -1, is_building)
    hosts.instances.change(row, {}, [uuid])


def use(
    hosts: HostTable, row: int, taken: Consumption, sign: int, is_building: bool = False
) -> None:
    """Count what an instance takes of a host, or give it back where sign is -1."""
    changes = {name: sign * change for name, change in taken.changes.items()}
    if not is_building:
        del changes["num_io_ops"]
    hosts.add_to(row, changes)
    if taken.cells is not None and (cells := hosts.get(row, "numa_topology")) is not None:
        hosts.set(row, "numa_topology", with_usage(cells, taken.cells, sign))
    if taken.devices:
        pools = pools_with(hosts.get(row, "pci_stats") or (), taken.devices, -sign)
        hosts.set(row, "pci_stats", PciPools(pools))


def give_back_promises(hosts: HostTable) -> None:
    """Give back what the hosts of a table hold for standbys and reservations, as far as known."""
    for row in hosts.rows() if hosts.promises else ():
        if promises := hosts.promises.get(hosts.get(row, "node_id")):
            hosts.add_to(row, usage_changes(*plus(NOTHING, promises.held, -1)))
    hosts.promises = {}


class StandbySums:
    """What the hosts of a table hold for standbys, by its promises and what has changed since.

    of has what each failure domain would bring to a row.
    """

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self.of: dict[int, DomainSums] = {}
        for row in hosts.rows() if hosts.promises else ():
            if known := hosts.promises.get(hosts.get(row, "node_id")):
                self.of[row] = known.domains

    def change(self, row: int, domains: Iterable[str], size: Amounts, sign: int) -> None:
        """Hold one standby more on a host, or one less where sign is -1."""
        before = self.of.get(row, {})
        self.of[row] = after = changed(before, domains, size, sign)
        self._hosts.add_to(row, usage_changes(*plus(held(after), held(before), -1)))
