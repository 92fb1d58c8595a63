# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Filters whose limits come from the metadata of aggregates: vCPUs, memory, disk and load."""

from typing import ClassVar

from scheduler.filters._bounds import LoadFilter, OvercommitFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.io_ops import IoOpsFilter
from scheduler.filters.num_instances import NumInstancesFilter
from scheduler.filters.ram import RamFilter
from scheduler.hosts.aggregate_metadata import overridden
from scheduler.hosts.columns import Weights
from scheduler.hosts.table import HostTable


class _AggregateRatio(OvercommitFilter):
    """Takes the smallest ratio in the metadata of a host's aggregates, else the host's own."""

    def ratios(self, hosts: HostTable) -> Weights:
        return overridden(hosts, self.kind.ratio, super().ratios(hosts))


class _AggregateCap(LoadFilter):
    """Takes the smallest number in the metadata of a host's aggregates, else the option."""

    key: ClassVar[str]

    def allowed(self, hosts: HostTable) -> Weights:
        return overridden(hosts, self.key, super().allowed(hosts), int)


class AggregateCoreFilter(_AggregateRatio, CoreFilter):
    """Keep the hosts with enough free vCPUs by the cpu_allocation_ratio of their aggregates."""

    reads = (*CoreFilter.reads, "aggregates")
    row_local = True


class AggregateDiskFilter(_AggregateRatio, DiskFilter):
    """Keep the hosts with enough free disk by the disk_allocation_ratio of their aggregates."""

    reads = (*DiskFilter.reads, "aggregates")
    row_local = True


class AggregateRamFilter(_AggregateRatio, RamFilter):
    """Keep the hosts with enough free memory by the ram_allocation_ratio of their aggregates."""

    reads = (*RamFilter.reads, "aggregates")
    row_local = True


class AggregateIoOpsFilter(_AggregateCap, IoOpsFilter):
    """Keep the hosts with fewer instances busy with I/O than max_io_ops_per_host of aggregates."""

    key = "max_io_ops_per_host"
    reads = (*IoOpsFilter.reads, "aggregates")
    row_local = True


class AggregateNumInstancesFilter(_AggregateCap, NumInstancesFilter):
    """Keep the hosts with fewer instances than max_instances_per_host of their aggregates."""

    key = "max_instances_per_host"
    reads = (*NumInstancesFilter.reads, "aggregates")
    row_local = True
