# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Builders: a value with everything ordinary but what the test is about."""

from dataclasses import fields
from typing import Any

from inventory.objects.instance_group import InstanceGroup
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import RequestSpec

INSTANCE = "00000000-0000-0000-1111-000000000001"
IMAGE = "00000000-0000-0000-3333-000000000001"
GROUP = "00000000-0000-0000-5555-000000000001"
_OF_FLAVOR = {"vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "extra_specs"}


def a_flavor(**changes: Any) -> Flavor:
    """Return a flavor of 2 CPUs, 2048 MB and 20 GB."""
    ordinary = {
        "vcpus": 2,
        "memory_mb": 2048,
        "root_gb": 20,
        "id": 1,
        "name": "m1.small",
        "flavorid": "f1",
    }
    return Flavor(**ordinary | changes)


def an_image(**changes: Any) -> ImageMeta:
    """Return an image; names that ImageMeta does not have become properties of it."""
    known = {each.name for each in fields(ImageMeta)}
    properties = {name: each for name, each in changes.items() if name not in known}
    ordinary = {"id": IMAGE, "name": "cirros", "properties": ImageMetaProps(properties)}
    return ImageMeta(**ordinary | {name: changes[name] for name in changes.keys() & known})


def a_group(policy: str | None = "anti-affinity", **changes: Any) -> InstanceGroup:
    """Return a server group without members."""
    return InstanceGroup(**{"uuid": GROUP, "policy": policy, "name": "g1"} | changes)


def a_request(**changes: Any) -> RequestSpec:
    """Return a request for one instance; the figures of the flavor may be given directly."""
    figures = {name: changes.pop(name) for name in changes.keys() & _OF_FLAVOR}
    ordinary = {
        "flavor": a_flavor(**figures),
        "instance_uuid": INSTANCE,
        "project_id": "project1",
        "user_id": "user1",
    }
    return RequestSpec(**ordinary | changes)
