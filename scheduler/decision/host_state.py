# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One host as filters and weighers see it: a row of the table with the names they know."""

from collections.abc import Mapping
from typing import Any

from scheduler.decision.cells_and_devices import taken
from scheduler.decision.columns import NUMBERS, OBJECTS
from scheduler.decision.host_table import HostTable
from scheduler.decision.limits import HostLimits
from scheduler.decision.outcome import Candidate, Taken
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

# The type of a node that no two instances share.
BARE_METAL = "ironic"
_COLUMNS = NUMBERS | frozenset(OBJECTS)


class HostState:
    """The state of one node of one host; attributes are read from and written to its row.

    Attributes and units are those of host_table, besides limits, instances and service. Attributes
    that are no columns stay on the object. HostState(host, node) makes a table of its own, so that
    a plug-in can be tried by itself.
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
        elif name in _DERIVED:
            object.__setattr__(self, name, value)
        else:
            self.__dict__[name] = value

    @property
    def limits(self) -> HostLimits:
        """What may be promised of this host: {vcpu, memory_mb, disk_gb} as filters set them."""
        return self.table.limits.of(self.row)

    @limits.setter
    def limits(self, limits: Mapping[str, Any]) -> None:
        here = self.table.limits.of(self.row)
        here.clear()
        here.update(limits)

    @property
    def instances(self) -> Mapping[str, Instance]:
        """The instances on this host by uuid."""
        return self.table.residents.on(self.row)

    @instances.setter
    def instances(self, instances: Mapping[str, Instance]) -> None:
        self.table.residents.replace(self.row, instances)

    @property
    def service(self) -> dict[str, Any]:
        """The compute service of this host, as far as it is known here."""
        return {
            "host": self.host,
            "binary": "nova-compute",
            "topic": "compute",
            "disabled": self.service_disabled,
            "disabled_reason": self.disabled_reason,
            "forced_down": self.forced_down,
            "heartbeat_age": self.heartbeat_age,
        }

    def consume_from_request(self, spec_obj: RequestSpec) -> Taken:
        """Take what the request asks for, so that the next instance sees what is left.

        Swap counts as disk here as it does in the filter, and an instance that boots from a volume
        takes no root disk: what was checked is what is taken. A bare-metal node is taken whole. The
        request stays as it is, since the next instance is fitted from the same one.
        """
        table, row = self.table, self.row
        # All is worked out before anything is changed.
        found = taken(table, row, spec_obj)
        vcpus, memory_mb, disk_mb = self._amounts(spec_obj)
        for name, value in found.columns.items():
            table.set(row, name, value)
        amounts = Taken(vcpus, memory_mb, disk_mb, found.cells, found.devices)
        self.take(amounts)
        if table.membership is not None:
            is_new = spec_obj.instance_uuid not in self.instances
            table.membership.take([*table.rows_of_host(self.host)], is_new)
        if spec_obj.instance_uuid:
            resident = promised_instance(spec_obj, spec_obj.instance_uuid, self.host, self.nodename)
            table.residents.add(row, spec_obj.instance_uuid, resident)
        return amounts

    def take(self, amounts: Taken) -> None:
        """Count one instance more, with what it takes besides cells and devices."""
        for name, more in amounts.changes.items():
            self.table.set(self.row, name, self.table.get(self.row, name) + more)

    def _amounts(self, spec: RequestSpec) -> tuple[int, int, int]:
        """Return the vCPUs, MB of memory and MB of disk that a request takes here."""
        if self.hypervisor_type != BARE_METAL:
            return spec.vcpus, spec.memory_mb, spec.disk_mb
        return self.vcpus_total - self.vcpus_used, self.free_ram_mb, self.free_disk_mb

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb} MB disk: {self.free_disk_mb}"
            f" MB vcpus used: {self.vcpus_used} io_ops: {self.num_io_ops}"
            f" instances: {self.num_instances}"
        )


_DERIVED = frozenset({"limits", "instances", "service"})


def candidate(hosts: HostTable, row: int, limits: Mapping[str, Any], weight: float) -> Candidate:
    """Return a host as decisions name it, with these limits."""
    get = hosts.get
    return Candidate(
        row,
        get(row, "host"),
        get(row, "nodename"),
        get(row, "uuid"),
        get(row, "cell_uuid"),
        limits,
        weight,
    )


def promised_instance(spec: RequestSpec, uuid: str, host: str, node: str) -> Instance:
    """Return the instance that a request makes on a node, which has not reported it yet."""
    properties = spec.image.properties.items() if spec.image else ()
    return Instance(
        uuid=uuid,
        host=host,
        node=node,
        project_id=spec.project_id,
        instance_type_id=spec.flavor.id,
        flavor_name=spec.flavor.name,
        image_properties={name: str(value) for name, value in properties},
    )
