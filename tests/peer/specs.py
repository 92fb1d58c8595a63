# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own objects from the words of a test: request specs as its API makes them, and instances.

A word that is not known is an error, so that no test passes since something was misspelt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware

Words = Mapping[str, Any]
IMAGE = "00000000-0000-0000-3333-000000000001"
CREATED = "2026-01-01T00:00:00Z"
# What goes into a spec by way of filter properties, under the same name.
_PROPERTIES = ("ignore_hosts", "force_hosts", "force_nodes", "limits", "retry", "scheduler_hints")


def request_spec(
    context: nova_context.RequestContext, instance_uuid: str, words: Words
) -> objects.RequestSpec:
    """Return the spec of the first of some instances that are to be built."""
    left = dict(words)
    flavor, image = a_flavor(left.pop("flavor", {})), an_image(left.pop("image", {}))
    spec = objects.RequestSpec.from_components(
        context,
        instance_uuid,
        image,
        flavor,
        hardware.numa_get_constraints(flavor, image),
        pci_requests(flavor, instance_uuid, left.pop("ports", ())),
        {name: left.pop(name) for name in _PROPERTIES if name in left},
        _group(left.pop("group")) if "group" in left else None,
        left.pop("availability_zone", None),
        security_groups=_security_groups(left.pop("security_groups", ())),
        port_resource_requests=[
            objects.RequestGroup(**_with_sets(each)) for each in left.pop("port_resources", ())
        ],
        request_level_params=objects.RequestLevelParams(**_with_sets(left.pop("level_params", {}))),
    )
    spec.num_instances = left.pop("num_instances", 1)
    spec.is_bfv = left.pop("is_bfv", False)
    spec.network_metadata = objects.NetworkMetadata(
        physnets=set(left.pop("physnets", ())), tunneled=left.pop("tunneled", False)
    )
    spec.requested_networks = _networks(left.pop("networks", ()))
    if "destination" in left:
        spec.requested_destination = destination(left.pop("destination"))
    refuse_left(left)
    return spec


def _with_sets(words: Words) -> dict[str, Any]:
    """Return words whose lists of traits and aggregates are sets, which JSON does not have."""
    return {
        name: {*value} if name.startswith(("required", "forbidden", "root")) else value
        for name, value in words.items()
    }


def refuse_left(left: Words) -> None:
    """Refuse words that nobody has taken."""
    if left:
        raise KeyError(f"unknown words: {sorted(left)}")


def a_flavor(words: Words) -> objects.Flavor:
    """Return a flavor of 2 CPUs, 2048 MB and 20 GB."""
    ordinary = {
        "id": 1,
        "name": "m1.small",
        "flavorid": "f1",
        "vcpus": 2,
        "memory_mb": 2048,
        "root_gb": 20,
        "ephemeral_gb": 0,
        "swap": 0,
        "rxtx_factor": 1.0,
        "vcpu_weight": 0,
        "disabled": False,
        "is_public": True,
        "extra_specs": {},
        "description": None,
    }
    return objects.Flavor(**{**ordinary, **words})


def an_image(properties: Words) -> objects.ImageMeta:
    """Return an image with these properties, as it comes from Glance."""
    return objects.ImageMeta.from_dict(
        {
            "id": IMAGE,
            "name": "cirros",
            "status": "active",
            "owner": "project1",
            "size": 16300544,
            "container_format": "bare",
            "disk_format": "qcow2",
            "created_at": CREATED,
            "updated_at": CREATED,
            "min_ram": 512,
            "min_disk": 1,
            "properties": dict(properties),
        }
    )


def pci_requests(
    flavor: objects.Flavor, instance_uuid: str, ports: Any = ()
) -> objects.InstancePCIRequests:
    """Return the devices that a flavor asks for, and one for each physical network of a port."""
    found = pci_request.get_pci_requests_from_flavor(flavor)
    found.instance_uuid = instance_uuid
    found.requests += [
        objects.InstancePCIRequest(
            count=1, spec=[{"physical_network": each}], alias_name=None, request_id=IMAGE
        )
        for each in ports
    ]
    return found


def destination(words: Words) -> objects.Destination:
    """Return a destination with the fields that are named, and no others."""
    fields = dict(words)
    if fields.get("cell"):
        fields["cell"] = a_cell(fields["cell"])
    if fields.get("forbidden_aggregates"):
        fields["forbidden_aggregates"] = set(fields["forbidden_aggregates"])
    return objects.Destination(**fields)


def a_cell(words: Words) -> objects.CellMapping:
    """Return a cell, whose URLs have credentials in them."""
    return objects.CellMapping(**{"id": 2, "name": "cell1", "disabled": False, **words})


def instances(words: Any, host: str) -> objects.InstanceList:
    """Return instances as a compute host sends them."""
    return objects.InstanceList(objects=[an_instance({"host": host, **each}) for each in words])


def an_instance(words: Words) -> objects.Instance:
    """Return an instance with the fields that are loaded as a rule."""
    ordinary = {
        "id": 1,
        "project_id": "project1",
        "user_id": "user1",
        "vm_state": "active",
        "task_state": None,
        "vcpus": 2,
        "memory_mb": 2048,
        "root_gb": 20,
        "ephemeral_gb": 0,
        "node": words["host"],
        "system_metadata": {"image_min_disk": "1"},
        "flavor": a_flavor({}),
        "old_flavor": None,
        "new_flavor": None,
    }
    return objects.Instance(**{**ordinary, **words})


def an_aggregate(words: Words) -> objects.Aggregate:
    """Return an aggregate as the API sends it."""
    return objects.Aggregate(**{"id": 1, "hosts": [], "metadata": {}, **words})


def _group(words: Words) -> objects.InstanceGroup:
    """Return a server group as conductors send it: with its members and their hosts."""
    ordinary = {
        "id": 1,
        "name": "group1",
        "project_id": "project1",
        "user_id": "user1",
        "policy": "anti-affinity",
        "members": [],
        "hosts": [],
    }
    fields = {**ordinary, **words}
    rules = fields.pop("rules", {})
    found = objects.InstanceGroup(policies=[fields["policy"]], _rules=rules, **fields)
    # Conductors load it from the database.
    found.obj_reset_changes()
    return found


def _security_groups(names: Any) -> objects.SecurityGroupList:
    return objects.SecurityGroupList(objects=[objects.SecurityGroup(name=each) for each in names])


def _networks(words: Any) -> objects.NetworkRequestList:
    return objects.NetworkRequestList(objects=[objects.NetworkRequest(**each) for each in words])
