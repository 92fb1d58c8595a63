# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be claimed for a request, and the result."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from inventory.objects.amounts import Amounts

# States of a claim. The instance of a leaving one is moved from there, and no agent has seen it.
PENDING, ALTERNATE, CONFIRMED, LEAVING = "pending", "alternate", "confirmed", "leaving"
# Of those whose instances are on their way, or may be, and of all that count in the usage of nodes.
COMING = (PENDING, ALTERNATE)
COUNTED = (*COMING, LEAVING)
# States of a reserved place: to be taken, and taken, when it waits for the end of the instance.
RESERVED, WAITING = "reserved", "waiting"


# What others have changed meanwhile: room or rules of a host, the hosts of a server group, claims
# of the same instance, or what Placement has.
HOST, GROUP, INSTANCE, PLACEMENT = "host", "group", "instance", "placement"
CAUSES = (HOST, GROUP, INSTANCE, PLACEMENT)


class ClaimLost(Exception):
    """Another claim came first; nothing is claimed. nodes are those to read again.

    cause is one of CAUSES.
    """

    def __init__(self, nodes: Collection[int], reason: str, cause: str) -> None:
        super().__init__(f"lost a race: {reason}")
        self.nodes = nodes
        self.reason = reason
        self.cause = cause


class PendingClaim(Exception):
    """A claim that was to replace none found one, of an instance on its way to a host."""

    def __init__(self, uuid: str, host: str) -> None:
        super().__init__(f"instance {uuid} has a pending claim on host {host}")
        self.uuid = uuid
        self.host = host


# Not frozen, since a round makes hundreds of them, and it takes five times as long to make a frozen
# one.
@dataclass(slots=True)
class Claim:
    """The claim of one instance on a node; disk in MB, numa and pci as JSON.

    limits are {vcpu, memory_mb, disk_gb} as far as filters have set them; known are columns of the
    node that must still have the values the decision was made from. about holds columns that only
    describe the instance. answer is a JSON list with the selection of this claim. An alternate has
    neither numa nor pci, and is dropped where it does not fit. place is the uuid of the reserved
    place that the instance takes.
    """

    instance_uuid: str
    node_id: int
    host: str
    node: str
    vcpus: int
    memory_mb: int
    disk_mb: int
    limits: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, float] = field(default_factory=dict)
    answer: str | None = None
    in_place: bool = False
    numa: str | None = None
    pci: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    alternate: bool = False
    place: str | None = None

    @property
    def slot(self) -> int:
        """The slot that makes the row unique among those of the instance."""
        return -self.node_id if self.alternate else 0


@dataclass(frozen=True, slots=True)
class Standby:
    """The standby of one instance, made with the claim of its place, or later for where it is.

    place_node_id is the node whose loss it covers, in the failure domains; node_id is where it is
    held, None where there is none, for a reason. limits and known are those of a claim there.
    evacuates is the node that the instance has lost: the standby for that ends. request is the
    request to evacuate the instance, as text. With of_place it is the standby of a reserved place,
    whose uuid is instance_uuid: request is that of the instance in the place, place_request that of
    the place; member is that instance. replaces is the id of the row that was decided about, if it
    was read before; with shrinks it is known that the instance needs less than that held. host is
    that of node_id, group the rule of the instance's server group.
    """

    instance_uuid: str
    place_node_id: int
    domains: Collection[str]
    mode: str
    size: Amounts
    request: str
    node_id: int | None = None
    reason: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    known: Mapping[str, float] = field(default_factory=dict)
    evacuates: int | None = None
    project_id: str | None = None
    group: "GroupRule | None" = None
    of_place: bool = False
    place_request: str | None = None
    replaces: int | None = None
    shrinks: bool = False
    host: str = ""
    member: str | None = None

    @property
    def left(self) -> int | None:
        """The node that the reserved place leaves whose standby it is."""
        return self.evacuates if self.of_place else None


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How many members of a server group may share a host, or that all must share one.

    most is None where all must share one. hosts are those of the group according to the caller,
    used if no member is known here. A rule that is not enforced, as for a forced host, still
    records the claims as the group's.
    """

    uuid: str
    members: Collection[str]
    most: int | None = None
    hosts: Collection[str] = ()
    enforced: bool = True


@dataclass(frozen=True, slots=True)
class NodeDocuments:
    """The JSON columns of a node after the request, if it still has this generation."""

    generation: int
    texts: Mapping[str, str | None]


# In place of the name of a host.
MAY_STAY = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a request; uuids are those of its instances, in their order.

    The same request has the same id, instances and digest of its content. attempt grows when a
    caller repeats it under the same id because a host failed. leaves is the host, in lower case,
    from which it moves its instance, and MAY_STAY for a resize that does not say where that is.
    answered are further instances of the request, whose claims of before are renewed with it.
    """

    request_id: str | None
    digest: str
    uuids: Sequence[str]
    attempt: int = 0
    leaves: str | None = None
    answered: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The claims of one request; lease in seconds, leaves and answered as in its identity.

    Unless it replaces them, a pending claim of one of its instances is in its way. apart_from are
    the instances that its hint different_host names, apart_moves those of its own that move and
    that others may name.
    """

    request_id: str | None
    digest: str
    claims: Sequence[Claim]
    lease: float
    group: GroupRule | None = None
    documents: Mapping[int, NodeDocuments] = field(default_factory=dict)
    attempt: int = 0
    replaces: bool = True
    standbys: Sequence[Standby] = ()
    leaves: str | None = None
    answered: Collection[str] = ()
    apart_from: Collection[str] = ()
    apart_moves: Collection[str] = ()

    @property
    def identity(self) -> Identity:
        """The identity of the request."""
        uuids = [each.instance_uuid for each in self.claims if not each.alternate]
        more = self.attempt, self.leaves, self.answered
        return Identity(self.request_id, self.digest, uuids, *more)

    @property
    def groups(self) -> "list[GroupRule]":
        """The rules of the server groups whose members it places, or holds standbys of."""
        rules = [self.group, *(each.group for each in self.standbys)]
        return [each for each in rules if each is not None]

    @property
    def nodes(self) -> set[int]:
        """The nodes of its claims, and those that their places leave."""
        found = {each.node_id for each in self.claims}
        return found | {each.left for each in self.standbys if each.left is not None}


class AddedClaim(NamedTuple):
    """A claim with the columns of the instance that it stands for: see existing.as_instances()."""

    uuid: str
    task_state: str | None
    vcpus: int
    memory_mb: int
    root_gb: int
    ephemeral_gb: int
    project_id: str | None
    flavor_id: int | None
    flavor_name: str | None
    image_properties: str | None
    vm_state: str = "building"
    os_type: str | None = None

    @classmethod
    def of(cls, claim: Claim) -> "AddedClaim":
        """Return what others see of a claim."""
        task, about = ALTERNATE if claim.alternate else None, claim.about.get
        rest: list[Any] = [about(name) for name in cls._fields[6:10]]
        disks = about("root_gb", 0), about("ephemeral_gb", 0)
        return cls(claim.instance_uuid, task, claim.vcpus, claim.memory_mb, *disks, *rest)


@dataclass(slots=True)
class NodeChange:
    """What one transaction has changed of a node: what is used after it, claims, documents.

    before and after are the generations of its row. added are the claims that were made; ended are
    the instances of those that were released, which may have a new one. documents are the columns
    with JSON that have changed.
    """

    node_id: int
    before: int
    after: int
    vcpus_used: int
    free_ram_mb: int
    free_disk_mb: int
    disk_mb_used: int
    claims: int
    added: list[AddedClaim] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    documents: dict[str, str | None] = field(default_factory=dict)


# One of each node.
Changes = Sequence[NodeChange]


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The answer for each instance; repeated: given before, and not claimed again.

    refused is the number of alternates that did not fit and are not in the answers. nodes are those
    of the claims. changes are what a transaction of its own has changed.
    """

    answers: Sequence[str | None]
    repeated: bool = False
    refused: int = 0
    nodes: Collection[int] = ()
    changes: Changes = ()


def without_own_hosts(
    request: ClaimRequest, earlier: Iterable[Any] = ()
) -> tuple[ClaimRequest, set[tuple[str, int]]]:
    """Return a request without alternates for which the next audit would take an instance for come.

    An audit cannot tell an instance that was resized on its own host from one that is still to be,
    if both have the same size. So its own host is no alternate, and while it stays there it has no
    others. It is there if the host reports it, or an earlier request has chosen it: as an alternate
    too, if the request does not say where it is. Also return {(instance, node id)} of the own hosts
    that are no alternates.
    """
    own = {
        (row.instance_uuid, row.compute_node_id)
        for row in earlier
        if row.request_id != request.request_id
        and (row.state != ALTERNATE or request.leaves == MAY_STAY)
    }
    own |= {(each.instance_uuid, each.node_id) for each in request.claims if each.in_place}
    if not own:
        return request, own
    there = [each for each in request.claims if (each.instance_uuid, each.node_id) in own]
    staying = {each.instance_uuid for each in there if not each.alternate}
    claims = [
        each
        for each in request.claims
        if not each.alternate or (each not in there and each.instance_uuid not in staying)
    ]
    spared = {(each.instance_uuid, each.node_id) for each in there if each.alternate}
    return replace(request, claims=claims), spared


def with_alternates(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims, those of instances with the answers of their alternates as well."""
    held: dict[str, list[str]] = {}
    for each in claims:
        if each.alternate and each.answer:
            held.setdefault(each.instance_uuid, []).append(each.answer)
    return [
        each
        if each.alternate
        else replace(each, answer=_joined(each.answer, held.get(each.instance_uuid, ())))
        for each in claims
    ]


def _joined(answer: str | None, more: Sequence[str]) -> str | None:
    """Return non-empty JSON lists as one."""
    if answer is None or not more:
        return answer
    return f"[{', '.join(each[1:-1] for each in (answer, *more))}]"
