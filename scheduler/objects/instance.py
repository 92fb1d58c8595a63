# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An instance as its compute host reports it."""

from collections.abc import Mapping
from dataclasses import dataclass

from inventory.objects.object_schema import FieldPresence
from scheduler.objects.flavor_and_image import Flavor


@dataclass(slots=True)
class Instance(FieldPresence):
    """Only ``uuid`` is certain; memory in MB, disks in GB, ``image_properties`` as text."""

    uuid: str
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    vcpus: int | None = None
    memory_mb: int | None = None
    root_gb: int | None = None
    ephemeral_gb: int | None = None
    vm_state: str | None = None
    task_state: str | None = None
    power_state: int | None = None
    instance_type_id: int | None = None
    image_ref: str | None = None
    os_type: str | None = None
    availability_zone: str | None = None
    hidden: bool = False
    flavor: Flavor | None = None
    flavor_name: str | None = None
    image_properties: Mapping[str, str] | None = None

    @property
    def flavor_identity(self) -> tuple[int | None, str | None]:
        """Id and name of its flavor, None where unknown."""
        flavor = self.flavor
        return (
            self.instance_type_id or (flavor.id if flavor else None),
            self.flavor_name or (flavor.name if flavor else None),
        )
