# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The shapes of what a request asks for besides its flavor: NUMA cells, devices, networks."""

from scheduler.objects.kinds import (
    COUNT,
    NAME,
    SIZE,
    TEXT,
    TRUTH,
    UUID,
    list_of,
    map_of,
    nullable,
    or_none,
    set_of,
)
from scheduler.objects.network import NetworkRequest, SecurityGroup
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.request_group import RequestGroup, RequestLevelParams
from scheduler.objects.shape import Shape

PCI_REQUEST = Shape(
    InstancePCIRequest,
    "1.4",
    {
        "count": COUNT,
        "spec": list_of(map_of(or_none(TEXT))),
        "alias_name": nullable(NAME),
        "is_new": TRUTH,
        "request_id": nullable(UUID),
        "requester_id": nullable(NAME),
        "numa_policy": nullable(NAME),
    },
)
PCI_REQUESTS = Shape(
    InstancePCIRequests,
    "1.1",
    {"instance_uuid": UUID, "requests": list_of(PCI_REQUEST.kind)},
)
REQUEST_GROUP = Shape(
    RequestGroup,
    "1.3",
    {
        "use_same_provider": TRUTH,
        "resources": map_of(SIZE),
        "required_traits": set_of(NAME),
        "forbidden_traits": set_of(NAME),
        "aggregates": list_of(list_of(UUID)),
        "forbidden_aggregates": set_of(UUID),
        "requester_id": nullable(NAME),
        "provider_uuids": list_of(UUID),
        "in_tree": nullable(UUID),
    },
)
LEVEL_PARAMS = Shape(
    RequestLevelParams,
    "1.1",
    {
        "root_required": set_of(NAME),
        "root_forbidden": set_of(NAME),
        "same_subtree": list_of(list_of(NAME)),
    },
)
NETWORK_REQUEST = Shape(
    NetworkRequest,
    "1.3",
    {
        "network_id": nullable(NAME),
        "address": nullable(NAME),
        "port_id": nullable(UUID),
        "pci_request_id": nullable(UUID),
        "tag": nullable(NAME),
        "arq_uuid": nullable(UUID),
        "device_profile": nullable(NAME),
    },
)
SECURITY_GROUP = Shape(SecurityGroup, "1.2", {"name": NAME, "uuid": UUID})
