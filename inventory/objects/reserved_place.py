# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A place of a reservation: room on a node that is held for an instance of a project."""

from dataclasses import dataclass

from inventory.objects.amounts import Amounts, amounts_of


@dataclass(frozen=True, slots=True)
class ReservedPlace:
    """A place that no instance has taken; memory and disk in MB.

    A protected one has a standby on the node standby_node_id, or none for want of room.
    """

    uuid: str
    node_id: int
    vcpus: int
    memory_mb: int
    disk_mb: int
    protected: bool = False
    standby_node_id: int | None = None

    @property
    def size(self) -> Amounts:
        """What an instance may need that takes the place."""
        return amounts_of(self)
