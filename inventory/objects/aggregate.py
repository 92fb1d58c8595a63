# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A named set of hosts with metadata."""

from dataclasses import dataclass, field

from inventory.objects.object_schema import FieldPresence

# Prefix of metadata keys that set hosts aside for projects: filter_tenant_id, filter_tenant_id2 ...
PROJECT_KEY = "filter_tenant_id"
# Key of the names of what fails together, such as a rack; commas separate several.
FAILURE_DOMAIN = "failure_domain"


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
        """The availability zone of the aggregate, if any."""
        return self.metadata.get("availability_zone")
