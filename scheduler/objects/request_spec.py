# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The request spec and its parts."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from inventory.fits import local_disk_mb
from inventory.objects.amounts import Amounts, amounts_of, given_amounts, taken_amounts, without
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMATopology
from inventory.objects.object_schema import FieldPresence
from inventory.objects.pci_and_network import (
    InstancePCIRequest,
    InstancePCIRequests,
    NetworkMetadata,
    NetworkRequest,
    SecurityGroup,
)
from scheduler.objects.flavor_and_image import Flavor, ImageMeta
from scheduler.objects.selection import SchedulerLimits


@dataclass(frozen=True, slots=True)
class RequestGroup(FieldPresence):
    """The resources of a port, a device or an accelerator, named by ``requester_id``."""

    use_same_provider: bool = True
    resources: dict[str, int] = field(default_factory=dict)
    required_traits: set[str] = field(default_factory=set)
    forbidden_traits: set[str] = field(default_factory=set)
    aggregates: list[list[str]] = field(default_factory=list)
    forbidden_aggregates: set[str] = field(default_factory=set)
    requester_id: str | None = None
    provider_uuids: list[str] = field(default_factory=list)
    in_tree: str | None = None


@dataclass(frozen=True, slots=True)
class RequestLevelParams(FieldPresence):
    """Traits of the host itself, and which groups have to share a subtree."""

    root_required: set[str] = field(default_factory=set)
    root_forbidden: set[str] = field(default_factory=set)
    same_subtree: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TriedHost(FieldPresence):
    """A service host and its hypervisor node."""

    host: str | None = None
    hypervisor_hostname: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulerRetries(FieldPresence):
    """How often, and on which hosts, the build was attempted."""

    num_attempts: int = 0
    hosts: list[TriedHost] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CellMapping(FieldPresence):
    """A cell by uuid and name; its URLs hold passwords and are never read."""

    uuid: str
    name: str | None = None


@dataclass(slots=True)
class Destination(FieldPresence):
    """Every field that is None restricts nothing.

    Each string of ``aggregates`` lists alternatives, separated by commas; all strings must hold.
    """

    host: str | None = None
    node: str | None = None
    cell: CellMapping | None = None
    aggregates: list[str] | None = None
    allow_cross_cell_move: bool = False
    forbidden_aggregates: set[str] | None = None


@dataclass(slots=True)
class RequestSpec(FieldPresence):
    """A request for ``num_instances`` instances of one flavor.

    ``num_instances`` is the size of the first boot request; the present number comes with the
    arguments of the call. The last four do not come from the caller. Of Placement these are uuids
    of the only nodes that it offers, None where any may be, and of those without room there, and
    whether it alone can say which nodes have what is requested. kept_apart are hosts with standbys
    of instances that a hint keeps apart from those of the request.
    """

    flavor: Flavor
    instance_uuid: str | None = None
    num_instances: int = 1
    project_id: str | None = None
    user_id: str | None = None
    availability_zone: str | None = None
    image: ImageMeta | None = None
    ignore_hosts: list[str] | None = None
    force_hosts: list[str] | None = None
    force_nodes: list[str] | None = None
    requested_destination: Destination | None = None
    instance_group: InstanceGroup | None = None
    scheduler_hints: dict[str, list[str]] = field(default_factory=dict)
    retry: SchedulerRetries | None = None
    limits: SchedulerLimits = field(default_factory=SchedulerLimits)
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: InstancePCIRequests | None = None
    is_bfv: bool = False
    network_metadata: NetworkMetadata | None = None
    requested_networks: list[NetworkRequest] = field(default_factory=list)
    security_groups: list[SecurityGroup] = field(default_factory=list)
    requested_resources: list[RequestGroup] = field(default_factory=list)
    request_level_params: RequestLevelParams = field(default_factory=RequestLevelParams)
    id: int | None = None
    offered_nodes: set[str] | None = None
    refused_nodes: set[str] = field(default_factory=set)
    needs_placement: bool = False
    kept_apart: set[str] = field(default_factory=set)

    @property
    def vcpus(self) -> int:
        """Virtual CPUs that one instance takes of a host."""
        return self._taken[0] if self.flavor.extra_specs else self.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """Memory that one instance takes of a host, in MB."""
        return self._taken[1] if self.flavor.extra_specs else self.flavor.memory_mb

    @property
    def root_gb(self) -> int:
        """Root disk of one instance, in GB."""
        return self.flavor.root_gb

    @property
    def ephemeral_gb(self) -> int:
        """Ephemeral disk of one instance, in GB."""
        return self.flavor.ephemeral_gb

    @property
    def swap(self) -> int:
        """Swap disk of one instance, in MB."""
        return self.flavor.swap

    @property
    def disk_mb(self) -> int:
        """Local disk that one instance takes of a host, in MB."""
        return self._taken[2] if self.flavor.extra_specs else self.flavor_size[2]

    @property
    def flavor_size(self) -> Amounts:
        """What the flavor has: its disk is root (unless a volume serves), ephemeral and swap.

        An instance takes this much, but for what extra specs as resources:VCPU give instead.
        """
        flavor = self.flavor
        root_gb = 0 if self.is_bfv else flavor.root_gb
        disk_mb = local_disk_mb(root_gb, flavor.ephemeral_gb, flavor.swap)
        return flavor.vcpus, flavor.memory_mb, disk_mb

    @property
    def _taken(self) -> Amounts:
        return taken_amounts(self.flavor_size, self.flavor.extra_specs)

    @property
    def devices(self) -> list[InstancePCIRequest]:
        """The PCI devices of one instance; callers send the list also when empty."""
        return self.pci_requests.requests if self.pci_requests else []

    @property
    def is_rebuild(self) -> bool:
        """Whether the caller only asks if the instance may stay with a new image."""
        return self.scheduler_hints.get("_nova_check_type") == ["rebuild"]

    @property
    def has_forced_target(self) -> bool:
        """Whether hosts or nodes are forced: no filter runs then, unless it is a rebuild."""
        return bool(self.force_hosts or self.force_nodes)

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """Return the only item of a hint, the list when it has none or several, or the default."""
        values = self.scheduler_hints.get(name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else values

    def for_instance(
        self, instance_uuid: str | None, more_group_hosts: Iterable[str] = ()
    ) -> "RequestSpec":
        """Return the request of one instance of a batch.

        The copy has its own group, to which the hosts of the batch so far are added; all else is
        shared with this one.
        """
        copy = RequestSpec(*_FIELD_VALUES(self))
        copy.instance_uuid = instance_uuid
        if self.instance_group is not None:
            copy.instance_group = self.instance_group.with_hosts(more_group_hosts)
        return copy

    def at_least(self, size: Amounts) -> "RequestSpec":
        """Return the request of an instance that needs so much or more; disk in MB."""
        vcpus, memory_mb, disk_mb = without(size, amounts_of(self))
        if not (vcpus or memory_mb or disk_mb):
            return self
        copy, flavor = self.for_instance(self.instance_uuid), self.plain_flavor
        copy.flavor = replace(
            flavor,
            vcpus=flavor.vcpus + vcpus,
            memory_mb=flavor.memory_mb + memory_mb,
            # The one part of the disk that is in MB, and counts for volume-backed instances too.
            swap=flavor.swap + disk_mb,
        )
        return copy

    @property
    def plain_flavor(self) -> Flavor:
        """A flavor that itself has what the instance takes, without amounts in extra specs."""
        specs = self.flavor.extra_specs
        if not given_amounts(specs):
            return self.flavor
        return replace(
            self.flavor,
            vcpus=self.vcpus,
            memory_mb=self.memory_mb,
            root_gb=0,
            ephemeral_gb=0,
            swap=self.disk_mb,
            extra_specs={key: specs[key] for key in specs if not given_amounts({key: specs[key]})},
        )


# dataclasses.replace() takes five times as long, and a batch may hold thousands of instances.
_FIELD_VALUES = attrgetter(*(each.name for each in fields(RequestSpec)))
