# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Resources that a request asks of one provider, and what holds for all of them."""

from dataclasses import dataclass, field

from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class RequestGroup(FieldPresence):
    """The wish of a port, a device or an accelerator, named by ``requester_id``."""

    use_same_provider: bool = True
    resources: dict[str, int] = field(default_factory=dict)
    required_traits: set[str] = field(default_factory=set)
    forbidden_traits: set[str] = field(default_factory=set)
    aggregates: list[list[str]] = field(default_factory=list)
    forbidden_aggregates: set[str] = field(default_factory=set)
    requester_id: str | None = None
    provider_uuids: list[str] = field(default_factory=list)
    in_tree: str | None = None


@dataclass(frozen=True, slots=True)
class RequestLevelParams(FieldPresence):
    """Traits of the host itself, and which groups have to share a subtree."""

    root_required: set[str] = field(default_factory=set)
    root_forbidden: set[str] = field(default_factory=set)
    same_subtree: list[list[str]] = field(default_factory=list)
