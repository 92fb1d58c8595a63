# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A named set of hosts with metadata."""

from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence

# How keys of metadata begin that set hosts aside for projects: one value is too short for many, so
# filter_tenant_id2 and so on name further ones.
PROJECT_KEY = "filter_tenant_id"


@dataclass(frozen=True, slots=True)
class Aggregate(FieldPresence):
    """``hosts`` are names of compute services."""

    id: int | None = None
    uuid: str | None = None
    name: str | None = None
    hosts: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def availability_zone(self) -> str | None:
        """The zone that the aggregate stands for, if any."""
        return self.metadata.get("availability_zone")
