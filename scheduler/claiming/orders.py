# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From a decision to the claims that hold it."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol
from uuid import uuid4

from inventory.claimed_documents import NUMA, PCI
from inventory.claimed_groups import GroupRule
from inventory.claimed_nodes import NodeDocuments
from inventory.eligibility import REVISION
from inventory.orders import Claim, Order
from scheduler.decision.host_table import HostTable
from scheduler.decision.limits import GROUP, NUMERIC, GroupLimit
from scheduler.decision.outcome import Candidate, Decision, Placement, Taken
from scheduler.decision.pipeline import Request
from scheduler.objects.documents import (
    guest_topology_to_json,
    numa_topology_to_json,
    pci_pools_to_json,
)
from scheduler.objects.instance_group import POLICIES
from scheduler.objects.request_spec import RequestSpec

# What limits are totals and ratios of: columns of compute_nodes and attributes of hosts.
_MADE_FROM = {
    "vcpu": {"vcpus": "vcpus_total", "cpu_allocation_ratio": "cpu_allocation_ratio"},
    "memory_mb": {
        "memory_mb": "total_usable_ram_mb",
        "ram_allocation_ratio": "ram_allocation_ratio",
    },
    "disk_gb": {
        "local_gb": "total_usable_disk_gb",
        "disk_allocation_ratio": "disk_allocation_ratio",
    },
}


class View(Protocol):
    """What else is known of the hosts that were decided on."""

    def reports(self, uuid: str, host: str, node: str) -> bool:
        """Return whether the agent of a node has reported an instance there."""

    def eligibility(self, node_id: int) -> int:
        """Return the eligibility_revision of a node's row that the decision was made by."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms claims are made, lease in seconds; alternates says that they are held, too."""

    lease: float = 900.0
    attempts: int = 20
    alternates: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """What tells a request from all others, and what was decided and answered to it.

    hosts is the table as the decision has left it; answers are texts, one for each placement and
    for each of its alternates after it.
    """

    request_id: str | None
    digest: str
    request: Request
    decision: Decision
    hosts: HostTable
    answers: Sequence[Sequence[str]]


def order_of(asked: Asked, terms: Terms, view: View) -> Order:
    """Return the claims that hold a decision."""
    spec, placements = asked.request.spec, asked.decision.placements
    about = _about(spec)
    claims = [
        _claim(asked.hosts, each, answer, about, view)
        for each, (answer, *_) in zip(placements, asked.answers, strict=True)
    ]
    documents = {
        node_id: found
        for claim, each in zip(claims, placements, strict=True)
        for node_id, found in _documents(asked.hosts, each.chosen.row, claim)
    }
    if terms.alternates:
        triples = list(zip(claims, placements, asked.answers, strict=True))
        claims += [each for triple in triples for each in _alternates(asked.hosts, *triple, view)]
    return Order(
        request_id=asked.request_id,
        digest=asked.digest,
        claims=claims,
        lease=terms.lease,
        group=_group(spec, placements),
        documents=documents,
        attempt=attempt_of(spec),
    )


def holdable(decision: Decision) -> Decision:
    """Return a decision without alternates that cannot be held: cells and devices never are."""
    placements = [
        replace(each, alternates=())
        if each.taken and (each.taken.cells or each.taken.devices)
        else each
        for each in decision.placements
    ]
    return replace(decision, placements=tuple(placements))


def attempt_of(spec: RequestSpec) -> int:
    """Return a number that grows when a caller asks anew for other hosts than it has tried.

    Builds that are tried again count them in retry; moves name more and more hosts to ignore.
    """
    tried = spec.retry.num_attempts + len(spec.retry.hosts) if spec.retry else 0
    return tried + len(spec.ignore_hosts or ())


def _claim(
    hosts: HostTable, placement: Placement, answer: str, about: Mapping[str, Any], view: View
) -> Claim:
    chosen, taken = placement.chosen, placement.taken or Taken(0, 0, 0)
    # Of an old caller that gave no id either. What has no name cannot be asked for again, nor be
    # confirmed by its guest; the room is held all the same, for as long as the lease.
    uuid = placement.instance_uuid or str(uuid4())
    return Claim(
        instance_uuid=uuid,
        node_id=hosts.get(chosen.row, "node_id"),
        host=chosen.host,
        node=chosen.nodename,
        vcpus=taken.vcpus,
        memory_mb=taken.memory_mb,
        disk_mb=taken.disk_mb,
        limits=_limits(chosen),
        known=_known(hosts, chosen, view),
        answer=answer,
        in_place=view.reports(uuid, chosen.host, chosen.nodename),
        numa=guest_topology_to_json(taken.cells) if taken.cells else None,
        pci=pci_pools_to_json(taken.devices) if taken.devices else None,
        about=about,
    )


def _alternates(
    hosts: HostTable, claim: Claim, placement: Placement, answers: Sequence[str], view: View
) -> Iterator[Claim]:
    """Yield claims like that of a placement for its alternates."""
    for each, answer in zip(placement.alternates, answers[1:], strict=True):
        yield replace(
            claim,
            node_id=hosts.get(each.row, "node_id"),
            host=each.host,
            node=each.nodename,
            limits=_limits(each),
            known=_known(hosts, each, view),
            answer=answer,
            in_place=False,
            alternate=True,
        )


def _limits(candidate: Candidate) -> dict[str, float]:
    # An infinite one is none, and no database has a number for it.
    limits = {name: candidate.limits.get(name, math.inf) for name in NUMERIC}
    return {name: each for name, each in limits.items() if math.isfinite(each)}


def _known(hosts: HostTable, candidate: Candidate, view: View) -> dict[str, float]:
    """Return the columns of compute_nodes that a host and its limits were chosen by."""
    known: dict[str, float] = {REVISION: view.eligibility(hosts.get(candidate.row, "node_id"))}
    for name in _limits(candidate):
        for column, attribute in _MADE_FROM[name].items():
            value = hosts.get(candidate.row, attribute)
            if value is not None:
                known[column] = value
    return known


def _documents(hosts: HostTable, row: int, claim: Claim) -> Iterator[tuple[int, NodeDocuments]]:
    """Yield the documents of a node as a decision has left them, if the claim changes any."""
    texts: dict[str, str | None] = {}
    if claim.numa:
        texts[NUMA] = numa_topology_to_json(hosts.get(row, "numa_topology"))
    if claim.pci:
        texts[PCI] = pci_pools_to_json(hosts.get(row, "pci_stats"))
    if texts:
        yield claim.node_id, NodeDocuments(hosts.get(row, "generation"), texts)


def _group(spec: RequestSpec, placements: Sequence[Placement]) -> GroupRule | None:
    """Return the rule for the members of the server group, if there is one.

    Where no filter has laid it down, as for a forced host or by a soft policy, it is not enforced:
    others are to see the member all the same.
    """
    group, limit = spec.instance_group, placements[0].chosen.limits.get(GROUP)
    if group is None or group.uuid is None or group.policy not in POLICIES:
        return None
    enforced = isinstance(limit, GroupLimit)
    most = limit.most if isinstance(limit, GroupLimit) else None
    return GroupRule(group.uuid, group.members, most, group.hosts, enforced)


def _about(spec: RequestSpec) -> dict[str, Any]:
    """Return the columns that say what instance is going to be there."""
    properties = spec.image.properties.items() if spec.image else ()
    return {
        "project_id": spec.project_id,
        "root_gb": 0 if spec.is_bfv else spec.root_gb,
        "ephemeral_gb": spec.ephemeral_gb,
        "flavor_id": spec.flavor.id,
        "flavor_name": spec.flavor.name,
        "image_properties": json.dumps(
            {name: str(value) for name, value in properties}, sort_keys=True
        ),
    }
