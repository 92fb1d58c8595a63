# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One request in the words of each release: what its conductor would send.

These encoders share nothing with the codec. Sets stay sets, so that a test can put them into any
order; as_json() puts them into the usual one.
"""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import RequestSpec, SchedulerRetries, TriedHost
from tests.unit.scheduler.wire.releases import VERSIONS, is_at_least, knows

NAME = "nova_object.name"
DATA = "nova_object.data"

_CLASSES = {TriedHost: "ComputeNode"}
_LISTS = {
    ("RequestSpec", "security_groups"): "SecurityGroupList",
    ("RequestSpec", "requested_networks"): "NetworkRequestList",
    ("SchedulerRetries", "hosts"): "ComputeNodeList",
}
_RENAMED = {
    ("InstanceGroup", "rules"): "_rules",
    ("InstanceNUMACell", "cpu_pinning"): "cpu_pinning_raw",
}
# Fields that a caller leaves unset, because they cannot be null.
_NEVER_NULL = {
    "Destination": {"host"},
    "Flavor": {"id", "flavorid"},
    "ImageMeta": {each.name for each in fields(ImageMeta)} - {"created_at", "updated_at"},
    "InstanceGroup": {"id", "uuid"},
    "InstanceNUMATopology": {"id", "instance_uuid"},
    "InstancePCIRequests": {"instance_uuid"},
    "NUMATopologyLimits": {"network_metadata"},
    "RequestSpec": {"id", "instance_uuid", "network_metadata"},
    "SecurityGroup": {"name", "uuid"},
}
# Fields that a caller leaves unset when there is nothing in them.
_UNSET_WHEN_EMPTY = {
    "RequestLevelParams": {"root_required", "root_forbidden", "same_subtree"},
    # The last four are of no caller.
    "RequestSpec": {
        *("requested_networks", "offered_nodes", "refused_nodes", "needs_placement"),
        "kept_apart",
    },
}
GLANCE_NAMES = {
    "hw_architecture": "architecture",
    "hw_auto_disk_config": "auto_disk_config",
    "hw_device_id": "xenapi_device_id",
    "hw_disk_type": "vmware_disktype",
    "hw_ipxe_boot": "ipxe_boot",
    "hw_vm_mode": "vm_mode",
    "img_bdm_v2": "bdm_v2",
    "img_bittorrent": "bittorrent",
    "img_block_device_mapping": "block_device_mapping",
    "img_cache_in_nova": "cache_in_nova",
    "img_compression_level": "xenapi_image_compression_level",
    "img_hv_requested_version": "hypervisor_version_requires",
    "img_hv_type": "hypervisor_type",
    "img_linked_clone": "vmware_linked_clone",
    "img_mappings": "mappings",
    "img_owner_id": "owner_id",
    "img_root_device_name": "root_device_name",
    "img_use_agent": "xenapi_use_agent",
    "img_version": "vmware_image_version",
    "os_distro": "vmware_ostype",
    "os_skip_agent_inject_files_at_boot": "xenapi_skip_agent_inject_files_at_boot",
    "os_skip_agent_inject_ssh": "xenapi_skip_agent_inject_ssh",
}


def as_object(value: Any, release: str) -> dict[str, Any]:
    """Return an object of Nova as the RPC of a release carries it."""
    name = _CLASSES.get(type(value), type(value).__name__)
    if isinstance(value, ImageMetaProps):
        data = {each: value[each] for each in value if knows(release, name, each)}
    elif isinstance(value, InstanceNUMACell):
        data = _cell_data(value, release)
    else:
        data = _data(name, value, release)
    return _enveloped(name, release, data)


def as_dicts(spec: RequestSpec, release: str) -> dict[str, Any]:
    """Return request_spec and filter_properties as a capped client derives them from the spec."""
    flavor = spec.flavor
    properties = {
        "uuid": spec.instance_uuid,
        "project_id": spec.project_id,
        "user_id": spec.user_id,
        "availability_zone": spec.availability_zone,
        "numa_topology": _or_null(spec.numa_topology, release),
        "pci_requests": _or_null(spec.pci_requests, release),
        **_sizes(flavor),
    }
    unset = {"uuid"} if spec.instance_uuid is None else set()
    if not knows(release, "RequestSpec", "user_id"):
        unset.add("user_id")
    return {
        "request_spec": {
            "num_instances": spec.num_instances,
            "image": {} if spec.image is None else _flat_image(spec.image, release),
            "instance_properties": {k: v for k, v in properties.items() if k not in unset},
            "instance_type": as_object(flavor, release),
        },
        "filter_properties": _filter_properties(spec, release),
    }


def as_flattened_dicts(
    spec: RequestSpec, release: str, former_names: Collection[str] = ()
) -> dict[str, Any]:
    """Return them as a conductor builds them itself, out of an instance and an image of Glance.

    former_names are the properties that the image has under their old names.
    """
    flavor = flat(as_object(spec.flavor, release))
    dicts = as_dicts(spec, release)
    request_spec, filter_properties = dicts["request_spec"], dicts["filter_properties"]
    properties = request_spec["instance_properties"]
    properties |= {
        "numa_topology": flat(properties["numa_topology"]),
        "pci_requests": flat(properties["pci_requests"]),
        "user_id": spec.user_id,
        "flavor": flavor,
    }
    request_spec["instance_type"] = flavor
    if spec.image is not None:
        given = _glance_properties(spec.image.properties, former_names)
        request_spec["image"]["properties"] = given
    filter_properties.pop("requested_destination", None)
    filter_properties["instance_type"] = as_object(spec.flavor, release)
    return dicts


def flat(tree: Any) -> Any:
    """Return the tree without the envelopes of its objects."""
    if isinstance(tree, list):
        return [flat(each) for each in tree]
    if isinstance(tree, dict):
        return {name: flat(each) for name, each in tree.get(DATA, tree).items()}
    return tree


def as_json(tree: Any) -> Any:
    """Return the tree with its sets as lists."""
    if isinstance(tree, dict):
        return {name: as_json(each) for name, each in tree.items()}
    if isinstance(tree, (set, list)):
        return [as_json(each) for each in (sorted(tree) if isinstance(tree, set) else tree)]
    return tree


def _enveloped(name: str, release: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        NAME: name,
        "nova_object.namespace": "nova",
        "nova_object.version": VERSIONS[name][release],
        DATA: data,
        "nova_object.changes": list(data),
    }


def _data(name: str, value: Any, release: str) -> dict[str, Any]:
    data = {}
    for field in fields(value):
        wire = _RENAMED.get((name, field.name), field.name)
        each = getattr(value, field.name)
        unset = each is None and field.name in _NEVER_NULL.get(name, ())
        empty = not each and field.name in _UNSET_WHEN_EMPTY.get(name, ())
        if knows(release, name, wire) and not unset and not empty:
            data[wire] = _encoded(each, release, _LISTS.get((name, field.name)))
    if isinstance(value, InstanceGroup):
        data["policies"] = value.policies
        if "_rules" in data:
            data["_rules"] = {rule: str(most) for rule, most in value.rules.items()}
    return data


def _cell_data(cell: InstanceNUMACell, release: str) -> dict[str, Any]:
    data = _data("InstanceNUMACell", cell, release)
    if "pcpuset" not in data:
        data["cpuset"] = cell.cpuset | cell.pcpuset
        if cell.cpu_policy == "mixed":
            # It could not be asked for.
            data["cpu_policy"] = "dedicated"
    if cell.cpu_pinning is not None:
        data["cpu_pinning_raw"] = {str(cpu): host for cpu, host in cell.cpu_pinning.items()}
    return data


def _encoded(value: Any, release: str, list_class: str | None = None) -> Any:
    if list_class is not None:
        return _enveloped(list_class, release, {"objects": _encoded(value, release)})
    if isinstance(value, list):
        return [_encoded(each, release) for each in value]
    if hasattr(value, "__dataclass_fields__") or isinstance(value, ImageMetaProps):
        return as_object(value, release)
    return value


def _or_null(value: Any, release: str) -> Any:
    return None if value is None else as_object(value, release)


def _sizes(flavor: Flavor) -> dict[str, int]:
    return {
        name: getattr(flavor, name) for name in ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")
    }


def _flat_image(image: ImageMeta, release: str) -> dict[str, Any]:
    data: dict[str, Any] = flat(as_object(image, release))
    for name in ("created_at", "updated_at"):
        if data[name] is not None:
            data[name] = data[name].replace("Z", ".000000")
    return data


def _filter_properties(spec: RequestSpec, release: str) -> dict[str, Any]:
    lists = {name: getattr(spec, name) for name in ("ignore_hosts", "force_hosts", "force_nodes")}
    found: dict[str, Any] = {name: each for name, each in lists.items() if each}
    if spec.retry is not None:
        found["retry"] = _retry(spec.retry)
    limits = as_object(spec.limits, release)[DATA]
    found["limits"] = {name: each for name, each in limits.items() if each is not None}
    if spec.instance_group is not None:
        found |= _group(spec.instance_group, release)
    if spec.scheduler_hints:
        found["scheduler_hints"] = {
            name: values[0] if len(values) == 1 else values
            for name, values in spec.scheduler_hints.items()
        }
    if spec.requested_destination is not None and is_at_least(release, "queens"):
        found["requested_destination"] = as_object(spec.requested_destination, release)
    return found


def _retry(retry: SchedulerRetries) -> dict[str, Any]:
    hosts = [[each.host, each.hypervisor_hostname] for each in retry.hosts]
    return {"num_attempts": retry.num_attempts, "hosts": hosts}


def _group(group: InstanceGroup, release: str) -> dict[str, Any]:
    found = {
        "group_updated": True,
        "group_hosts": set(group.hosts),
        "group_policies": set(group.policies),
    }
    if is_at_least(release, "queens"):
        found["group_members"] = set(group.members)
    if is_at_least(release, "train"):
        found["group_uuid"] = group.uuid
    return found


def _glance_properties(properties: ImageMetaProps, former_names: Collection[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, each in properties.items():
        if name == "hw_numa_cpus":
            given |= {f"{name}.{n}": _cpu_list(cpus) for n, cpus in enumerate(each)}
        elif name == "hw_numa_mem":
            given |= {f"{name}.{n}": str(size) for n, size in enumerate(each)}
        elif name == "traits_required":
            given |= dict.fromkeys((f"trait:{trait}" for trait in each), "required")
        else:
            known_as = GLANCE_NAMES.get(name, name) if name in former_names else name
            given[known_as] = each if isinstance(each, list) else str(each)
    pair = (given.get("hw_disk_bus"), given.get("hw_scsi_model"))
    if "hw_scsi_model" in former_names and pair[0] == "scsi" and pair[1] not in (None, "ide"):
        del given["hw_disk_bus"]
        given["vmware_adaptertype"] = given.pop("hw_scsi_model")
    return given


def _cpu_list(cpus: set[int]) -> str:
    """Return the CPUs as an operator may write them: a range where there is no gap."""
    listed = sorted(cpus)
    if len(listed) > 1 and listed[-1] - listed[0] == len(listed) - 1:
        return f"{listed[0]}-{listed[-1]}"
    return ",".join(map(str, listed))
