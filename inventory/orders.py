# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is to be claimed for a request, and what comes of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
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
    only describe the instance. An alternate has no documents, and is given up where it does not
    fit.
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
    """The claims of one request; leases in seconds."""

    request_id: str | None
    digest: str
    claims: Sequence[Claim]
    lease: float
    alternates_lease: float = 60.0
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

    left are the nodes on which older claims of the instances were given back.
    """

    answers: Sequence[str | None]
    repeated: bool = False
    left: Collection[int] = ()
