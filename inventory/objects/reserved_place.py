# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A place of a reservation: room on a node that is held for an instance of a project."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReservedPlace:
    """A place that no instance has taken; memory and disk in MB."""

    uuid: str
    node_id: int
    vcpus: int
    memory_mb: int
    disk_mb: int

    @property
    def size(self) -> tuple[int, int, int]:
        """The vCPUs, memory and disk of the place."""
        return self.vcpus, self.memory_mb, self.disk_mb

    def takes(self, size: tuple[int, int, int]) -> bool:
        """Return whether an instance of a size fits into the place."""
        return all(has >= needs for has, needs in zip(self.size, size, strict=True))
