# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts that a request has tried in vain."""

from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class TriedHost(FieldPresence):
    """A service host and its hypervisor node."""

    host: str | None = None
    hypervisor_hostname: str | None = None


@dataclass(frozen=True, slots=True)
class SchedulerRetries(FieldPresence):
    """How often, and on which hosts, the build was attempted."""

    num_attempts: int = 0
    hosts: list[TriedHost] = field(default_factory=list)
