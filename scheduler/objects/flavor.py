# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The size of an instance and the wishes that come with it."""

from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class Flavor(FieldPresence):
    """Memory and swap in MB, disks in GB."""

    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int = 0
    swap: int = 0
    id: int | None = None
    name: str | None = None
    flavorid: str | None = None
    rxtx_factor: float = 1.0
    vcpu_weight: int | None = None
    disabled: bool = False
    is_public: bool = True
    extra_specs: dict[str, str] = field(default_factory=dict)
    description: str | None = None
