# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The shapes of what a request asks for besides its flavor: NUMA cells, devices, networks."""

from scheduler.objects.kinds import (
    COUNT,
    INTEGER,
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
from scheduler.objects.numa import InstanceNUMACell, InstanceNUMATopology
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.request_group import RequestGroup, RequestLevelParams
from scheduler.objects.shape import Fields, Shape


def _settle_guest_cell(cell: Fields) -> None:
    # Before InstanceNUMACell 1.5 cpuset held the CPUs of pinned guests too.
    if "pcpuset" not in cell and cell.get("cpu_policy") == "dedicated":
        cell["pcpuset"] = cell.pop("cpuset", set())


GUEST_CELL = Shape(
    InstanceNUMACell,
    "1.6",
    {
        "id": COUNT,
        "cpuset": set_of(COUNT),
        "pcpuset": set_of(COUNT),
        "cpuset_reserved": nullable(set_of(COUNT)),
        "memory": COUNT,
        "pagesize": nullable(INTEGER),
        "cpu_pinning_raw": nullable(map_of(COUNT, key=COUNT)),
        "cpu_policy": nullable(NAME),
        "cpu_thread_policy": nullable(NAME),
    },
    renamed={"cpu_pinning_raw": "cpu_pinning"},
    settle=_settle_guest_cell,
)
GUEST_TOPOLOGY = Shape(
    InstanceNUMATopology,
    "1.3",
    {
        "id": INTEGER,
        "instance_uuid": UUID,
        "cells": list_of(GUEST_CELL.kind),
        "emulator_threads_policy": nullable(NAME),
    },
)
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
