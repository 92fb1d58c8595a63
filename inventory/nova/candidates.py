# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A question to Placement about where a request fits, and its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# As Placement takes it, with mappings: it goes on to Nova as it is.
AllocationRequest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """Resources that are to come from one provider or, without a suffix, from one tree.

    member_of has sets of aggregates: the provider is in one of each set.
    """

    resources: Mapping[str, int]
    suffix: str = ""
    required: Sequence[str] = ()
    forbidden: Sequence[str] = ()
    member_of: Sequence[Sequence[str]] = ()
    forbidden_aggregates: Sequence[str] = ()

    def query(self, in_tree: str | None) -> list[tuple[str, str]]:
        """Return the parameters for the group."""
        resources = [f"{name}:{amount}" for name, amount in sorted(self.resources.items())]
        traits = [*sorted(self.required), *(f"!{each}" for each in sorted(self.forbidden))]
        found = [("resources", ",".join(resources)), ("required", ",".join(traits))]
        found += [("member_of", "in:" + ",".join(each)) for each in self.member_of]
        if self.forbidden_aggregates:
            found.append(("member_of", "!in:" + ",".join(self.forbidden_aggregates)))
        found.append(("in_tree", in_tree or ""))
        return [(name + self.suffix, value) for name, value in found if value]


@dataclass(frozen=True, slots=True)
class RequestGroups:
    """All groups of a request and what is asked of them together.

    policy is "none" or "isolate"; Placement wants one for two groups with suffixes. The sets of
    same_subtree are suffixes; root_required has traits, those that are forbidden after a !.
    """

    groups: Sequence[RequestGroup]
    policy: str | None = None
    same_subtree: Sequence[Sequence[str]] = ()
    root_required: Sequence[str] = ()

    def query(self, in_tree: str | None, limit: int | None) -> list[tuple[str, str]]:
        """Return the parameters of GET /allocation_candidates."""
        # All groups of a candidate come from one tree, so one of them says which. It has to be one
        # with resources.
        first = min(
            (group for group in self.groups if group.resources),
            key=lambda group: group.suffix,
            default=None,
        )
        found = [
            each
            for group in self.groups
            for each in group.query(in_tree if group is first else None)
        ]
        found += [("same_subtree", ",".join(each)) for each in self.same_subtree]
        if self.root_required:
            found.append(("root_required", ",".join(self.root_required)))
        if self.policy is not None:
            found.append(("group_policy", self.policy))
        if limit is not None:
            found.append(("limit", str(limit)))
        return found


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a resource class a provider may give, overcommit included, and has given."""

    capacity: int
    used: int


@dataclass(frozen=True, slots=True)
class ProviderSummary:
    """A provider of the trees that candidates are in."""

    resources: Mapping[str, Amount]
    traits: frozenset[str]
    parent_uuid: str | None
    root_uuid: str


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where a request fits; provider_summaries are by uuid."""

    allocation_requests: Sequence[AllocationRequest] = ()
    provider_summaries: Mapping[str, ProviderSummary] = field(default_factory=dict)

    @classmethod
    def from_json(cls, found: Any) -> "Candidates":
        return cls(
            allocation_requests=list(found["allocation_requests"]),
            provider_summaries={
                uuid: ProviderSummary(
                    resources={
                        name: Amount(each["capacity"], each["used"])
                        for name, each in summary["resources"].items()
                    },
                    traits=frozenset(summary["traits"]),
                    parent_uuid=summary["parent_provider_uuid"],
                    root_uuid=summary["root_provider_uuid"],
                )
                for uuid, summary in found["provider_summaries"].items()
            },
        )
