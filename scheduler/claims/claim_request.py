# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Build the claim request for a decision."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

from conf.claims import LEASE
from inventory.claims.numa_pci_usage import NUMA, PCI
from inventory.claims.types import MAY_STAY, Claim, ClaimRequest, Identity, NodeDocuments, Standby
from inventory.objects.node_json import (
    guest_topology_to_json,
    numa_topology_to_json,
    pci_pools_to_json,
)
from inventory.revisions import ELIGIBILITY
from scheduler.claims.protection import ProtectionSettings, build_moved, build_standbys, group_rule
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision, Placement
from scheduler.filters.different_host import DifferentHostFilter
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.limits import APART, NUMERIC
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Answer
from scheduler.wire.replies import selections_to_json

# What each limit is made from: columns of compute_nodes, and their names in the host table.
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


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """How claims are made: lease in seconds; with alternates these are claimed as well.

    replaces: those of a new request take the place of pending ones for the same instances.
    """

    lease: float = LEASE
    attempts: int = 20
    alternates: bool = True
    replaces: bool = True
    protection: ProtectionSettings = field(default_factory=ProtectionSettings)


@dataclass(frozen=True, slots=True)
class ClaimContext:
    """What a claim request is built from.

    hosts is the table as the decision has left it.
    """

    identity: Identity
    request: Request
    decision: Decision
    hosts: HostTable


def build_claim_request(
    context: ClaimContext, settings: ClaimSettings, host_cache: HostCache
) -> ClaimRequest:
    """Return the request to claim what was decided; set_answers() completes it."""
    spec, hosts, placements = context.request.spec, context.hosts, context.decision.placements
    claims, alternates, documents = [], [], {}
    about = _instance_columns(spec)
    # Instances share their alternates.
    places: dict[int, dict[str, Any]] = {}
    for placement in placements:
        claim = _claim(hosts, placement, host_cache, about)
        claims.append(claim)
        if found := _documents(hosts, placement.chosen.row, claim):
            documents[claim.node_id] = found
        if settings.alternates:
            for each in placement.alternates:
                there = places.get(id(each))
                if there is None:
                    there = places[id(each)] = where(hosts, each, host_cache)
                # replace() takes five times as long.
                held = Claim(
                    **there,
                    instance_uuid=claim.instance_uuid,
                    vcpus=claim.vcpus,
                    memory_mb=claim.memory_mb,
                    disk_mb=claim.disk_mb,
                    in_place=host_cache.reports(claim.instance_uuid, each.host, each.nodename),
                    about=about,
                    alternate=True,
                )
                alternates.append(held)
    is_apart = placements[0].chosen.limits.get(APART)
    standbys: list[Standby] = []
    if protection := context.request.protection:
        place = partial(where, hosts, host_cache=host_cache)
        standbys = build_standbys(spec, protection.mode, placements, place)
        standbys += build_moved(context.decision, place)
    return ClaimRequest(
        request_id=context.identity.request_id,
        digest=context.identity.digest,
        claims=claims + alternates,
        lease=settings.lease,
        group=group_rule(spec, placements[0].chosen),
        documents=documents,
        attempt=context.identity.attempt,
        replaces=settings.replaces,
        standbys=standbys,
        leaves=context.identity.leaves,
        answered=context.identity.answered,
        apart_from=DifferentHostFilter().named(spec) if is_apart else (),
        apart_moves=context.identity.uuids if is_apart and spec.ignore_hosts else (),
    )


def set_answers(request: ClaimRequest, answer: Answer, alternates: bool) -> None:
    """Set the answers of all claims of a request: with alternates claimed, each its host."""
    texts = [selections_to_json(each[:1] if alternates else each) for each in answer]
    if alternates:
        # Instances share their alternates.
        spare = {id(each): each for _, *rest in answer for each in rest}
        texts_of = {key: selections_to_json([each]) for key, each in spare.items()}
        texts += [texts_of[id(each)] for _, *rest in answer for each in rest]
    for claim, text in zip(request.claims, texts, strict=True):
        claim.answer = text


def request_identity(
    request: Request, request_id: str | None, digest: str, answered: Sequence[str] = ()
) -> Identity:
    """Return what tells a request from all others.

    The attempt grows when a caller asks for other hosts than it has tried: builds count their
    attempts in retry, moves name more and more hosts to ignore. The first of these is the host of
    the instance. A resize that may stay there has an empty list, and builds have none.
    """
    spec, uuids = request.spec, [uuid for uuid in request.instance_uuids if uuid]
    tried = spec.retry.num_attempts + len(spec.retry.hosts) if spec.retry else 0
    ignored = [name.lower() for name in spec.ignore_hosts or ()]
    leaves = None if spec.ignore_hosts is None else (ignored or [MAY_STAY])[0]
    return Identity(request_id, digest, uuids, tried + len(ignored), leaves, answered)


def claimable(decision: Decision) -> Decision:
    """Return a decision without alternates for instances with cells or devices: see Claim."""
    placements = [
        replace(each, alternates=())
        if each.taken and (each.taken.cells or each.taken.devices)
        else each
        for each in decision.placements
    ]
    return replace(decision, placements=tuple(placements))


def _claim(
    hosts: HostTable, placement: Placement, host_cache: HostCache, about: Mapping[str, Any]
) -> Claim:
    chosen, taken = placement.chosen, placement.taken or Consumption(0, 0, 0)
    # An old caller without a request id may name no uuid. Such a claim cannot be repeated, nor
    # confirmed by an audit, but it holds the resources until its lease ends.
    uuid = placement.instance_uuid or str(uuid4())
    return Claim(
        **where(hosts, chosen, host_cache),
        instance_uuid=uuid,
        vcpus=taken.vcpus,
        memory_mb=taken.memory_mb,
        disk_mb=taken.disk_mb,
        in_place=host_cache.reports(uuid, chosen.host, chosen.nodename),
        numa=guest_topology_to_json(taken.cells) if taken.cells else None,
        pci=pci_pools_to_json(taken.devices) if taken.devices else None,
        about=about,
        place=placement.place,
    )


def where(hosts: HostTable, candidate: Candidate, host_cache: HostCache) -> dict[str, Any]:
    """Return the fields of a claim that say on which node it is, and what that was chosen by."""
    node_id = hosts.get(candidate.row, "node_id")
    limits: dict[str, float] = {}
    known: dict[str, float] = {ELIGIBILITY: host_cache.eligibility_revision(node_id)}
    for name in NUMERIC:
        limit = candidate.limits.get(name, math.inf)
        # An infinite limit bounds nothing, and no database has a number for it.
        if math.isfinite(limit):
            limits[name] = limit
            columns = {
                each: hosts.get(candidate.row, its) for each, its in _MADE_FROM[name].items()
            }
            known |= {each: value for each, value in columns.items() if value is not None}
    return {
        "node_id": node_id,
        "host": candidate.host,
        "node": candidate.nodename,
        "limits": limits,
        "known": known,
    }


def _documents(hosts: HostTable, row: int, claim: Claim) -> NodeDocuments | None:
    """Return the documents of a node as the decision left them, None if the claim changes none."""
    texts: dict[str, str | None] = {}
    if claim.numa:
        texts[NUMA] = numa_topology_to_json(hosts.get(row, "numa_topology"))
    if claim.pci:
        texts[PCI] = pci_pools_to_json(hosts.get(row, "pci_stats"))
    return NodeDocuments(hosts.get(row, "generation"), texts) if texts else None


def _instance_columns(spec: RequestSpec) -> dict[str, Any]:
    """Return the columns that describe the instance."""
    texts = spec.image.properties.texts() if spec.image else {}
    return {
        "project_id": spec.project_id,
        "root_gb": 0 if spec.is_bfv else spec.root_gb,
        "ephemeral_gb": spec.ephemeral_gb,
        "flavor_id": spec.flavor.id,
        "flavor_name": spec.flavor.name,
        "image_properties": json.dumps(texts, sort_keys=True),
    }
