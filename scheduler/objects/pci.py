# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""PCI devices: what a request asks for and what a host offers."""

from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class InstancePCIRequest(FieldPresence):
    """``count`` devices that match any of ``spec``; without ``alias_name`` it comes from a port."""

    count: int
    spec: list[dict[str, str | None]] = field(default_factory=list)
    alias_name: str | None = None
    is_new: bool = False
    request_id: str | None = None
    requester_id: str | None = None
    numa_policy: str | None = None


@dataclass(frozen=True, slots=True)
class InstancePCIRequests(FieldPresence):
    """All devices that one instance asks for."""

    instance_uuid: str | None = None
    requests: list[InstancePCIRequest] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PciDevicePool(FieldPresence):
    """``count`` free devices of one kind on one host cell."""

    product_id: str
    vendor_id: str
    count: int
    numa_node: int | None = None
    tags: dict[str, str | None] = field(default_factory=dict)
