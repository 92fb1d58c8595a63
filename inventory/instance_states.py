# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What states of instances and migrations mean for the resources of their hosts.

Source: behaviour reference of compute hosts, 2.4, 2.5 and 2.7.
"""

# Tasks that keep the disks of a host busy, besides building.
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
# Migrations that are over.
ENDED = frozenset({"confirmed", "reverted", "failed", "completed", "cancelled", "done"})
MOVES = frozenset({"resize", "migration", "evacuation", "live-migration"})
_RESIZING = frozenset(
    {"resize_prep", "resize_migrating", "resize_migrated", "resize_finish", "resize_reverting"}
)
_REBUILDING = frozenset({"rebuilding", "rebuild_block_device_mapping", "rebuild_spawning"})
# By the state of the instance, the tasks that move it. Evacuations rebuild what may be broken.
_MOVING = {
    "active": _RESIZING | _REBUILDING | {"migrating"},
    "stopped": _RESIZING | _REBUILDING,
    "paused": frozenset({"migrating"}),
    "error": _REBUILDING,
}


def released(vm_state: str | None, task_state: str | None) -> bool:
    """Tell whether an instance in these states takes nothing of its host any more.

    One that is being unshelved takes it again.
    """
    if vm_state == "shelved_offloaded":
        return task_state != "spawning"
    return vm_state == "deleted"


def moving(vm_state: str | None, task_state: str | None) -> bool:
    """Tell whether an instance in these states has a migration under way."""
    return vm_state == "resized" or task_state in _MOVING.get(vm_state or "", ())
