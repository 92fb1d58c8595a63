# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claim the resources of nodes for instances, from the decision until the instance is seen there.

One transaction claims for all instances of a request, or for none. To avoid deadlocks every claim
and audit locks in this order: the row of the server group, rows of nodes by id, rows of claims.
Source: design, sections 5 and 11.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from inventory import compute_nodes
from inventory.claims import (
    apart_standbys,
    claim_rows,
    existing,
    group_locks,
    repeats,
    usage_update,
)
from inventory.claims.places import PlaceChanges
from inventory.claims.standbys import StandbyChanges
from inventory.claims.types import (
    COMING,
    CONFIRMED,
    COUNTED,
    LEAVING,
    MAY_STAY,
    Changes,
    Claim,
    ClaimLost,
    ClaimRequest,
    ClaimResult,
    Identity,
    Standby,
    with_alternates,
    without_own_hosts,
)
from inventory.claims.usage_update import LockedNodes
from inventory.dialects import current_time
from inventory.rows import execute_in
from inventory.tables import allocations as table


def claim(connection: sa.Connection, request: ClaimRequest) -> ClaimResult:
    """Claim for all instances of a request, in place of their pending claims.

    That on the host which an instance leaves stays, until the agent there reports; so it does
    beside a new one there if the instance may run there with another size. Raises ClaimLost,
    PendingClaim, Outdated, PartlyAnswered and GroupUnlisted, after which the transaction is to be
    rolled back.
    """
    groups = group_locks.lock_each(connection, request.groups)
    identity = request.identity
    found, zero = existing.of_instances(connection, [*identity.uuids, *identity.answered])
    repeated = _repeated(connection, found, identity, request.lease)
    if repeated is not None:
        return repeated
    earlier, answered = repeats.apart(found, identity)
    number = len(request.claims)
    request, stays = without_own_hosts(request, earlier)
    request = group_locks.within_policy(connection, request, groups)
    chosen = {(each.instance_uuid, each.node_id) for each in request.claims}
    staying = [
        row
        for row in existing.leaving(earlier, identity, stays)
        if identity.leaves == MAY_STAY or (row.instance_uuid, row.compute_node_id) not in chosen
    ]
    old = [row for row in earlier if row.state != CONFIRMED and row not in staying]
    left = [row for row in staying if row.state != LEAVING]
    if not request.replaces:
        existing.check_none_pending(earlier)
    locked = {row.compute_node_id for row in (*old, *left, *answered)} | request.nodes
    standbys, nodes = _lock(connection, locked, request.standbys, old)
    apart_standbys.check(connection, request)
    there = {(row.instance_uuid, row.compute_node_id) for row in earlier}
    places = _places(connection, old, request.claims)
    # A claim that follows another one on the same node: an instance seen there may be the old one.
    made = [
        replace(each, in_place=True) if (each.instance_uuid, each.node_id) in there else each
        for each in _made(nodes, places, standbys, request, old)
    ]
    nodes.write()
    existing.check_unchanged(connection, [*old, *left, *answered])
    if places:
        places.write()
    if standbys:
        standbys.write()
    now = zero + timedelta(seconds=time.monotonic())
    rows = claim_rows.build(request, made, now)
    claim_rows.leave(connection, left)
    claim_rows.replace(connection, old, rows)
    claim_rows.log(connection, old, rows)
    _prolong(connection, answered, request.lease)
    refused, changes = number - len(made), nodes.changed(made, old)
    return ClaimResult(_answers(made), False, refused, _nodes(made), changes)


def claim_each(
    connection: sa.Connection, requests: Sequence[ClaimRequest]
) -> tuple[list[ClaimResult | ClaimLost | None], Changes]:
    """Claim for requests as claim() does for one after the other, with the statements of one.

    Return their results, and what has changed for all together. None stands for a request that is
    to be claimed by itself, since instances of it have claims already. A request that has lost
    changes nothing. Raises GroupUnlisted, and ClaimLost where an instance without a claim has a
    standby: then each is to be claimed by itself.
    """
    groups = group_locks.lock_each(connection, [rule for each in requests for rule in each.groups])
    uuids = [uuid for each in requests for uuid in each.identity.uuids]
    wanted = [each for one in requests for each in one.claims]
    protected = [each for one in requests for each in one.standbys]
    ids = {node_id for each in requests for node_id in each.nodes}
    standbys, nodes = _lock(connection, ids, protected, uuids=uuids)
    earlier, zero = existing.of_instances(connection, uuids, nodes.counted)
    claimed = {row.instance_uuid for row in earlier}
    places = _places(connection, (), wanted)
    now = zero + timedelta(seconds=time.monotonic())
    results: list[ClaimResult | ClaimLost | None] = []
    rows: list[dict[str, Any]] = []
    every: list[Claim] = []
    for request in requests:
        mine, number = {*request.identity.uuids}, len(request.claims)
        if mine & claimed or request.answered:
            results.append(None)
            continue
        try:
            apart_standbys.check(connection, request)
            request, _ = without_own_hosts(request)
            request = group_locks.within_policy(connection, request, groups)
            made = _made(nodes, places, standbys, request)
        except ClaimLost as lost:
            results.append(lost)
            continue
        claimed |= mine
        groups.add(replace(request, claims=made))
        every += made
        rows += claim_rows.build(request, made, now)
        refused = number - len(made)
        results.append(ClaimResult(_answers(made), refused=refused, nodes=_nodes(made)))
    nodes.write()
    if places:
        places.write()
    if standbys:
        standbys.write()
    claim_rows.insert(connection, rows)
    claim_rows.log(connection, (), rows)
    return results, nodes.changed(every)


def release_stale(
    connection: sa.Connection, identity: Identity, lease: float
) -> ClaimResult | None:
    """Return the answer to the same request, else release the claims that are in its way.

    Those are the ones that a new request replaces anyway. Return None where there was neither.
    Raises ClaimLost, Outdated and PartlyAnswered.
    """
    found, _ = existing.of_instances(connection, [*identity.uuids, *identity.answered])
    repeated = _repeated(connection, found, identity, lease)
    if repeated is not None:
        return repeated
    earlier, _ = repeats.apart(found, identity)
    leaving = existing.leaving(earlier, identity)
    changes = release_rows(connection, [row for row in earlier if row not in leaving])
    return ClaimResult([], changes=changes) if changes else None


def _repeated(
    connection: sa.Connection, found: Sequence[sa.Row[Any]], identity: Identity, lease: float
) -> ClaimResult | None:
    """Return the answer to the same request and renew its leases, None if it is a new one."""
    same = repeats.same(found, identity)
    answers = repeats.answers(same, identity)
    if not answers:
        return None
    _renew(connection, same, lease)
    return ClaimResult([answers[uuid] for uuid in identity.uuids], repeated=True)


def renew(connection: sa.Connection, kept: Collection[tuple[str, str]], lease: float) -> None:
    """Let unconfirmed claims, by host and uuid, last for lease seconds from now on at least.

    Raises ClaimLost in a race.
    """
    found, _ = existing.of_instances(connection, {uuid for _, uuid in kept})
    _renew(connection, [row for row in found if (row.host, row.instance_uuid) in kept], lease)


def _renew(connection: sa.Connection, rows: Iterable[sa.Row[Any]], lease: float) -> None:
    pending = [row for row in rows if row.state != CONFIRMED]
    if pending:
        # A lease is ended by a transaction that has locked the node.
        compute_nodes.lock(connection, {row.compute_node_id for row in pending})
        existing.check_unchanged(connection, pending)
        _prolong(connection, pending, lease)


def _prolong(connection: sa.Connection, rows: Sequence[sa.Row[Any]], lease: float) -> None:
    """Renew the leases of claims whose nodes are locked."""
    if rows:
        until = current_time(connection) + timedelta(seconds=lease)
        ends = table.c.expires_at
        # A longer lease stays, as that of 'plan --claim --lease'.
        renewal = sa.update(table).where(ends.is_(None) | (ends < until)).values(expires_at=until)
        execute_in(connection, renewal, table.c.id, [row.id for row in rows])


def release(
    connection: sa.Connection, uuids: Collection[str], states: Collection[str] = COUNTED
) -> Changes:
    """Release the claims of these instances in some states; return what has changed.

    Raises ClaimLost in a race.
    """
    earlier, _ = existing.of_instances(connection, uuids)
    return release_rows(connection, [row for row in earlier if row.state in states])


def release_lost(
    connection: sa.Connection, lost: Collection[tuple[str, str]]
) -> tuple[list[sa.Row[Any]], Changes]:
    """Release the unconfirmed claims of instances that hosts have lost, by host and uuid.

    That is those on the host, and those elsewhere that were claimed with them or before, since such
    an instance goes to no alternate. Return the claims and what has changed; raises ClaimLost in a
    race.
    """
    waiting, _ = existing.of_instances(connection, {uuid for _, uuid in lost})
    waiting = [row for row in waiting if row.state != CONFIRMED]
    here = [row for row in waiting if (row.host, row.instance_uuid) in lost]
    over = existing.no_later_than(here, waiting)
    return over, release_rows(connection, over)


def release_elsewhere(connection: sa.Connection, uuids: Collection[str]) -> Changes:
    """Release what confirmed instances have claimed elsewhere; return what has changed.

    That is what was claimed with the confirmed claim or before: the claim of a move from there is
    later. Where an instance is leaving it may still run: the agent there tells. Raises ClaimLost in
    a race.
    """
    earlier, _ = existing.of_instances(connection, uuids)
    confirmed = [row for row in earlier if row.state == CONFIRMED]
    over = existing.no_later_than(confirmed, earlier)
    return release_rows(connection, [row for row in over if row.state in COMING])


def release_rows(connection: sa.Connection, rows: Iterable[sa.Row[Any]]) -> Changes:
    """Release unconfirmed claims; return what has changed. Raises ClaimLost if one has changed."""
    old = [row for row in rows if row.state != CONFIRMED]
    changes = usage_update.changes(old)
    nodes = LockedNodes(connection, changes)
    places = _places(connection, old, ())
    if places:
        given_back = places.moved(old, ())
        places.count(changes, given_back)
        places.apply(given_back)
    nodes.change(changes, old)
    nodes.write()
    existing.check_unchanged(connection, old)
    if places:
        places.write()
    execute_in(connection, sa.delete(table), table.c.id, [row.id for row in old])
    claim_rows.log(connection, old)
    return nodes.changed((), old)


def _lock(
    connection: sa.Connection,
    ids: set[int],
    protected: Sequence[Standby],
    old: Sequence[sa.Row[Any]] | None = None,
    uuids: Sequence[str] = (),
) -> tuple[StandbyChanges | None, LockedNodes]:
    """Lock nodes, and those on which standbys are to be held; None stands for no standby.

    Without a list of old claims no instance has a claim. Claims of the instances with these uuids
    are counted, too.
    """
    if not protected:
        return None, LockedNodes(connection, ids, uuids)
    standbys = StandbyChanges(connection, protected, old or (), first=old is None)
    nodes = LockedNodes(connection, ids | standbys.nodes, uuids)
    standbys.read()
    return standbys, nodes


def _places(
    connection: sa.Connection, old: Iterable[sa.Row[Any]], claims: Iterable[Claim]
) -> PlaceChanges | None:
    """Return the places that claims give back or take; None, without a query, where they do not."""
    named = {row.place_uuid for row in old} | {each.place for each in claims}
    uuids = sorted(uuid for uuid in named if uuid)
    return PlaceChanges(connection, uuids) if uuids else None


def _made(
    nodes: LockedNodes,
    places: PlaceChanges | None,
    standbys: StandbyChanges | None,
    request: ClaimRequest,
    old: Sequence[sa.Row[Any]] = (),
) -> list[Claim]:
    """Change the usage of the nodes of a request; return the claims that fit, with answers."""
    chosen = [each for each in request.claims if not each.alternate]
    alternates = [each for each in request.claims if each.alternate]
    changes = usage_update.changes(old, request.claims, request.documents, request.nodes)
    without = usage_update.changes(old, chosen, request.documents) if alternates else {}
    moved = places.moved(old, chosen) if places else {}
    if places:
        places.count(changes, moved)
        places.count(without, moved)
    held = standbys.moved(request.standbys) if standbys else None
    if standbys and held:
        standbys.count(changes, held)
        if alternates:
            standbys.count(without, held)
    instead = {each.node_id: without.get(each.node_id) for each in alternates}
    refused = nodes.change(changes, old, instead)
    if places:
        places.apply(moved)
    if standbys and held:
        standbys.apply(held)
    return with_alternates(chosen + [each for each in alternates if each.node_id not in refused])


def _answers(made: Iterable[Claim]) -> list[str | None]:
    return [each.answer for each in made if not each.alternate]


def _nodes(made: Iterable[Claim]) -> set[int]:
    return {each.node_id for each in made}
