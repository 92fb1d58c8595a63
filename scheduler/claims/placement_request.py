# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request asks of Placement, and how its instances share what Placement offers."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from inventory.nova.candidates import AllocationRequest, Candidates, RequestGroups
from inventory.nova.placement_session import MICROVERSION
from scheduler.claims.resource_request import is_for_placement
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer, Selection

# What Placement itself says of a consumer whose project or user is not known.
NOBODY = "00000000-0000-0000-0000-000000000000"
# A provider and a resource class.
_Place = tuple[str, str]


@dataclass(slots=True)
class TreeOffer:
    """What a request may be given in the tree of a compute node, and how much of it is free."""

    allocation_requests: list[AllocationRequest] = field(default_factory=list)
    free: Mapping[_Place, float] = field(default_factory=dict)

    @classmethod
    def assumed(cls, uuid: str, resources: Mapping[str, int]) -> "TreeOffer":
        """Return the offer that a provider would make by itself; Placement says if it is full."""
        request = {"allocations": {uuid: {"resources": dict(resources)}}, "mappings": {"": [uuid]}}
        return cls([request], {(uuid, name): math.inf for name in resources})

    def shares(self, instances: int) -> list[AllocationRequest]:
        """Return an allocation request for each instance, none if they do not fit together."""
        taken: Counter[_Place] = Counter()
        found = []
        for _ in range(instances):
            for each in self.allocation_requests:
                amounts = _amounts(each)
                if all(taken[at] + more <= self.free.get(at, 0) for at, more in amounts.items()):
                    taken.update(amounts)
                    found.append(each)
                    break
            else:
                return []
        return found


@dataclass(slots=True)
class PlacementRequest:
    """What a request asks of Placement, and what it has heard between its attempts to claim.

    With in_tree it goes to this node if anywhere; limit is how many candidates Placement may name.
    offers are by the uuid of the compute node. offered are the only nodes that may be chosen, None
    for any; refused are those that may not. With is_away Placement did not answer, and the request
    goes on without it. Where it is_plain there is no need to ask before something is allocated.
    """

    groups: RequestGroups
    project_id: str | None = None
    user_id: str | None = None
    in_tree: str | None = None
    limit: int | None = None
    offers: dict[str, TreeOffer] = field(default_factory=dict)
    offered: set[str] | None = None
    refused: set[str] = field(default_factory=set)
    is_away: bool = False
    is_plain: bool = False

    def restrict(self, spec: RequestSpec) -> RequestSpec:
        """Return the spec with the nodes that Placement allows."""
        if self.offered is None and not self.refused:
            return spec
        found = spec.for_instance(spec.instance_uuid)
        found.offered_nodes, found.refused_nodes = self.offered, {*self.refused}
        found.needs_placement = is_for_placement(spec, self.groups)
        return found

    def missing(self, answer: Answer) -> list[str]:
        """Return the nodes of an answer about which nothing is known."""
        named = {each.compute_node_uuid for selections in answer for each in selections}
        return sorted(named - self.offers.keys())

    def assume(self, nodes: Iterable[str]) -> None:
        """Take it that these nodes have what a plain request asks for, and room."""
        (group,) = self.groups.groups
        self.offers |= {uuid: TreeOffer.assumed(uuid, group.resources) for uuid in nodes}

    def ask_again(self) -> None:
        """Forget what was offered or assumed, after Placement has refused to allocate it."""
        self.is_plain = False
        self.offers.clear()

    def add(self, candidates: Candidates, nodes: Iterable[str]) -> None:
        """Add what Placement answered about these nodes."""
        found = offers_by_tree(candidates)
        self.offers |= {uuid: found.get(uuid, TreeOffer()) for uuid in nodes}

    def only(self, candidates: Candidates) -> None:
        """Take what Placement answered about all nodes for all that may be chosen."""
        self.offers = offers_by_tree(candidates)
        self.offered = {*self.offers}

    def share(self, answer: Answer) -> Answer | None:
        """Return the answer with allocation requests, without alternates that are not offered.

        Return None if there is a chosen node without room for all of its instances.
        """
        chosen = Counter(first.compute_node_uuid for first, *_ in answer)
        shares = {uuid: self.offers[uuid].shares(number) for uuid, number in chosen.items()}
        if without := {uuid for uuid, found in shares.items() if not found}:
            self.refused |= without
            return None
        left = {uuid: iter(found) for uuid, found in shares.items()}
        return [
            [_allocating(first, next(left[first.compute_node_uuid])), *self._alternates(rest)]
            for first, *rest in answer
        ]

    def _alternates(self, selections: Iterable[Selection]) -> list[Selection]:
        """Return those that are offered. One at a time is built on, so each counts by itself."""
        return [
            _allocating(each, found)
            for each in selections
            for found in self.offers[each.compute_node_uuid].shares(1)
        ]

    def document(self, selection: Selection) -> dict[str, Any] | None:
        """Return the allocation of a new consumer as Placement takes it, None without a request."""
        if selection.allocation_request is None:
            return None
        owner = {"project_id": self.project_id or NOBODY, "user_id": self.user_id or NOBODY}
        return {**json.loads(selection.allocation_request), **owner, "consumer_generation": None}


def offers_by_tree(candidates: Candidates) -> dict[str, TreeOffer]:
    """Return the offers by the uuid of the root provider, which is that of the compute node.

    A provider that several trees share, such as a pool of disks, counts as a tree of its own, too.
    """
    summaries = candidates.provider_summaries
    free = {
        (uuid, name): amount.capacity - amount.used
        for uuid, summary in summaries.items()
        for name, amount in summary.resources.items()
    }
    found: dict[str, TreeOffer] = {}
    for each in candidates.allocation_requests:
        for root in {summaries[uuid].root_uuid for uuid in each["allocations"]}:
            found.setdefault(root, TreeOffer(free=free)).allocation_requests.append(each)
    return found


def _amounts(allocation_request: AllocationRequest) -> Mapping[_Place, int]:
    return {
        (uuid, name): amount
        for uuid, each in allocation_request["allocations"].items()
        for name, amount in each["resources"].items()
    }


def _allocating(selection: Selection, allocation_request: AllocationRequest) -> Selection:
    text = json.dumps(allocation_request)
    return replace(selection, allocation_request=text, allocation_request_version=MICROVERSION)
