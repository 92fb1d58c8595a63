# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be claimed for a request, and what comes of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inventory.claimed_groups import GroupRule
from inventory.claimed_nodes import NodeDocuments

# States of a claim.
PENDING, ALTERNATE, CONFIRMED = "pending", "alternate", "confirmed"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one instance is to take of a node; disk in MB, documents as JSON.

    limits are {vcpu, memory_mb, disk_gb} as far as filters have set them; known are columns of the
    node that the decision was made from, which must still be the same. about holds columns that
    only describe the instance. answer is a JSON list of the selection that this claim holds. An
    alternate has no documents, and is given up where it does not fit.
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

    @property
    def slot(self) -> int:
        """What makes it the only one of its kind."""
        return -self.node_id if self.alternate else 0


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a request from all others; uuids are those of its instances, in their order.

    The same request has the same id, the same instances and the same digest of all that it says.
    attempt grows when a caller asks anew under the same id, since a host was of no use to it.
    """

    request_id: str | None
    digest: str
    uuids: Sequence[str]
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """The claims of one request; lease in seconds."""

    request_id: str | None
    digest: str
    claims: Sequence[Claim]
    lease: float
    group: GroupRule | None = None
    documents: Mapping[int, NodeDocuments] = field(default_factory=dict)
    attempt: int = 0

    @property
    def identity(self) -> Identity:
        """What tells the request from all others."""
        uuids = [each.instance_uuid for each in self.claims if not each.alternate]
        return Identity(self.request_id, self.digest, uuids, self.attempt)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer for each instance of the order; repeated: given before, and not claimed anew.

    refused is how many alternates did not fit, which the answers are without. left are the nodes on
    which older claims of the instances were given back.
    """

    answers: Sequence[str | None]
    repeated: bool = False
    refused: int = 0
    left: Collection[int] = ()


def with_alternates(claims: Sequence[Claim]) -> list[Claim]:
    """Return claims of which those for instances answer for their alternates as well.

    An alternate answers nothing by itself: nobody asks for one.
    """
    held: dict[str, list[str]] = {}
    for each in claims:
        if each.alternate and each.answer:
            held.setdefault(each.instance_uuid, []).append(each.answer)
    return [
        replace(each, answer=None)
        if each.alternate
        else replace(each, answer=_joined(each.answer, held.get(each.instance_uuid, ())))
        for each in claims
    ]


def _joined(answer: str | None, more: Sequence[str]) -> str | None:
    """Return JSON lists, none of which is empty, as one."""
    if answer is None or not more:
        return answer
    return f"[{', '.join(each[1:-1] for each in (answer, *more))}]"
