# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys: room on a host for a protected instance whose failure domain dies.

One failure domain dies at a time, so standbys of different domains share their room: a node holds
the largest sum that any one domain would bring to it, of each resource by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from inventory.objects.amounts import NOTHING, Amounts, larger, plus

# The modes of protection: without a standby an instance is not placed, or is placed all the same.
REQUIRED, PREFERRED = "required", "preferred"
# What a flavor says about it, and what an operator may say for all instances.
EXTRA_SPEC = "berthmaster:failover"
NONE = "none"
# What each failure domain would bring to a node.
DomainSums = Mapping[str, Amounts]


def held(sums: DomainSums) -> Amounts:
    """Return what a node holds for standbys."""
    return reduce(larger, sums.values(), NOTHING)


def changed(
    sums: DomainSums, domains: Iterable[str], size: Amounts, sign: int = 1
) -> dict[str, Amounts]:
    """Return the sums of a node with one standby more, or less where sign is -1.

    A standby counts for each of the failure domains that its instance is in.
    """
    found = dict(sums)
    for each in domains:
        found[each] = plus(found.get(each, NOTHING), size, sign)
        if not any(found[each]):
            del found[each]
    return found


def domains_text(domains: Iterable[str]) -> str:
    """Return the names of failure domains as aggregates have them, sorted."""
    return ",".join(sorted(domains))


@dataclass(frozen=True, slots=True)
class OwnStandby:
    """The standby of an instance whose request is decided.

    place_node_id is the node whose loss it covers, node_id where it is held, None where there is
    none. used is what is used of that node besides all standbys. place is the uuid of the reserved
    place that the instance is in, where the standby is that of the place. is_seen: the instance was
    seen on the node whose loss it covers, and is not only to come there.
    """

    instance_uuid: str
    place_node_id: int
    node_id: int | None
    size: Amounts
    used: Amounts = NOTHING
    place: str | None = None
    is_seen: bool = False


@dataclass(frozen=True, slots=True)
class Protection:
    """How the instances of a request are protected, and what the decision needs to know for it.

    sums has what is held on nodes, by their ids and failure domains; own are standbys that the
    instances have already. With the mode NONE, only places of reservations are protected, with the
    instances in them.
    """

    mode: str
    sums: Mapping[int, DomainSums] = field(default_factory=dict)
    own: tuple[OwnStandby, ...] = ()
