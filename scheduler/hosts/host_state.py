# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One host as filters and weighers see it: a row of the table with the names they know."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy.typing as npt

from inventory.objects.numa import InstanceNUMATopology
from inventory.objects.pci_and_network import PciDevicePool
from scheduler.hosts.columns import NUMBERS, OBJECTS
from scheduler.hosts.limits import HostLimits
from scheduler.hosts.numa_pci import consumption
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

# The hypervisor type of nodes that instances get as a whole.
BARE_METAL = "ironic"
# Of one host, or of several.
Amount = TypeVar("Amount", int, npt.NDArray[Any])
_COLUMNS = NUMBERS | frozenset(OBJECTS)


# Not frozen, since it takes five times as long to make a frozen one, and requests may be for
# thousands of instances.
@dataclass(slots=True)
class Candidate:
    """A chosen host or an alternate, as of the decision."""

    row: int
    host: str
    nodename: str
    uuid: str | None
    cell_uuid: str | None
    limits: Mapping[str, Any]
    weight: float


def usage_changes(vcpus: Amount, memory_mb: Amount, disk_mb: Amount) -> dict[str, Amount]:
    """Return the changes of the numeric columns of a host of which so much more is used.

    With arrays these are the changes of several hosts.
    """
    return {"free_ram_mb": -memory_mb, "free_disk_mb": -disk_mb, "vcpus_used": vcpus}


@dataclass(frozen=True, slots=True)
class Consumption:
    """What an instance consumes of a host; cells are those that it is fitted into."""

    vcpus: int
    memory_mb: int
    disk_mb: int
    cells: InstanceNUMATopology | None = None
    devices: tuple[PciDevicePool, ...] = ()

    @property
    def changes(self) -> dict[str, int]:
        """The changes of the numeric columns of the host."""
        used = usage_changes(self.vcpus, self.memory_mb, self.disk_mb)
        return {"num_instances": 1, "num_io_ops": 1, **used}


class HostState:
    """The state of one node of one host; attributes are read from and written to its row.

    Besides the columns of the table these are limits, instances and service; any others stay on
    the object. HostState(host, node) makes a table of one row, to try a plug-in by itself.
    """

    table: HostTable
    row: int

    def __init__(self, host: str, node: str) -> None:
        table = HostTable()
        row = table.add(host, node)
        self.__dict__.update(table=table, row=row)

    @classmethod
    def of(cls, table: HostTable, row: int) -> "HostState":
        """Return the host in a row of a table."""
        state = cls.__new__(cls)
        state.__dict__.update(table=table, row=row)
        return state

    def __getattr__(self, name: str) -> Any:
        if name not in _COLUMNS:
            raise AttributeError(f"a host has no attribute {name}")
        return self.table.get(self.row, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _COLUMNS:
            self.table.set(self.row, name, value)
        elif name in _PROPERTIES:
            object.__setattr__(self, name, value)
        else:
            self.__dict__[name] = value

    @property
    def limits(self) -> HostLimits:
        """How far this host may be filled: {vcpu, memory_mb, disk_gb} as filters set them."""
        return self.table.limits.of(self.row)

    @limits.setter
    def limits(self, limits: Mapping[str, Any]) -> None:
        here = self.table.limits.of(self.row)
        here.clear()
        here.update(limits)

    @property
    def instances(self) -> Mapping[str, Instance]:
        """The instances on this host by uuid."""
        return self.table.instances.on(self.row)

    @instances.setter
    def instances(self, instances: Mapping[str, Instance]) -> None:
        self.table.instances.replace(self.row, instances)

    @property
    def service(self) -> dict[str, Any]:
        """The compute service of this host, with the names of Nova."""
        return {
            "host": self.host,
            "binary": "nova-compute",
            "topic": "compute",
            "disabled": self.service_disabled,
            "disabled_reason": self.disabled_reason,
            "forced_down": self.forced_down,
            "heartbeat_age": self.heartbeat_age,
        }

    def consume_from_request(self, spec_obj: RequestSpec) -> Consumption:
        """Consume what an instance needs; return that. The request does not change.

        As in the filters, swap counts as disk, and an instance that boots from a volume needs no
        root disk. An instance on a bare-metal node consumes all of it.
        """
        table, row = self.table, self.row
        # Nothing is changed before all is computed.
        columns, cells, devices = consumption(table, row, spec_obj)
        amounts = spec_obj.vcpus, spec_obj.memory_mb, spec_obj.disk_mb
        if table.get(row, "hypervisor_type") == BARE_METAL:
            amounts = self.vcpus_total - self.vcpus_used, self.free_ram_mb, self.free_disk_mb
        for name, value in columns.items():
            table.set(row, name, value)
        consumed = Consumption(*amounts, cells, devices)
        place_instance(table, row, spec_obj, spec_obj.instance_uuid, consumed)
        return consumed

    def consume(self, consumed: Consumption) -> None:
        """Count one more instance, with its amounts but without cells and devices."""
        self.table.add_to(self.row, consumed.changes)

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb} MB disk: {self.free_disk_mb}"
            f" MB vcpus used: {self.vcpus_used} io_ops: {self.num_io_ops}"
            f" instances: {self.num_instances}"
        )


_PROPERTIES = frozenset({"limits", "instances", "service"})


def consumes_numbers_only(hosts: HostTable, spec: RequestSpec) -> bool:
    """Return whether an instance consumes nothing but numbers, the same on each host."""
    if spec.is_rebuild or spec.numa_topology or spec.devices:
        return False
    return BARE_METAL not in hosts.distinct("hypervisor_type")


def candidate(hosts: HostTable, row: int, limits: Mapping[str, Any], weight: float) -> Candidate:
    get = hosts.get
    host, node, uuid = get(row, "host"), get(row, "nodename"), get(row, "uuid")
    return Candidate(row, host, node, uuid, get(row, "cell_uuid"), limits, weight)


def place_instance(
    hosts: HostTable, row: int, spec: RequestSpec, uuid: str | None, consumed: Consumption
) -> None:
    """Count the numbers that an instance consumes on the host of a row, and list it there."""
    host = hosts.get(row, "host")
    hosts.add_to(row, consumed.changes)
    if hosts.group_counts is not None:
        is_new = uuid not in hosts.instances.on(row)
        hosts.group_counts.place([*hosts.rows_of_host(host)], is_new)
    if uuid:
        assumed = assumed_instance(spec, uuid, host, hosts.get(row, "nodename"))
        hosts.instances.add(row, uuid, assumed)


def assumed_instance(spec: RequestSpec, uuid: str, host: str, node: str) -> Instance:
    """Return the instance of a request on a node that has not reported it yet."""
    return Instance(
        uuid=uuid,
        host=host,
        node=node,
        project_id=spec.project_id,
        instance_type_id=spec.flavor.id,
        flavor_name=spec.flavor.name,
        image_properties=spec.image.properties.texts() if spec.image else {},
    )
