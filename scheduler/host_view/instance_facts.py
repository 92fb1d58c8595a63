# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of an instance: from its row in the inventory, and from two sources together."""

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from sys import intern
from typing import Any

from oslo_log import log

from scheduler.objects.instance import Instance

LOG = log.getLogger(__name__)
_NAMES = tuple(field.name for field in fields(Instance))
_FLAVOR = ("instance_type_id", "flavor_name", "flavor")
_STATE = ("vm_state", "task_state", "power_state")
_MOST_TEXTS = 4096


# What is read of a row, with its end.
COLUMNS = (
    "uuid",
    "host",
    "node",
    "project_id",
    "vcpus",
    "memory_mb",
    "root_gb",
    "ephemeral_gb",
    "vm_state",
    "task_state",
    "os_type",
    "flavor_id",
    "flavor_name",
    "image_properties",
    "deleted",
    "updated_at",
)


def instance_of(row: Any) -> Instance:
    """Return the instance that a row of the inventory describes."""
    return Instance(
        uuid=row.uuid,
        host=_shared(row.host),
        node=_shared(row.node),
        project_id=_shared(row.project_id),
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        root_gb=row.root_gb,
        ephemeral_gb=row.ephemeral_gb,
        vm_state=_shared(row.vm_state),
        task_state=_shared(row.task_state),
        os_type=_shared(row.os_type),
        instance_type_id=row.flavor_id,
        flavor_name=_shared(row.flavor_name),
        image_properties=_image_properties(row.image_properties),
    )


def merged(known: Instance, newer: Instance) -> Instance:
    """Return an instance with what newer says, and with what known says where that is silent.

    What tells the flavor is not mixed when the two are of different ones, nor is what tells the
    state: an instance without a task has none.
    """
    facts = {name: getattr(newer, name) for name in _NAMES}
    kept = set(_NAMES)
    if _other_flavor(known, newer):
        kept -= set(_FLAVOR)
    if newer.vm_state is not None:
        kept -= set(_STATE)
    facts.update({name: getattr(known, name) for name in kept if facts[name] is None})
    return Instance(**facts)


def _other_flavor(known: Instance, newer: Instance) -> bool:
    """Return whether two descriptions of an instance name different flavors."""
    for name in _FLAVOR[:2]:
        one, other = getattr(known, name), getattr(newer, name)
        if None not in (one, other) and one != other:
            return True
    return False


def _shared(text: str | None) -> str | None:
    """Return a text of which there are few: all instances with it share one in memory."""
    return intern(text) if text else text


# Many instances share an image: its text is parsed once, and complained of once.
@lru_cache(_MOST_TEXTS)
def _image_properties(text: str | None) -> Mapping[str, str] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise ValueError("not an object of texts")
    # One unreadable row must not keep all other instances from being read.
    except (ValueError, RecursionError) as error:
        LOG.warning("Image properties of an instance are unreadable and ignored: %s", error)
        return None
    return found
