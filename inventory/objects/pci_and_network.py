# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""PCI devices and networks: what a request asks for and what a host offers."""

from dataclasses import dataclass, field

from inventory.objects.object_schema import FieldPresence


@dataclass(frozen=True, slots=True)
class InstancePCIRequest(FieldPresence):
    """``count`` devices that match any of ``spec``; one of a port has no ``alias_name``."""

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
    """``count`` free devices of one kind on one host cell, of ``total`` where that is known."""

    product_id: str
    vendor_id: str
    count: int
    numa_node: int | None = None
    tags: dict[str, str | None] = field(default_factory=dict)
    total: int | None = None


@dataclass(frozen=True, slots=True)
class NetworkMetadata(FieldPresence):
    """The physical networks of a request or a host cell, and whether a tunnelled one is there."""

    physnets: set[str] = field(default_factory=set)
    tunneled: bool = False


@dataclass(frozen=True, slots=True)
class NetworkRequest(FieldPresence):
    """One network or port that the instance is to have."""

    network_id: str | None = None
    address: str | None = None
    port_id: str | None = None
    pci_request_id: str | None = None
    tag: str | None = None
    arq_uuid: str | None = None
    device_profile: str | None = None


@dataclass(frozen=True, slots=True)
class SecurityGroup(FieldPresence):
    """A security group by name or by uuid."""

    name: str | None = None
    uuid: str | None = None
