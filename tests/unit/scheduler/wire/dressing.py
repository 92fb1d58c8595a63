# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The same message in another dress: what may differ between two callers that mean the same."""

from random import Random
from typing import Any

from tests.unit.scheduler.wire.dialects import DATA, NAME

CHANGES = "nova_object.changes"
VERSION = "nova_object.version"

_AUDIT = {"created_at": "2026-01-01T00:00:00Z", "updated_at": None}
_DELETED = {"deleted": False, "deleted_at": None}
# Fields that Nova's classes have, or had, and a scheduler has no use for.
_UNUSED: dict[str, dict[str, Any]] = {
    "CellMapping": {
        "id": 2,
        "transport_url": "rabbit://10.0.0.2:5672/",
        "database_connection": "mysql+pymysql://10.0.0.3/nova_cell1",
        "disabled": False,
        **_AUDIT,
    },
    "Flavor": {"projects": ["project1"], **_AUDIT, **_DELETED},
    "ImageMeta": {"direct_url": "file:///images/1"},
    "InstanceGroup": {**_AUDIT, **_DELETED},
    "InstanceNUMACell": {
        "cpu_topology": {
            NAME: "VirtCPUTopology",
            "nova_object.namespace": "nova",
            VERSION: "1.0",
            DATA: {"sockets": 1, "cores": 2, "threads": 1},
        }
    },
}
_UNKNOWN = {"wish": {NAME: "Wish", DATA: {"for": [None, {}]}}, "wishes": [1.5, None]}
_UNUSED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "request_spec": {"instance_uuids": [None], "security_group": ["default"]},
    "instance_properties": {"id": 1, "vm_state": "building", "system_metadata": {"a": None}},
    "filter_properties": {"config_options": {}, "context": {}, "request_spec": {}, "query": None},
    "retry": {"exc": ["Traceback (most recent call last):\n"], "exc_reason": "no memory"},
}


def dressed(tree: Any, chance: Random) -> Any:
    """Return the JSON of a message that means the same.

    Sets and the names of changed fields come in any order, or these not at all. A null may be
    left out. Versions may have a third part. There may be fields that are of no use.
    """
    if isinstance(tree, (set, list)):
        items = [
            dressed(each, chance) for each in (sorted(tree) if isinstance(tree, set) else tree)
        ]
        if isinstance(tree, set):
            chance.shuffle(items)
        return items
    if not isinstance(tree, dict):
        return tree
    if NAME in tree:
        return _dressed_object(tree, chance)
    found = {name: dressed(each, chance) for name, each in tree.items()}
    for name in found.keys() & _UNUSED_ARGUMENTS.keys():
        # A tenant may give a hint one of these names; that is text.
        if isinstance(found[name], dict):
            found[name] = _UNUSED_ARGUMENTS[name] | _UNKNOWN | found[name]
    return found


def _dressed_object(tree: dict[str, Any], chance: Random) -> dict[str, Any]:
    data = {
        name: dressed(each, chance)
        for name, each in tree[DATA].items()
        if each is not None or chance.random() < 0.5
    }
    if chance.random() < 0.5:
        data = _UNKNOWN | _UNUSED.get(tree[NAME], {}) | data
    if tree[NAME] == "InstanceGroup" and "policy" in data and chance.random() < 0.5:
        del data["policies"]
    changed = [*data, "field_that_was_removed"]
    chance.shuffle(changed)
    version = tree[VERSION] + chance.choice(["", ".1"])
    dress = tree | {VERSION: version, DATA: data, CHANGES: changed}
    if chance.random() < 0.5:
        del dress[CHANGES]
    names = list(dress)
    chance.shuffle(names)
    return {name: dress[name] for name in names}
