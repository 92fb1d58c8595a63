# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What of a request each dialect can express: the same request without what gets lost on the way.

Every line here is a thing that an old conductor cannot say. What it can say is to be understood.
"""

import re
from dataclasses import fields, replace
from typing import Any

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell
from scheduler.objects.flavor_and_image import ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import RequestSpec, TriedHost
from scheduler.wire.arguments import SelectArguments
from tests.unit.scheduler.wire.releases import VERSIONS, is_at_least, knows, numbers

# The two dictionaries have no place for these, whatever release fills them.
LOST_IN_DICTS = (
    "id",
    "security_groups",
    "network_metadata",
    "is_bfv",
    "requested_resources",
    "request_level_params",
    "requested_networks",
)
# Glance has one property for each item of these, so that it cannot have an empty list.
_NUMBERED = ("hw_numa_cpus", "hw_numa_mem", "traits_required")
_WIRE_NAMES = {("InstanceGroup", "rules"): "_rules", ("InstanceGroup", "policy"): "policies"}
_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def as_nova_holds_it(spec: RequestSpec) -> RequestSpec:
    """Return a drawn request with what Nova's objects rule out put right.

    The policy of a guest cell says which of its CPUs are pinned, and a group has each host and each
    member once.
    """
    topology, group = spec.numa_topology, spec.instance_group
    if topology is not None:
        topology = replace(topology, cells=[_consistent(cell) for cell in topology.cells])
    if group is not None:
        group = replace(
            group,
            hosts=list(dict.fromkeys(group.hosts)),
            members=list(dict.fromkeys(group.members)),
        )
    return replace(spec, numa_topology=topology, instance_group=group)


def in_objects_of(value: Any, release: str) -> Any:
    """Return a value without the fields that its class did not have in the release yet."""
    if isinstance(value, list):
        return [in_objects_of(each, release) for each in value]
    if isinstance(value, ImageMetaProps):
        known = {k: v for k, v in value.items() if knows(release, "ImageMetaProps", k)}
        return ImageMetaProps(known)
    if not hasattr(value, "__dataclass_fields__") or isinstance(value, TriedHost):
        return value
    name = type(value).__name__
    said = {
        field.name: in_objects_of(getattr(value, field.name), release)
        for field in fields(value)
        if knows(release, name, _WIRE_NAMES.get((name, field.name), field.name))
    }
    if isinstance(value, InstanceNUMACell):
        said = _cell_fields(value, said, release)
    return type(value)(**said)


def in_dicts_of(spec: RequestSpec, release: str) -> RequestSpec:
    """Return what the two dictionaries say that a capped client derives from a spec."""
    spec = in_objects_of(spec, release)
    # What is in none of the fields left out has its default.
    said = {field.name: getattr(spec, field.name) for field in fields(spec)}
    said = {name: each for name, each in said.items() if name not in LOST_IN_DICTS}
    # An empty list of hosts is not sent.
    said |= {name: said[name] or None for name in ("ignore_hosts", "force_hosts", "force_nodes")}
    said["instance_group"] = _group_of_dicts(spec, release)
    if not is_at_least(release, "queens"):
        said["requested_destination"] = None
    return RequestSpec(**said)


def in_flattened_dicts_of(spec: RequestSpec, release: str) -> RequestSpec:
    """Return what the dictionaries say that a conductor builds from an instance and an image."""
    said = in_dicts_of(spec, release)
    # Glance knows properties that the conductor does not.
    image = spec.image and _from_glance(spec.image)
    # The user is that of the instance, which stands there as a whole.
    return replace(said, image=image, user_id=spec.user_id, requested_destination=None)


def of_version(asked: SelectArguments, rpc: str) -> SelectArguments:
    """Return what select_destinations of an RPC version says besides the spec."""
    if rpc == "4.5":
        return asked
    uuids = asked.instance_uuids
    if rpc != "4.4":
        # Only the spec names an instance: the first one.
        uuids = [asked.spec.instance_uuid] + [None] * (asked.spec.num_instances - 1)
    return replace(asked, instance_uuids=uuids, return_objects=False, return_alternates=False)


def in_no_order(spec: RequestSpec) -> RequestSpec:
    """Return the spec with those lists sorted that the dictionaries have in any order."""
    group = spec.instance_group
    if group is None:
        return spec
    sorted_group = replace(group, hosts=sorted(group.hosts), members=sorted(group.members))
    return replace(spec, instance_group=sorted_group)


def _consistent(cell: InstanceNUMACell) -> InstanceNUMACell:
    if cell.cpu_policy == "dedicated":
        return replace(cell, cpuset=set(), pcpuset=cell.cpuset | cell.pcpuset)
    if cell.cpu_policy == "mixed":
        return cell
    return replace(cell, cpuset=cell.cpuset | cell.pcpuset, pcpuset=set())


def _cell_fields(cell: InstanceNUMACell, said: dict[str, Any], release: str) -> dict[str, Any]:
    """Return the fields of a cell; before version 1.6 a cell is pinned as a whole or not at all."""
    if numbers(VERSIONS["InstanceNUMACell"][release]) >= (1, 6):
        return said
    policy = "dedicated" if cell.cpu_policy == "mixed" else cell.cpu_policy
    whole = _consistent(replace(cell, cpu_policy=policy))
    return said | {"cpu_policy": policy, "cpuset": whole.cpuset, "pcpuset": whole.pcpuset}


def _group_of_dicts(spec: RequestSpec, release: str) -> InstanceGroup | None:
    """Return policy and hosts, since Queens the members, since Train the uuid.

    Before, the hint names the group, if it does so by uuid.
    """
    group, hint = spec.instance_group, spec.scheduler_hints.get("group")
    if group is None:
        return None
    said = InstanceGroup(policy=group.policy, hosts=group.hosts)
    if is_at_least(release, "queens"):
        said.members = group.members
    if is_at_least(release, "train"):
        said.uuid = group.uuid
    if said.uuid is None and hint is not None and len(hint) == 1 and _UUID.fullmatch(hint[0]):
        said.uuid = hint[0]
    return said


def _from_glance(image: ImageMeta) -> ImageMeta:
    properties = {k: v for k, v in image.properties.items() if v or k not in _NUMBERED}
    return replace(image, properties=ImageMetaProps(properties))
