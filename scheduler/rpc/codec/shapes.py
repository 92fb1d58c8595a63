# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The shapes of a request: which fields Nova's objects have, of which kind, in which version.

The tables follow Nova 34. Older releases send fewer fields; what they meant by those that changed
their meaning since is settled by the small functions below.
"""

from typing import Any

from scheduler.objects.destination import CellMapping, Destination
from scheduler.objects.documents import GUEST_TOPOLOGY, NETWORK_METADATA
from scheduler.objects.flavor import Flavor
from scheduler.objects.image_meta import ImageMeta
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.kinds import (
    COUNT,
    INT32,
    INT64,
    INTEGER,
    NAME,
    RATIO,
    SIZE,
    TEXT,
    TRUTH,
    UUID,
    Kind,
    between,
    document,
    is_list,
    list_of,
    map_of,
    mapping_of,
    nullable,
    set_of,
    unchanged,
)
from scheduler.objects.limits import NUMATopologyLimits, SchedulerLimits
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.retries import SchedulerRetries, TriedHost
from scheduler.objects.shape import Fields, Shape, object_list
from scheduler.rpc.codec.image_properties import IMAGE_PROPERTIES
from scheduler.rpc.codec.resources import (
    LEVEL_PARAMS,
    NETWORK_REQUEST,
    PCI_REQUESTS,
    REQUEST_GROUP,
    SECURITY_GROUP,
)

MOST_INSTANCES = 10_000
MOST_HOSTS = 100_000

HOSTS = list_of(NAME, MOST_HOSTS)
# A limit may be a fraction or, with a ratio of inf, no number that JSON has.
LIMIT = Kind(SIZE.read, lambda value: int(min(value, INT64)))
MOMENT = Kind(lambda value: f"{TEXT.read(value)[:19].removesuffix('Z')}Z", unchanged)

_HINT = list_of(TEXT)
_HINTS = map_of(Kind(lambda value: _HINT.read(value if is_list(value) else [value]), _HINT.write))
_MOST_PER_HOST = "max_server_per_host"
_POSITIVE = between(1, INT32)


def _read_hints(value: Any) -> dict[str, list[str]]:
    # A null hint counts as not given; a single value comes without its list from legacy callers.
    return dict(_HINTS.read({k: v for k, v in mapping_of(value).items() if v is not None}))


def _read_rules(value: Any) -> dict[str, int]:
    # Rules are texts on the wire, and this is the only one there is.
    most = mapping_of(value).get(_MOST_PER_HOST)
    return {} if most is None else dict(_RULES.read({_MOST_PER_HOST: most}))


def _read_tried_host(value: Any) -> TriedHost:
    # Legacy dictionaries carry pairs.
    if is_list(value) and len(value) == 2:
        value = {"host": value[0], "hypervisor_hostname": value[1]}
    return TRIED_HOST.read(value)


def _settle_group(group: Fields) -> None:
    # Before InstanceGroup 1.11 the policy came as a list of at most one.
    for policy in group.pop("policies", ())[:1]:
        group.setdefault("policy", policy)


_RULES = map_of(Kind(_POSITIVE.read, str))

FLAVOR = Shape(
    Flavor,
    "1.2",
    {
        "id": INTEGER,
        "name": nullable(NAME),
        "memory_mb": COUNT,
        "vcpus": COUNT,
        "root_gb": COUNT,
        "ephemeral_gb": COUNT,
        "flavorid": NAME,
        "swap": COUNT,
        "rxtx_factor": nullable(RATIO),
        "vcpu_weight": nullable(INTEGER),
        "disabled": TRUTH,
        "is_public": TRUTH,
        "extra_specs": map_of(TEXT),
        "description": nullable(TEXT),
    },
)
IMAGE = Shape(
    ImageMeta,
    "1.8",
    {
        "id": UUID,
        "name": TEXT,
        "status": NAME,
        "visibility": NAME,
        "protected": TRUTH,
        "checksum": NAME,
        "owner": NAME,
        "size": SIZE,
        "virtual_size": SIZE,
        "container_format": NAME,
        "disk_format": NAME,
        "created_at": nullable(MOMENT),
        "updated_at": nullable(MOMENT),
        "tags": list_of(TEXT),
        "min_ram": COUNT,
        "min_disk": COUNT,
        "properties": IMAGE_PROPERTIES,
    },
)
GROUP = Shape(
    InstanceGroup,
    "1.11",
    {
        "id": INTEGER,
        "user_id": nullable(NAME),
        "project_id": nullable(NAME),
        "uuid": UUID,
        "name": nullable(TEXT),
        "policies": list_of(NAME),
        "members": list_of(UUID, MOST_HOSTS),
        "hosts": HOSTS,
        "policy": nullable(NAME),
        "_rules": Kind(_read_rules, _RULES.write),
    },
    renamed={"_rules": "rules"},
    settle=_settle_group,
)
CELL = Shape(CellMapping, "1.1", {"uuid": UUID, "name": nullable(TEXT)})
DESTINATION = Shape(
    Destination,
    "1.4",
    {
        "host": NAME,
        "node": nullable(NAME),
        "cell": nullable(CELL.kind),
        "aggregates": nullable(list_of(TEXT)),
        "allow_cross_cell_move": TRUTH,
        "forbidden_aggregates": nullable(set_of(UUID)),
    },
)
TRIED_HOST = Shape(
    TriedHost,
    "1.19",
    {"host": nullable(NAME), "hypervisor_hostname": nullable(NAME)},
    name="ComputeNode",
)
RETRIES = Shape(
    SchedulerRetries,
    "1.1",
    {
        "num_attempts": COUNT,
        "hosts": object_list(
            "ComputeNodeList", "1.17", Kind(_read_tried_host, TRIED_HOST.write), MOST_HOSTS
        ),
    },
)


def _limits_shape(numa_limits_version: str) -> Shape[SchedulerLimits]:
    """Return the limits with those of NUMA in version 1.0 or 1.1."""
    numa_limits: dict[str, Kind] = {"cpu_allocation_ratio": RATIO, "ram_allocation_ratio": RATIO}
    if numa_limits_version == "1.1":
        numa_limits["network_metadata"] = NETWORK_METADATA.kind
    return Shape(
        SchedulerLimits,
        "1.0",
        {
            "numa_topology": nullable(
                Shape(NUMATopologyLimits, numa_limits_version, numa_limits).kind
            ),
            "vcpu": nullable(LIMIT),
            "disk_gb": nullable(LIMIT),
            "memory_mb": nullable(LIMIT),
        },
    )


LIMITS = _limits_shape("1.1")
LIMITS_1_0 = _limits_shape("1.0")

REQUEST_SPEC = Shape(
    RequestSpec,
    "1.15",
    {
        "id": INTEGER,
        "image": nullable(IMAGE.kind),
        "numa_topology": nullable(document(GUEST_TOPOLOGY.kind)),
        "pci_requests": nullable(document(PCI_REQUESTS.kind)),
        "project_id": nullable(NAME),
        "user_id": nullable(NAME),
        "availability_zone": nullable(NAME),
        "flavor": FLAVOR.kind,
        "num_instances": between(1, MOST_INSTANCES),
        "ignore_hosts": nullable(HOSTS),
        "force_hosts": nullable(HOSTS),
        "force_nodes": nullable(HOSTS),
        "requested_destination": nullable(DESTINATION.kind),
        "retry": nullable(RETRIES.kind),
        "limits": nullable(LIMITS.kind),
        "instance_group": nullable(GROUP.kind),
        "scheduler_hints": Kind(_read_hints, _HINTS.write),
        "instance_uuid": UUID,
        "security_groups": object_list("SecurityGroupList", "1.1", SECURITY_GROUP.kind),
        "network_metadata": NETWORK_METADATA.kind,
        "is_bfv": TRUTH,
        "requested_resources": nullable(list_of(REQUEST_GROUP.kind)),
        "request_level_params": LEVEL_PARAMS.kind,
        "requested_networks": object_list("NetworkRequestList", "1.1", NETWORK_REQUEST.kind),
    },
)
