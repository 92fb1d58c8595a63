# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Lock server groups, read where their members are, and check policies against that."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import sqlalchemy as sa
from oslo_db.exception import DBDuplicateEntry

from inventory.claims.types import (
    ALTERNATE,
    GROUP,
    RESERVED,
    Claim,
    ClaimLost,
    ClaimRequest,
    GroupRule,
    Standby,
)
from inventory.engine import Database
from inventory.instance_states import released
from inventory.objects.instance_group import InstanceGroup
from inventory.rows import chunks
from inventory.tables import allocations, claimed_groups, compute_nodes, instances, standbys

# The hosts of each member of a group, by instance.
Members = dict[str, set[str]]
# Building a statement costs more than running it.
_VALUES: sa.BindParameter[Any] = sa.bindparam("values", expanding=True)
_LISTED = sa.select(claimed_groups.c.uuid).where(claimed_groups.c.uuid.in_(_VALUES))
_LOCK = (
    sa.update(claimed_groups)
    .where(claimed_groups.c.uuid.in_(_VALUES))
    .values(claims=claimed_groups.c.claims + 1)
)
_CLAIMED = sa.select(
    *(allocations.c[name] for name in ("group_uuid", "instance_uuid", "host", "state"))
)
_OF_GROUPS = _CLAIMED.where(allocations.c.group_uuid.in_(_VALUES))
_OF_INSTANCES = _CLAIMED.where(allocations.c.instance_uuid.in_(_VALUES))
_S, _PLACE = standbys.c, allocations.alias("place")
_IS_OF_PLACE = sa.and_(
    _PLACE.c.instance_uuid == _S.instance_uuid, _PLACE.c.reservation_uuid.is_not(None)
)
SOMEBODY = sa.func.coalesce(_PLACE.c.taken_by, _S.instance_uuid)
# The member is the instance that is in a place. A place that nobody is in may still have the group
# of who was in it.
OTHERS = (
    sa.select(*_S, _PLACE.c.instance_uuid.label("place"), SOMEBODY.label("member"))
    .add_columns(compute_nodes.c.host)
    .join(compute_nodes, compute_nodes.c.id == _S.compute_node_id)
    .join(_PLACE, _IS_OF_PLACE, isouter=True)
    .where(sa.func.coalesce(_PLACE.c.state, "") != RESERVED)
)
_STANDBYS = OTHERS.where(_S.group_uuid.in_(_VALUES))
_HELD = _STANDBYS.with_only_columns(
    _S.id, _S.group_uuid, SOMEBODY.label("member"), compute_nodes.c.host, maintain_column_froms=True
)
_SEEN = sa.select(
    instances.c.uuid, instances.c.host, instances.c.vm_state, instances.c.task_state
).where(instances.c.uuid.in_(_VALUES), instances.c.deleted == 0)


class GroupUnlisted(Exception):
    """Server groups have no rows to lock; ensure() makes them."""

    def __init__(self, uuids: Collection[str]) -> None:
        super().__init__(f"no row to lock yet: server group {', '.join(uuids)}")
        self.uuids = uuids


class GroupMembers:
    """The members of server groups and their hosts, and what is claimed for them from then on.

    Among the hosts are those of their standbys: a member is going to be there when its host dies.
    """

    def __init__(self) -> None:
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        # By instance: each of its hosts, and whether that is one of an alternate.
        self._hosts: defaultdict[str, set[tuple[str, bool]]] = defaultdict(set)
        # By instance: each host of a standby, and the id of the row, None for one that is to come.
        self._standbys: defaultdict[str, set[tuple[str, int | None]]] = defaultdict(set)

    @classmethod
    def read(
        cls, connection: sa.Connection, groups: Iterable[GroupRule | InstanceGroup]
    ) -> "GroupMembers":
        """Return the members of groups, those with claims besides those that the groups name."""
        found = cls()
        members, hosts = found._members, found._hosts
        for each in groups:
            members[each.uuid or ""].update(each.members)
        for some in chunks(sorted(members)):
            for row in connection.execute(_OF_GROUPS, {"values": some}):
                members[row.group_uuid].add(row.instance_uuid)
            for row in connection.execute(_HELD, {"values": some}):
                found.hold(row.group_uuid, row.member, row.host, row.id)
        for some in chunks(sorted({*chain(*members.values())})):
            for row in connection.execute(_OF_INSTANCES, {"values": some}):
                hosts[row.instance_uuid].add((row.host, row.state == ALTERNATE))
            for uuid, host in _seen(connection, some):
                hosts[uuid].add((host, False))
        return found

    def of(self, group: str, to_come: bool = True, but: Collection[int | None] = ()) -> Members:
        """Return the hosts of each member of a group.

        to_come counts hosts of alternates and standbys too, which members have to be apart from,
        but cannot join; but are the ids of standbys that are not counted.
        """
        found: Members = {}
        for uuid in self._members[group]:
            for host, is_alternate in self._hosts[uuid]:
                if to_come or not is_alternate:
                    found.setdefault(uuid, set()).add(host)
            for host, row_id in self._standbys[uuid] if to_come else ():
                if row_id is None or row_id not in but:
                    found.setdefault(uuid, set()).add(host)
        return found

    def hold(self, group: str, member: str, host: str, row_id: int | None = None) -> None:
        """Add the standby of a member."""
        self._members[group].add(member)
        self._standbys[member].add((host, row_id))

    def drop(self, member: str, row_id: int) -> None:
        """Take away the standby of a member by the id of its row."""
        self._standbys[member] = {each for each in self._standbys[member] if each[1] != row_id}

    def has_standby(self, member: str, row_id: int) -> bool:
        return any(row_id == each for _, each in self._standbys[member])

    def add(self, request: ClaimRequest) -> None:
        """Add what is claimed for the instances of a request."""
        for each in request.claims:
            self._hosts[each.instance_uuid].add((each.host, each.alternate))
            if request.group:
                self._members[request.group.uuid].add(each.instance_uuid)
        for made in request.standbys:
            member = made.member or made.instance_uuid
            if made.replaces is not None:
                self.drop(member, made.replaces)
            if made.group is not None and made.node_id is not None:
                self.hold(made.group.uuid, member, made.host)


def ensure(database: Database, uuids: Collection[str]) -> None:
    """Make the rows of groups that have none, in a transaction of its own to avoid deadlocks.

    None are made if another transaction makes one of them at the same time.
    """
    if missing := database.read(lambda connection: _unlisted(connection, uuids)):
        rows = [{"uuid": uuid, "claims": 0} for uuid in missing]
        with suppress(DBDuplicateEntry):
            database.write(lambda each: each.execute(sa.insert(claimed_groups), rows))


def prune(database: Database) -> int:
    """Delete the rows of groups without claims; return how many.

    A row is only a lock: it is deleted when it is not held, and made again when it is needed.
    """
    needed = sa.select(allocations.c.id).where(allocations.c.group_uuid == claimed_groups.c.uuid)
    query = sa.select(claimed_groups.c.uuid).where(~needed.exists())
    idle = database.read(lambda connection: connection.scalars(query).all())
    for some in chunks(sorted(idle)):
        statement = sa.delete(claimed_groups).where(claimed_groups.c.uuid.in_(some))
        database.write(partial(sa.Connection.execute, statement=statement))
    return len(idle)


def lock(connection: sa.Connection, uuids: Collection[str]) -> None:
    """Lock groups against other claims until the transaction ends; raise GroupUnlisted.

    What is read after it is what the last claim has left. The rows are written, since a cluster of
    databases certifies writes only; they are locked in the order of their key.
    """
    if uuids and connection.execute(_LOCK, {"values": sorted(uuids)}).rowcount < len(uuids):
        raise GroupUnlisted(_unlisted(connection, uuids))


def lock_each(connection: sa.Connection, rules: Iterable[GroupRule | None]) -> GroupMembers:
    """Lock the groups of rules; return their members. Raises GroupUnlisted."""
    groups = [rule for rule in rules if rule is not None]
    lock(connection, {rule.uuid for rule in groups})
    return GroupMembers.read(connection, groups)


def read_members(
    read: Callable[[Callable[[sa.Connection], GroupMembers]], GroupMembers],
    groups: Iterable[InstanceGroup | None],
) -> GroupMembers:
    """Return the members of groups by the newest claims, which callers do not know.

    read is that of a database; it is not called without groups that are claimed for.
    """
    claimed = [each for each in groups if each is not None and each.is_claimed]
    if not claimed:
        return GroupMembers()
    return read(lambda connection: GroupMembers.read(connection, claimed))


def members(
    connection: sa.Connection, uuid: str, known: Collection[str], to_come: bool = True
) -> Members:
    """Return the hosts of each member of a group; see GroupMembers.of()."""
    return GroupMembers.read(connection, [GroupRule(uuid, known)]).of(uuid, to_come)


def standbys_of(connection: sa.Connection, group: str) -> Sequence[Any]:
    """Return the standbys of members of a group that have hosts, with these and the members."""
    return connection.execute(_STANDBYS, {"values": [group]}).all()


def places(connection: sa.Connection, uuids: Sequence[str]) -> set[tuple[str, str]]:
    """Return (uuid, host) of these instances where they are, pending claims left out."""
    c, found = allocations.c, set()
    for some in chunks(uuids):
        confirmed = sa.select(c.instance_uuid, c.host).where(c.slot > 0, c.instance_uuid.in_(some))
        found |= {(row.instance_uuid, row.host) for row in connection.execute(confirmed)}
        found |= {*_seen(connection, some)}
    return found


def _unlisted(connection: sa.Connection, uuids: Collection[str]) -> list[str]:
    """Return the groups without rows, in the order in which they are locked."""
    return sorted({*uuids}.difference(connection.scalars(_LISTED, {"values": sorted(uuids)})))


def _seen(connection: sa.Connection, uuids: Collection[str]) -> Iterator[tuple[str, str]]:
    for row in connection.execute(_SEEN, {"values": uuids}):
        if not released(row.vm_state, row.task_state):
            yield row.uuid, row.host


def hosts_of(members: Mapping[str, Collection[str]], but: Collection[str]) -> Counter[str]:
    """Return how many members of a group each host has, leaving out those in but."""
    return Counter(host for each, hosts in members.items() if each not in but for host in hosts)


def broken(rule: GroupRule, others: Counter[str], chosen: Iterable[str]) -> list[str]:
    """Return those of the chosen hosts, one for each instance, that would break the rule."""
    mine = Counter(chosen)
    if rule.most is not None:
        return sorted(host for host in mine if others[host] + mine[host] > rule.most)
    there = others.keys() or set(rule.hosts)
    return sorted(mine.keys() - there) if there else sorted(mine)[1:]


def within_policy(
    connection: sa.Connection, request: ClaimRequest, groups: GroupMembers
) -> ClaimRequest:
    """Return the request without the alternates that would break the rule of its group.

    groups is from lock_each(). Members that must share a host have no alternates. Raises ClaimLost
    for the chosen hosts and those of standbys.
    """
    check_standbys(request.standbys, groups, request)
    rule = request.group
    if rule is None:
        return request
    apart, mine = rule.most is not None, {*request.identity.uuids}
    moved = {each.replaces for each in request.standbys}
    others = hosts_of(groups.of(rule.uuid, apart, moved), mine)
    chosen = [each for each in request.claims if not each.alternate]
    if rule.enforced and broken(rule, others, (each.host for each in chosen)):
        _check_moving(connection, rule, others, chosen)
    found, taken = chosen, others + Counter(each.host for each in chosen)
    taken += Counter(each.host for each in request.standbys if each.node_id is not None)
    for each in request.claims:
        if each.alternate and apart and not broken(rule, taken, [each.host]):
            found.append(each)
            taken[each.host] += 1
    return replace(request, claims=found)


def check_standbys(
    made: Sequence[Standby], groups: GroupMembers, request: ClaimRequest | None = None
) -> None:
    """Raise ClaimLost for a standby on a host that would have too many members with it.

    request is what is claimed with them. groups is from lock_each().
    """
    moved = {each.replaces for each in made}
    for each in made:
        rule, own = each.group, each.member or each.instance_uuid
        if rule is None or rule.most is None or each.node_id is None:
            continue
        there = {
            member
            for member, hosts in groups.of(rule.uuid, but=moved).items()
            if each.host in hosts
        }
        there |= {
            other.member or other.instance_uuid
            for other in made
            if (other.node_id, other.group and other.group.uuid) == (each.node_id, rule.uuid)
        }
        if request is not None and request.group and request.group.uuid == rule.uuid:
            claims = [claim for claim in request.claims if not claim.alternate]
            there |= {claim.instance_uuid for claim in claims if claim.host == each.host}
        if len(there - {own}) >= rule.most:
            reason = f"members of the server group, or their standbys, have come to {each.host}"
            raise ClaimLost({each.node_id}, reason, GROUP)


def _check_moving(
    connection: sa.Connection, rule: GroupRule, others: Counter[str], chosen: Collection[Claim]
) -> None:
    """Raise ClaimLost unless the rule holds without the instances that stay on their hosts."""
    # With anti-affinity these may be resized next to any other, as in the filter.
    uuids = [each.instance_uuid for each in chosen]
    there = places(connection, uuids) if rule.most is not None else set()
    moving = [each for each in chosen if (each.instance_uuid, each.host) not in there]
    hosts = broken(rule, others, (each.host for each in moving))
    if hosts:
        nodes = {each.node_id for each in moving if each.host in hosts}
        raise ClaimLost(nodes, f"the server group has come to {', '.join(hosts[:3])}", GROUP)
