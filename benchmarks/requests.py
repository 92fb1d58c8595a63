# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""For each plug-in a request that concerns it, and the settings that it needs to do anything."""

from dataclasses import replace
from typing import Any

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestSpec,
    SchedulerRetries,
    TriedHost,
)

IMAGE = "00000000-0000-0000-3333-000000000001"
_FLAVOR = Flavor(2, 2048, 20, id=1, name="m1.small")
_PROPERTIES = {
    "hw_architecture": "x86_64",
    "img_hv_type": "kvm",
    "os_type": "linux",
    "os_distro": "debian",
    "hw_machine_type": "q35",
}
_ORDINARY: dict[str, Any] = {
    "flavor": _FLAVOR,
    "instance_uuid": "new",
    "project_id": "p1",
    "image": ImageMeta(id=IMAGE, properties=ImageMetaProps(_PROPERTIES)),
}
_MEMBERS = [f"{number}-0" for number in range(100)]


def _group(policy: str) -> dict[str, Any]:
    group = InstanceGroup("group", policy, _MEMBERS, [f"compute-{n:05}" for n in range(100)])
    return {"instance_group": group}


def _wishes(**extra_specs: str) -> dict[str, Any]:
    return {"flavor": replace(_FLAVOR, extra_specs=extra_specs)}


def _cells(count: int) -> InstanceNUMATopology:
    return InstanceNUMATopology(
        [InstanceNUMACell(each, 1024, cpuset={2 * each, 2 * each + 1}) for each in range(count)]
    )


_DEVICES = InstancePCIRequests(
    requests=[InstancePCIRequest(1, [{"vendor_id": "8086", "product_id": "1520"}])]
)
_QUERY = (
    '["and", [">=", "$free_ram_mb", 4096], ["=", "$stats.gpu", "2"], ["not", "$service.disabled"]]'
)
_CONCERNED: dict[str, dict[str, Any]] = {
    "AggregateInstanceExtraSpecsFilter": _wishes(**{"aggregate_instance_extra_specs:ssd": "true"}),
    "AvailabilityZoneFilter": {"availability_zone": "z1"},
    "ComputeCapabilitiesFilter": _wishes(
        **{
            "capabilities:cpu_info:vendor": "Intel",
            "capabilities:free_ram_mb": ">= 4096",
            "capabilities:stats:gpu": ">= 1",
        }
    ),
    "CrossCellWeigher": {
        "requested_destination": Destination(cell=CellMapping("cell1"), allow_cross_cell_move=True)
    },
    "DifferentHostFilter": {"scheduler_hints": {"different_host": _MEMBERS}},
    "JsonFilter": {"scheduler_hints": {"query": [_QUERY]}},
    "NUMATopologyFilter": {"numa_topology": _cells(2)},
    "PciPassthroughFilter": {"pci_requests": _DEVICES},
    "RetryFilter": {"retry": SchedulerRetries(2, [TriedHost("compute-00001", None)])},
    "SameHostFilter": {"scheduler_hints": {"same_host": _MEMBERS}},
    "ServerGroupAffinityFilter": _group("affinity"),
    "ServerGroupAntiAffinityFilter": _group("anti-affinity"),
    "ServerGroupSoftAffinityWeigher": _group("soft-affinity"),
    "ServerGroupSoftAntiAffinityWeigher": _group("soft-anti-affinity"),
    "SimpleCIDRAffinityFilter": {
        "scheduler_hints": {"build_near_host_ip": ["10.0.3.7"], "cidr": ["/16"]}
    },
    "TrustedFilter": _wishes(**{"trust:trusted_host": "trusted"}),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "ImagePropertiesFilter": {"default_architecture": "x86_64"},
    "IsolatedHostsFilter": {
        "isolated_images": [IMAGE],
        "isolated_hosts": [f"compute-{number:05}" for number in range(1000)],
    },
    "MetricsFilter": {"weight_setting": ["cpu.percent=1.0", "cpu.frequency=1.0"]},
    "MetricsWeigher": {"weight_setting": ["cpu.percent=-1.0", "cpu.frequency=0.001"]},
}


def request_for(plugin: str) -> RequestSpec:
    """Return a request that a plug-in has something to say about; an ordinary one for most."""
    return RequestSpec(**_ORDINARY | _CONCERNED.get(plugin, {}))
