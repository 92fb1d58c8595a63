# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A server group: instances that belong together or apart."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence

# The policies that are rules, and all of them.
TOGETHER, APART = "affinity", "anti-affinity"
POLICIES = (TOGETHER, APART, "soft-affinity", "soft-anti-affinity")


@dataclass(slots=True)
class InstanceGroup(FieldPresence):
    """``members`` are instance uuids, ``hosts`` the hosts that run any of them.

    ``rules`` knows one entry: ``max_server_per_host``, a positive number.
    """

    uuid: str | None = None
    policy: str | None = None
    members: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    rules: dict[str, int] = field(default_factory=dict)
    id: int | None = None
    name: str | None = None
    project_id: str | None = None
    user_id: str | None = None

    @property
    def policies(self) -> list[str]:
        """The policy as the list of one that callers before Rocky know."""
        return [] if self.policy is None else [self.policy]

    def with_hosts(self, more_hosts: Iterable[str] = ()) -> "InstanceGroup":
        """Return a copy whose lists are its own, with further hosts added."""
        return InstanceGroup(
            self.uuid,
            self.policy,
            [*self.members],
            [*self.hosts, *more_hosts],
            self.rules,
            self.id,
            self.name,
            self.project_id,
            self.user_id,
        )
