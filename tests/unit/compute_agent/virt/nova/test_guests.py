# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of instances and migrations become guests and moves."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from compute_agent.virt.driver import NodeName, Size
from compute_agent.virt.nova import guests
from inventory.nova.servers import Extra
from tests.nova_tables import a_flavor, an_instance

H1, H2 = NodeName("h1", "h1"), NodeName("h2", "h2")
NO = dict.fromkeys(("task_state", "project_id", "os_type", "updated_at"))
CUR = a_flavor()["nova_object.data"]


def a_row(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**NO, "deleted": 0, **an_instance("U-1", "h1"), **values})


def a_migration(**values: Any) -> SimpleNamespace:
    ends = {"source_compute": "h1", "source_node": "h1", "dest_compute": "h2", "dest_node": "h2"}
    numbers = {"old_instance_type_id": None, "new_instance_type_id": None}
    return SimpleNamespace(**{"instance_uuid": "U-1", **ends, **numbers, **values})


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({}, H1),
        ({"vm_state": "building", "task_state": "spawning"}, H1),
        ({"vm_state": "soft-delete"}, H1),
        ({"deleted": 7}, None),
        ({"vm_state": "deleted"}, None),
        ({"vm_state": "shelved_offloaded"}, None),
        ({"vm_state": "shelved_offloaded", "task_state": "spawning"}, H1),
        ({"host": None, "node": None}, None),
        ({"node": None}, None),
    ],
)
def test_where_an_instance_takes_room(values: dict[str, Any], place: NodeName | None) -> None:
    assert guests.place(a_row(**values)) == place


def test_a_root_disk_on_a_volume_is_no_local_one() -> None:
    found = guests.guest(a_row(image_ref=""), Extra())
    assert (found.uuid, found.root_gb, found.memory_mb) == ("u-1", 0, 4096)


def test_a_guest_has_what_its_flavor_says() -> None:
    extra = Extra(json.dumps({"cur": a_flavor(), "old": None, "new": None}), None, {"os": "x"})
    found = guests.guest(a_row(), extra)
    assert (found.swap_mb, found.flavor_name, found.image_properties) == (1024, "m1", {"os": "x"})


@pytest.mark.parametrize(
    ("state", "moves"),
    [
        ({"task_state": "migrating"}, True),
        ({"task_state": "resize_prep"}, True),
        ({"vm_state": "resized"}, True),
        ({}, False),
        ({"vm_state": "resized", "deleted": 1}, False),
    ],
)
def test_only_what_moves_holds_room(state: dict[str, Any], moves: bool) -> None:
    found = guests.move(a_migration(), a_row(**state), {"cur": CUR})
    assert (found is not None) == moves


def test_sizes_are_those_of_the_flavors_numbers() -> None:
    bigger = a_flavor(2, memory_mb=8192)["nova_object.data"]
    row = a_migration(old_instance_type_id=2, new_instance_type_id=1)
    # Reverted: what is new to the migration is the old flavor of the instance.
    found = guests.move(row, a_row(vm_state="resized"), {"cur": bigger, "old": CUR})
    assert found is not None
    assert (found.source, found.destination) == (H1, H2)
    assert (found.old, found.new) == (Size(2, 8192, 21504), Size(2, 4096, 21504))


def test_an_end_that_is_not_known_yet_is_none() -> None:
    row = a_migration(dest_compute=None, dest_node=None)
    found = guests.move(row, a_row(task_state="resize_prep"), {"cur": CUR})
    assert found is not None
    assert found.destination is None
