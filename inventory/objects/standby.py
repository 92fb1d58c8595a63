# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys: room on a host for a protected instance whose failure domain dies.

One failure domain dies at a time, so standbys of different domains share their room: a node holds
the largest sum that any one domain would bring to it, of each resource by itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

# The modes of protection: without a standby an instance is not placed, or is placed all the same.
REQUIRED, PREFERRED = "required", "preferred"
# What a flavor says about it, and what an operator may say for all instances.
EXTRA_SPEC = "berthmaster:failover"
NONE = "none"
# vCPUs, memory in MB and disk in MB.
Amounts = tuple[int, int, int]
NOTHING: Amounts = (0, 0, 0)
# What each failure domain would bring to a node.
DomainSums = Mapping[str, Amounts]


def larger(one: Amounts, other: Amounts) -> Amounts:
    """Return the larger amount of each resource."""
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])


def held(sums: DomainSums) -> Amounts:
    """Return what a node holds for standbys."""
    return reduce(larger, sums.values(), NOTHING)


def plus(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    """Return the sum of two amounts, the difference where sign is -1."""
    return one[0] + sign * other[0], one[1] + sign * other[1], one[2] + sign * other[2]


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


def covers(size: Amounts, needed: Amounts) -> bool:
    """Return whether an instance that needs so much fits into a standby of a size."""
    return all(has >= needs for has, needs in zip(size, needed, strict=True))


def domains_text(domains: Iterable[str]) -> str:
    """Return the names of failure domains as aggregates have them, sorted."""
    return ",".join(sorted(domains))


@dataclass(frozen=True, slots=True)
class OwnStandby:
    """The standby of an instance whose request is decided.

    place_node_id is the node whose loss it covers, node_id where it is held, None where there is
    none. used is what is used of that node besides all standbys.
    """

    instance_uuid: str
    place_node_id: int
    node_id: int | None
    size: Amounts
    used: Amounts = NOTHING


@dataclass(frozen=True, slots=True)
class Protection:
    """How the instances of a request are protected, and what the decision needs to know for it.

    sums has what is held on nodes, by their ids and failure domains; own are standbys that the
    instances have already. avoided are nodes with standbys of other members of the server group.
    """

    mode: str
    sums: Mapping[int, DomainSums] = field(default_factory=dict)
    own: tuple[OwnStandby, ...] = ()
    avoided: tuple[int, ...] = ()
