# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Encode requests as payloads of versioned notifications.

The tables follow Nova 34. A payload has all fields of its class, null where the request has no
value, except those that its table leaves out. Lists and dicts are copies, since a payload is sent
while the request changes.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell
from inventory.objects.object_schema import DATA_KEY, NAMESPACE_KEY, Fields, enveloped
from scheduler.objects.flavor_and_image import ImageMetaProps
from scheduler.objects.request_spec import Destination, RequestSpec, SchedulerRetries
from scheduler.wire.image_properties import IMAGE_PROPERTIES

# Returns the JSON value of a field of an object.
Field = Callable[[Any], Any]

# The namespace of payloads that Nova does not have.
_NAMESPACE = "berthmaster"
# ImageMetaProps has it, and the payload of images has not.
_OMITTED_PROPERTY = "hw_ephemeral_encryption_secret_uuid"


def _payload(name: str, version: str, fields: Mapping[str, Field]) -> Field:
    """Return the encoder of a payload class."""

    def write(value: Any) -> Fields:
        return enveloped(name, version, {field: of(value) for field, of in fields.items()})

    return write


def _same(names: str) -> dict[str, Field]:
    """Return fields that are attributes of the same name."""
    return {name: attrgetter(name) for name in names.split()}


def _written(name: str, write: Field) -> dict[str, Field]:
    """Return a field that is null or the encoded attribute of this name."""
    attribute = attrgetter(name)

    def of(value: Any) -> Any:
        found = attribute(value)
        return None if found is None else write(found)

    return {name: of}


def _each(write: Field) -> Field:
    return lambda values: list(map(write, values))


def _first(name: str) -> dict[str, Field]:
    """Return a field that is the first item of a list, or null."""
    attribute = attrgetter(name)
    return {name: lambda value: next(iter(attribute(value) or ()), None)}


def _null(_: Any) -> None:
    """Return null for a field that a request does not have."""


def _rules(group: InstanceGroup) -> dict[str, str]:
    return {name: str(limit) for name, limit in group.rules.items()}


def _pinning(cell: InstanceNUMACell) -> dict[str, int] | None:
    pinned = cell.cpu_pinning
    return None if pinned is None else {str(cpu): host_cpu for cpu, host_cpu in pinned.items()}


def _tried(retries: SchedulerRetries) -> list[str]:
    return [each.hypervisor_hostname or each.host or "" for each in retries.hosts]


def _properties(properties: ImageMetaProps) -> Fields:
    written = IMAGE_PROPERTIES.write(properties)[DATA_KEY]
    written.pop(_OMITTED_PROPERTY, None)
    return enveloped("ImageMetaPropsPayload", "1.20", written)


def _destination(destination: Destination) -> Fields:
    # Nova leaves these out where they are unset.
    found = {name: of(destination) for name, of in _DESTINATION.items()}
    data = {name: each for name, each in found.items() if each is not None}
    aggregates = destination.aggregates
    data["aggregates"] = None if aggregates is None else list(aggregates)
    return enveloped("DestinationPayload", "1.0", data)


_FLAVOR = _payload(
    "FlavorPayload",
    "1.4",
    _same("flavorid memory_mb vcpus root_gb ephemeral_gb name swap rxtx_factor vcpu_weight")
    | _same("disabled is_public description")
    | _written("extra_specs", dict)
    | {"projects": _null},
)
_IMAGE = _payload(
    "ImageMetaPayload",
    "1.0",
    _same("id name status visibility protected checksum owner size virtual_size")
    | _same("container_format disk_format created_at updated_at min_ram min_disk")
    | _written("tags", list)
    | _written("properties", _properties)
    | {"direct_url": _null},
)
_GROUP = _payload(
    "ServerGroupPayload",
    "1.1",
    _same("uuid name user_id project_id policy")
    | _written("members", list)
    | _written("hosts", list)
    | {"policies": lambda group: group.policies or None, "rules": _rules},
)
_NUMA_CELL = _payload(
    "InstanceNUMACellPayload",
    "1.2",
    _same("id memory pagesize cpu_policy cpu_thread_policy")
    | _written("cpuset", sorted)
    | _written("pcpuset", sorted)
    | _written("cpuset_reserved", sorted)
    | {"cpu_topology": _null, "cpu_pinning_raw": _pinning},
)
_NUMA_TOPOLOGY = _payload(
    "InstanceNUMATopologyPayload",
    "1.0",
    _same("instance_uuid emulator_threads_policy") | _written("cells", _each(_NUMA_CELL)),
)
_PCI_REQUEST = _payload(
    "InstancePCIRequestPayload",
    "1.1",
    _same("count alias_name request_id numa_policy") | _written("spec", _each(dict)),
)
_PCI_REQUESTS = _payload(
    "InstancePCIRequestsPayload",
    "1.0",
    _same("instance_uuid") | _written("requests", _each(_PCI_REQUEST)),
)
# The URLs of a cell are not decoded, see CellMapping; a disabled cell gets no requests.
_CELL = _payload("CellMappingPayload", "2.0", _same("uuid name") | {"disabled": lambda _: False})
_DESTINATION = _same("host node") | _written("cell", _CELL)
_RETRIES = _payload("SchedulerRetriesPayload", "1.0", _same("num_attempts") | {"hosts": _tried})
_REQUEST_SPEC = _payload(
    "RequestSpecPayload",
    "1.1",
    _same("instance_uuid project_id user_id availability_zone num_instances")
    | _first("force_hosts")
    | _first("force_nodes")
    | _written("ignore_hosts", list)
    | _written("flavor", _FLAVOR)
    | _written("image", _IMAGE)
    | _written("instance_group", _GROUP)
    | _written("numa_topology", _NUMA_TOPOLOGY)
    | _written("pci_requests", _PCI_REQUESTS)
    | _written("requested_destination", _destination)
    | _written("retry", _RETRIES)
    | _written("scheduler_hints", lambda hints: {name: list(each) for name, each in hints.items()})
    | _written("security_groups", _each(lambda group: group.uuid or group.name)),
)


def encode_payload(spec: RequestSpec) -> Fields:
    """Return the payload of scheduler.select_destinations.start and .end."""
    payload: Fields = _REQUEST_SPEC(spec)
    for name in ("numa_topology", "pci_requests"):
        if (part := payload[DATA_KEY][name]) and part[DATA_KEY]["instance_uuid"] is None:
            part[DATA_KEY]["instance_uuid"] = spec.instance_uuid
    return payload


def encode_error_payload(spec: RequestSpec, reason: str) -> Fields:
    """Return the payload of scheduler.select_destinations.error, which Nova does not send."""
    payload = {"request_spec": encode_payload(spec), "reason": reason}
    return enveloped("SelectDestinationsErrorPayload", "1.0", payload) | {NAMESPACE_KEY: _NAMESPACE}
