# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the claims of a request keep to the rule of their server group, which is locked."""

from collections import Counter
from collections.abc import Collection

import sqlalchemy as sa

from inventory import claimed_groups
from inventory.claimed_groups import GroupRule
from inventory.orders import Claim, Order


class RuleBroken(Exception):
    """Members have come to hosts, or are claimed for there; nodes are those that were chosen."""

    def __init__(self, nodes: Collection[int], hosts: Collection[str]) -> None:
        super().__init__(f"the server group has come to {', '.join(list(hosts)[:3])}")
        self.nodes = nodes


def kept(connection: sa.Connection, order: Order, rule: GroupRule) -> list[Claim]:
    """Return the claims without those alternates on which the rule would not hold.

    Who must share a host has no other one to go to. Raises RuleBroken for what was chosen.
    """
    apart, mine = rule.most is not None, {*order.identity.uuids}
    members = claimed_groups.members(connection, rule.uuid, rule.members, apart)
    others = claimed_groups.hosts_of(members, mine)
    chosen = [each for each in order.claims if not each.alternate]
    if rule.enforced and claimed_groups.broken(rule, others, (each.host for each in chosen)):
        _check_those_who_move(connection, rule, others, chosen)
    found, taken = chosen, others + Counter(each.host for each in chosen)
    for each in order.claims:
        if each.alternate and apart and not claimed_groups.broken(rule, taken, [each.host]):
            found.append(each)
            taken[each.host] += 1
    return found


def _check_those_who_move(
    connection: sa.Connection, rule: GroupRule, others: Counter[str], chosen: Collection[Claim]
) -> None:
    """Raise RuleBroken unless the rule holds without those who stay where they are already.

    An instance that is to be apart from others may be resized in its place whoever else is there,
    as the filter has it.
    """
    uuids = [each.instance_uuid for each in chosen]
    there = claimed_groups.places(connection, uuids) if rule.most is not None else set()
    moving = [each for each in chosen if (each.instance_uuid, each.host) not in there]
    broken = claimed_groups.broken(rule, others, (each.host for each in moving))
    if broken:
        raise RuleBroken({each.node_id for each in moving if each.host in broken}, broken)
