# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""States of instances and migrations mean what the field takes them for."""

import pytest

from inventory.instance_states import ENDED, IO_TASKS, MOVES, moving, released

HOLDING = ["active", "building", "paused", "suspended", "stopped", "rescued", "resized", "error"]
HOLDING += ["soft-delete", "shelved"]
RESIZE_TASKS = ["resize_prep", "resize_migrating", "resize_migrated", "resize_finish"]
REBUILD_TASKS = ["rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"]


@pytest.mark.parametrize("vm_state", [*HOLDING, None, "unheard-of"])
@pytest.mark.parametrize("task_state", [None, "spawning", "deleting"])
def test_most_states_hold_resources(vm_state: str | None, task_state: str | None) -> None:
    assert not released(vm_state, task_state)


@pytest.mark.parametrize(
    ("vm_state", "task_state", "expected"),
    [
        ("deleted", None, True),
        ("deleted", "spawning", True),
        ("shelved_offloaded", None, True),
        ("shelved_offloaded", "unshelving", True),
        ("shelved_offloaded", "spawning", False),
    ],
)
def test_what_is_deleted_or_offloaded_holds_none(
    vm_state: str, task_state: str | None, expected: bool
) -> None:
    assert released(vm_state, task_state) is expected


@pytest.mark.parametrize("task_state", [None, "resize_reverting", "anything"])
def test_a_resized_instance_has_not_arrived_yet(task_state: str | None) -> None:
    assert moving("resized", task_state)


@pytest.mark.parametrize("task_state", [*RESIZE_TASKS, "resize_reverting", *REBUILD_TASKS])
@pytest.mark.parametrize("vm_state", ["active", "stopped"])
def test_resizes_and_rebuilds_move(vm_state: str, task_state: str) -> None:
    assert moving(vm_state, task_state)


@pytest.mark.parametrize(
    ("vm_state", "task_state", "expected"),
    [
        ("active", "migrating", True),
        ("paused", "migrating", True),
        ("stopped", "migrating", False),
        ("paused", "rebuilding", False),
        ("error", "rebuild_spawning", True),
        ("error", "resize_migrating", False),
        ("active", None, False),
        ("active", "powering-off", False),
        ("building", "spawning", False),
        ("shelved_offloaded", "spawning", False),
        ("deleted", "migrating", False),
        (None, None, False),
        (None, "migrating", False),
    ],
)
def test_what_else_moves(vm_state: str | None, task_state: str | None, expected: bool) -> None:
    assert moving(vm_state, task_state) is expected


def test_an_unfinished_migration_may_have_failed() -> None:
    assert {"error", "migrating", "finished", "accepted"}.isdisjoint(ENDED)
    assert {"confirmed", "reverted", "failed", "completed", "cancelled", "done"} == ENDED
    assert {"resize", "migration", "evacuation", "live-migration"} == MOVES


def test_tasks_that_keep_disks_busy() -> None:
    assert {
        "resize_migrating",
        "rebuilding",
        "resize_prep",
        "image_snapshot",
        "image_backup",
        "rescuing",
        "unshelving",
    } == IO_TASKS
