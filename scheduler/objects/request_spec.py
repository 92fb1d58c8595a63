# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a caller asks the scheduler for."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from scheduler.objects.destination import Destination
from scheduler.objects.flavor import Flavor
from scheduler.objects.image_meta import ImageMeta
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.limits import SchedulerLimits
from scheduler.objects.network import NetworkMetadata, NetworkRequest, SecurityGroup
from scheduler.objects.numa import InstanceNUMATopology
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.presence import FieldPresence
from scheduler.objects.request_group import RequestGroup, RequestLevelParams
from scheduler.objects.retries import SchedulerRetries

CHECK_TYPE_HINT = "_nova_check_type"


@dataclass(slots=True)
class RequestSpec(FieldPresence):
    """A request for ``num_instances`` instances of one flavor.

    ``num_instances`` is the size of the first boot request; how many are wanted now is said by
    the arguments that come with the spec.
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

    @property
    def vcpus(self) -> int:
        """Virtual CPUs of one instance."""
        return self.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """Memory of one instance, in MB."""
        return self.flavor.memory_mb

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
        """Local disk of one instance, in MB: root (unless a volume serves), ephemeral and swap."""
        root_gb = 0 if self.is_bfv else self.root_gb
        return 1024 * (root_gb + self.ephemeral_gb) + self.swap

    @property
    def devices(self) -> list[InstancePCIRequest]:
        """The PCI devices that one instance is to have; callers send the list also when empty."""
        return self.pci_requests.requests if self.pci_requests else []

    @property
    def is_rebuild(self) -> bool:
        """Tell whether the caller only asks if the instance may stay with a new image."""
        return self.scheduler_hints.get(CHECK_TYPE_HINT) == ["rebuild"]

    @property
    def has_forced_target(self) -> bool:
        """Tell whether hosts or nodes are forced: no filter runs then, unless it is a rebuild."""
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
        """Return the request of one instance of the batch.

        The copy has a group of its own, with the hosts that this batch has already taken, so that
        more can be appended without the caller's spec noticing. All else is shared.
        """
        copy = RequestSpec(*_FIELD_VALUES(self))
        copy.instance_uuid = instance_uuid
        if self.instance_group is not None:
            copy.instance_group = self.instance_group.with_hosts(more_group_hosts)
        return copy


# dataclasses.replace() takes five times as long, and a batch may hold thousands of instances.
_FIELD_VALUES = attrgetter(*(each.name for each in fields(RequestSpec)))
