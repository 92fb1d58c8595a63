# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The nouns of the scheduler: plain values without clock, log, configuration or I/O."""

from scheduler.objects.aggregate import Aggregate
from scheduler.objects.destination import CellMapping, Destination
from scheduler.objects.flavor import Flavor
from scheduler.objects.image_meta import ImageMeta, ImageMetaProps
from scheduler.objects.instance import Instance
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.limits import NUMATopologyLimits, SchedulerLimits
from scheduler.objects.network import NetworkMetadata, NetworkRequest, SecurityGroup
from scheduler.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests, PciDevicePool
from scheduler.objects.request_group import RequestGroup, RequestLevelParams
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.retries import SchedulerRetries, TriedHost
from scheduler.objects.selection import Selection

__all__ = [
    "Aggregate",
    "CellMapping",
    "Destination",
    "Flavor",
    "ImageMeta",
    "ImageMetaProps",
    "Instance",
    "InstanceGroup",
    "InstanceNUMACell",
    "InstanceNUMATopology",
    "InstancePCIRequest",
    "InstancePCIRequests",
    "NUMACell",
    "NUMAPagesTopology",
    "NUMATopology",
    "NUMATopologyLimits",
    "NetworkMetadata",
    "NetworkRequest",
    "PciDevicePool",
    "RequestGroup",
    "RequestLevelParams",
    "RequestSpec",
    "SchedulerLimits",
    "SchedulerRetries",
    "SecurityGroup",
    "Selection",
    "TriedHost",
]
