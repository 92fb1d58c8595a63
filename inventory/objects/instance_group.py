# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A server group: instances that must share a host, or must not."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from inventory.objects.object_schema import FieldPresence

# The hard policies, and all policies.
AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
POLICIES = (AFFINITY, ANTI_AFFINITY, "soft-affinity", "soft-anti-affinity")


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
    def is_claimed(self) -> bool:
        """Whether claims for its members are known as the group's."""
        return self.uuid is not None and self.policy in POLICIES

    @property
    def most_per_host(self) -> int:
        """How many members may share a host under anti-affinity."""
        return int(self.rules.get("max_server_per_host") or 1)

    @property
    def policies(self) -> list[str]:
        """The policy as a list of one, for callers before Rocky."""
        return [] if self.policy is None else [self.policy]

    def with_hosts(self, more_hosts: Iterable[str] = ()) -> "InstanceGroup":
        """Return a copy with lists of its own and further hosts."""
        return replace(self, members=[*self.members], hosts=[*self.hosts, *more_hosts])
