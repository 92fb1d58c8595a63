# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Schemas of a request: which fields Nova's objects have, of which type, in which version."""

from typing import Any

from inventory.objects.field_types import (
    COUNT,
    INSTANCE_UUID,
    INT32,
    INT64,
    INTEGER,
    NAME,
    RATIO,
    SIZE,
    TEXT,
    TRUTH,
    UUID,
    FieldType,
    between,
    document,
    is_list,
    list_of,
    map_of,
    mapping_of,
    nullable,
    or_none,
    set_of,
    typed,
    unchanged,
)
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.node_json import GUEST_TOPOLOGY, NETWORK_METADATA
from inventory.objects.object_schema import Fields, ObjectSchema, object_list
from inventory.objects.pci_and_network import (
    InstancePCIRequest,
    InstancePCIRequests,
    NetworkRequest,
    SecurityGroup,
)
from scheduler.objects.flavor_and_image import Flavor, ImageMeta
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
    SchedulerRetries,
    TriedHost,
)
from scheduler.objects.selection import NUMATopologyLimits, SchedulerLimits
from scheduler.wire.image_properties import IMAGE_PROPERTIES

MAX_INSTANCES = 10_000
MAX_HOSTS = 100_000
# Claims count the hosts that were tried and ignored on top, in an integer column.
MAX_ATTEMPTS = INT32 - 2 * MAX_HOSTS

# Of hints and of extra specs. Each takes time in which others wait, whatever its size.
MAX_NAMES = 1_000

HOSTS = list_of(NAME, MAX_HOSTS)
# A limit may be a fraction or, with a ratio of inf, no number that JSON has.
LIMIT = FieldType(SIZE.read, lambda value: int(min(value, INT64)))
TIME = FieldType(lambda value: f"{TEXT.read(value)[:19].removesuffix('Z')}Z", unchanged)

_HINT = list_of(TEXT)
_HINTS = map_of(
    FieldType(lambda value: _HINT.read(value if is_list(value) else [value]), _HINT.write),
    most=MAX_NAMES,
)
_MAX_PER_HOST = "max_server_per_host"
_RULES = map_of(FieldType(between(1, INT32).read, str))


def _read_hints(value: Any) -> dict[str, list[str]]:
    # A null hint counts as not given; a single value comes without its list from legacy callers.
    return dict(_HINTS.read({k: v for k, v in mapping_of(value).items() if v is not None}))


def _read_rules(value: Any) -> dict[str, int]:
    # Rules are texts on the wire, and Nova has no other one than this.
    limit = mapping_of(value).get(_MAX_PER_HOST)
    return {} if limit is None else dict(_RULES.read({_MAX_PER_HOST: limit}))


def _read_tried_host(value: Any) -> TriedHost:
    # Legacy dictionaries carry pairs.
    if is_list(value) and len(value) == 2:
        value = {"host": value[0], "hypervisor_hostname": value[1]}
    return TRIED_HOST.read(value)


def _normalize_group(group: Fields) -> None:
    # Before InstanceGroup 1.11 the policy came as a list of at most one.
    for policy in group.pop("policies", ())[:1]:
        group.setdefault("policy", policy)


PCI_REQUEST = ObjectSchema(
    InstancePCIRequest,
    "1.4",
    {
        "count": COUNT,
        "spec": list_of(map_of(or_none(TEXT))),
        **typed(nullable(NAME), "alias_name requester_id numa_policy"),
        "is_new": TRUTH,
        "request_id": nullable(UUID),
    },
)
PCI_REQUESTS = ObjectSchema(
    InstancePCIRequests,
    "1.1",
    {"instance_uuid": INSTANCE_UUID, "requests": list_of(PCI_REQUEST.kind)},
)
REQUEST_GROUP = ObjectSchema(
    RequestGroup,
    "1.3",
    {
        "use_same_provider": TRUTH,
        "resources": map_of(SIZE),
        **typed(set_of(NAME), "required_traits forbidden_traits"),
        "aggregates": list_of(list_of(UUID)),
        "forbidden_aggregates": set_of(UUID),
        "requester_id": nullable(NAME),
        "provider_uuids": list_of(UUID),
        "in_tree": nullable(UUID),
    },
)
LEVEL_PARAMS = ObjectSchema(
    RequestLevelParams,
    "1.1",
    {**typed(set_of(NAME), "root_required root_forbidden"), "same_subtree": list_of(list_of(NAME))},
)
NETWORK_REQUEST = ObjectSchema(
    NetworkRequest,
    "1.3",
    {
        **typed(nullable(NAME), "network_id address tag device_profile"),
        **typed(nullable(UUID), "port_id pci_request_id arq_uuid"),
    },
)
SECURITY_GROUP = ObjectSchema(SecurityGroup, "1.2", {"name": NAME, "uuid": UUID})
FLAVOR = ObjectSchema(
    Flavor,
    "1.2",
    {
        "id": INTEGER,
        "flavorid": NAME,
        "name": nullable(NAME),
        **typed(COUNT, "memory_mb vcpus root_gb ephemeral_gb swap"),
        "rxtx_factor": nullable(RATIO),
        "vcpu_weight": nullable(INTEGER),
        **typed(TRUTH, "disabled is_public"),
        "extra_specs": map_of(TEXT, most=MAX_NAMES),
        "description": nullable(TEXT),
    },
)
IMAGE = ObjectSchema(
    ImageMeta,
    "1.8",
    {
        "id": UUID,
        "name": TEXT,
        **typed(NAME, "status visibility checksum owner container_format disk_format"),
        "protected": TRUTH,
        **typed(SIZE, "size virtual_size"),
        **typed(nullable(TIME), "created_at updated_at"),
        "tags": list_of(TEXT),
        **typed(COUNT, "min_ram min_disk"),
        "properties": IMAGE_PROPERTIES,
    },
)
GROUP = ObjectSchema(
    InstanceGroup,
    "1.11",
    {
        "id": INTEGER,
        "uuid": UUID,
        **typed(nullable(NAME), "user_id project_id policy"),
        "name": nullable(TEXT),
        "policies": list_of(NAME),
        "members": list_of(INSTANCE_UUID, MAX_HOSTS),
        "hosts": HOSTS,
        "_rules": FieldType(_read_rules, _RULES.write),
    },
    renamed={"_rules": "rules"},
    normalize=_normalize_group,
)
CELL = ObjectSchema(CellMapping, "1.1", {"uuid": UUID, "name": nullable(TEXT)})
DESTINATION = ObjectSchema(
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
TRIED_HOST = ObjectSchema(
    TriedHost, "1.19", typed(nullable(NAME), "host hypervisor_hostname"), name="ComputeNode"
)
RETRIES = ObjectSchema(
    SchedulerRetries,
    "1.1",
    {
        "num_attempts": between(0, MAX_ATTEMPTS),
        "hosts": object_list(
            "ComputeNodeList", "1.17", FieldType(_read_tried_host, TRIED_HOST.write), MAX_HOSTS
        ),
    },
)


def _limits_schema(numa_limits_version: str) -> ObjectSchema[SchedulerLimits]:
    """Return the schema of limits with those of NUMA in version 1.0 or 1.1."""
    fields = typed(RATIO, "cpu_allocation_ratio ram_allocation_ratio")
    if numa_limits_version == "1.1":
        fields["network_metadata"] = NETWORK_METADATA.kind
    numa_limits = ObjectSchema(NUMATopologyLimits, numa_limits_version, fields)
    return ObjectSchema(
        SchedulerLimits,
        "1.0",
        {
            "numa_topology": nullable(numa_limits.kind),
            **typed(nullable(LIMIT), "vcpu disk_gb memory_mb"),
        },
    )


LIMITS = _limits_schema("1.1")
LIMITS_1_0 = _limits_schema("1.0")

REQUEST_SPEC = ObjectSchema(
    RequestSpec,
    "1.15",
    {
        "id": INTEGER,
        "instance_uuid": INSTANCE_UUID,
        "num_instances": between(1, MAX_INSTANCES),
        **typed(nullable(NAME), "project_id user_id availability_zone"),
        "flavor": FLAVOR.kind,
        "image": nullable(IMAGE.kind),
        "is_bfv": TRUTH,
        "numa_topology": nullable(document(GUEST_TOPOLOGY.kind)),
        "pci_requests": nullable(document(PCI_REQUESTS.kind)),
        **typed(nullable(HOSTS), "ignore_hosts force_hosts force_nodes"),
        "requested_destination": nullable(DESTINATION.kind),
        "retry": nullable(RETRIES.kind),
        "limits": nullable(LIMITS.kind),
        "instance_group": nullable(GROUP.kind),
        "scheduler_hints": FieldType(_read_hints, _HINTS.write),
        "security_groups": object_list("SecurityGroupList", "1.1", SECURITY_GROUP.kind),
        "network_metadata": NETWORK_METADATA.kind,
        "requested_resources": nullable(list_of(REQUEST_GROUP.kind)),
        "request_level_params": LEVEL_PARAMS.kind,
        "requested_networks": object_list("NetworkRequestList", "1.1", NETWORK_REQUEST.kind),
    },
)
