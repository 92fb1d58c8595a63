# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which states of instances and migrations use resources of their hosts.

Source: behaviour reference of compute hosts, 2.4, 2.5 and 2.7.
"""

# Tasks, besides building, that count as input and output of a host.
IO_TASKS = frozenset(
    {
        "resize_migrating",
        "rebuilding",
        "resize_prep",
        "image_snapshot",
        "image_backup",
        "rescuing",
        "unshelving",
    }
)
# Status of ended migrations.
ENDED = frozenset({"confirmed", "reverted", "failed", "completed", "cancelled", "done"})
MOVES = frozenset({"resize", "migration", "evacuation", "live-migration"})
_RESIZING = frozenset(
    {"resize_prep", "resize_migrating", "resize_migrated", "resize_finish", "resize_reverting"}
)
REBUILDING = frozenset({"rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"})
# The tasks of moves by vm_state. Evacuations rebuild instances that may be in error.
_MOVING = {
    "active": _RESIZING | REBUILDING | {"migrating"},
    "stopped": _RESIZING | REBUILDING,
    "paused": frozenset({"migrating"}),
    "error": REBUILDING,
}


def released(vm_state: str | None, task_state: str | None) -> bool:
    """Return whether an instance in these states uses nothing of its host any more."""
    if vm_state == "shelved_offloaded":
        # An instance that is being unshelved uses its host again.
        return task_state != "spawning"
    return vm_state == "deleted"


def moving(vm_state: str | None, task_state: str | None) -> bool:
    """Return whether an instance in these states has a migration under way."""
    return vm_state == "resized" or task_state in _MOVING.get(vm_state or "", ())
