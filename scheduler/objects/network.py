# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request says about networks and security groups."""

from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence


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
