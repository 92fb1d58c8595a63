# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of the rows in the database, alone and beside the answers that callers got.

Its queries are its own: what inventory reads or adds up wrongly must not look right here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import sqlalchemy as sa

from benchmarks.history import Group, Request, Size, last_places

NODES = """
SELECT id, host, hypervisor_hostname AS node, vcpus, memory_mb, local_gb, vcpus_used,
       memory_mb_used, local_gb_used, disk_mb_used, free_ram_mb, free_disk_gb, claims,
       cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio
  FROM compute_nodes WHERE deleted = 0 ORDER BY id
"""
CLAIMS = """
SELECT id, instance_uuid, state, compute_node_id, host, node, request_id, group_uuid, vcpus,
       memory_mb, disk_mb, created_at, expires_at
  FROM allocations ORDER BY id
"""
GUESTS = """
SELECT uuid, host, node, vcpus, memory_mb, 1024 * (root_gb + ephemeral_gb) + swap_mb AS disk_mb
  FROM instances WHERE deleted = 0
"""
ENTRIES = "SELECT operator, command, name, `before`, after FROM audit_log ORDER BY id"
STANDBYS = """
SELECT id, instance_uuid, place_node_id, compute_node_id, domains, vcpus, memory_mb, disk_mb
  FROM standbys ORDER BY id
"""
DOMAINS = """
SELECT h.host, m.value AS name FROM aggregate_hosts h
  JOIN aggregate_metadata m ON m.aggregate_id = h.aggregate_id AND m.`key` = 'failure_domain'
"""
DEAD = "SELECT host FROM services WHERE deleted = 0 AND forced_down"
ANTI_AFFINITY = "anti-affinity"
PENDING, CONFIRMED, ALTERNATE = "pending", "confirmed", "alternate"


@dataclass(frozen=True, slots=True)
class Rows:
    """Nodes, claims and so on as they were at one moment.

    domains has the failure domain of each host that is not one for itself, dead the hosts that
    were forced down.
    """

    nodes: Sequence[Any]
    claims: Sequence[Any]
    guests: Sequence[Any]
    entries: Sequence[Any]
    standbys: Sequence[Any]
    domains: Sequence[Any]
    dead: Sequence[Any]


def read(url: str) -> Rows:
    """Return the rows of the database of a URL, all as of one moment."""
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name != "sqlite":
                connection.execution_options(isolation_level="REPEATABLE READ")
            queries = (NODES, CLAIMS, GUESTS, ENTRIES, STANDBYS, DOMAINS, DEAD)
            return Rows(*(connection.execute(sa.text(each)).all() for each in queries))
    finally:
        engine.dispose()


def violations(
    rows: Rows, requests: Sequence[Request], reserved: Size, after_leases: bool = False
) -> Iterator[str]:
    """Yield what is wrong, one line each.

    after_leases means that all leases are over and all nodes were audited since.
    """
    yield from _usage(rows, reserved)
    yield from standbys_in_vain(rows)
    yield from _pending_twice(rows.claims)
    if after_leases:
        yield from (f"leaked: {_claim(each)}" for each in rows.claims if each.state != CONFIRMED)
        yield from (f"leaked: {_standby(each)}" for each in rows.standbys)
        return
    yield from _lost_claims(rows, requests)
    yield from _strange_claims(rows, requests)
    yield from _groups(rows, requests)


def _usage(rows: Rows, reserved: Size) -> Iterator[str]:
    """Compare the columns of each node with what is there, and with its limits."""
    taken: dict[tuple[str, str], Size] = defaultdict(lambda: reserved)
    for guest in rows.guests:
        taken[guest.host, guest.node] += _size(guest)
    numbers: Counter[int] = Counter()
    names = {row.id: (row.host, row.node) for row in rows.nodes}
    for claim in rows.claims:
        if claim.compute_node_id not in names:
            yield f"claim on no node: {_claim(claim)}"
        elif claim.state != CONFIRMED:
            taken[names[claim.compute_node_id]] += _size(claim)
            numbers[claim.compute_node_id] += 1
    held = _held(rows)
    for row in rows.nodes:
        size = taken[row.host, row.node]
        node = f"host {row.host} node {row.node}"
        for name, there in _columns(row, size + held[row.id], numbers[row.id]).items():
            if getattr(row, name) != there:
                yield f"usage: {node} has {name} = {getattr(row, name)}, there is {there}"
        for excess in size.beyond(_limits(row)):
            yield f"over the limit: {node} {excess}"


def _held(rows: Rows) -> dict[int, Size]:
    """Return by node the largest sum of standbys that any failure domain brings."""
    sums: dict[tuple[int, str], Size] = defaultdict(Size)
    for row in rows.standbys:
        for domain in row.domains.split(","):
            sums[row.compute_node_id, domain] += _size(row)
    found: dict[int, Size] = defaultdict(Size)
    for (node_id, _), size in sums.items():
        found[node_id] = Size(*map(max, astuple(found[node_id]), astuple(size)))
    return found


def standbys_in_vain(rows: Rows) -> Iterator[str]:
    """Yield what keeps standbys from being taken, until the keeper has seen it."""
    hosts = {row.id: row.host for row in rows.nodes}
    domains = {row.host: row.name for row in rows.domains}
    dead = {row.host for row in rows.dead}
    for row in rows.standbys:
        at, place = hosts.get(row.compute_node_id), hosts.get(row.place_node_id)
        if at in dead:
            yield f"standby in vain: {_standby(row)} is on {at}, which is dead"
        elif at is not None and domains.get(at, at) == domains.get(place, place):
            yield f"standby in vain: {_standby(row)} is on {at} for {place}, in one failure domain"
    holding = {row.compute_node_id for row in rows.standbys}
    for row in (row for row in rows.nodes if row.id in holding):
        used = Size(row.vcpus_used, row.memory_mb_used, row.disk_mb_used)
        for excess in used.beyond(_limits(row)):
            yield f"standby in vain: standbys on host {row.host} have no room: {excess}"


def _columns(row: Any, size: Size, claims: int) -> dict[str, int]:
    """Return what the columns of a node must be when this is taken of it."""
    local_gb_used = -(-size.disk_mb // 1024)
    return {
        "vcpus_used": size.vcpus,
        "memory_mb_used": size.memory_mb,
        "free_ram_mb": row.memory_mb - size.memory_mb,
        "disk_mb_used": size.disk_mb,
        "local_gb_used": local_gb_used,
        "free_disk_gb": row.local_gb - local_gb_used,
        "claims": claims,
    }


def _limits(row: Any) -> dict[str, float | None]:
    return {
        "vcpu": row.vcpus * row.cpu_allocation_ratio,
        "memory_mb": row.memory_mb * row.ram_allocation_ratio,
        "disk_gb": row.local_gb * row.disk_allocation_ratio,
    }


def _pending_twice(claims: Iterable[Any]) -> Iterator[str]:
    number = Counter(each.instance_uuid for each in claims if each.state == PENDING)
    for uuid in sorted(each for each in number if number[each] > 1):
        yield f"pending twice: instance {uuid} has {number[uuid]} pending claims"


def _lost_claims(rows: Rows, requests: Iterable[Request]) -> Iterator[str]:
    """Yield the placed instances whose place is not claimed as their answers say."""
    held: dict[str, list[Any]] = defaultdict(list)
    for claim in rows.claims:
        if claim.state != ALTERNATE:
            held[claim.instance_uuid].append(claim)
    protected = {each.instance_uuid for each in rows.standbys}
    for uuid, request, place in last_places(requests):
        claims = held[uuid]
        placed = f"instance {uuid} of {request.name} was placed on host {place.host}"
        same = [each for each in claims if (each.host, each.node) == (place.host, place.node)]
        if not claims:
            yield f"not claimed: {placed} and has no claim"
        elif not same:
            yield f"claimed elsewhere: {placed}, there is {_claim(claims[0])}"
        elif _size(same[0]) != request.size:
            yield f"wrong size: {placed} with {request.size}, there is {_claim(same[0])}"
        if request.protected and uuid not in protected:
            yield f"not protected: {placed} and has neither a standby nor a reason for none"


def _strange_claims(rows: Rows, requests: Iterable[Request]) -> Iterator[str]:
    """Yield claims that no answer names, unless the answer may have been lost on its way."""
    by_instance: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        for uuid in request.instances:
            by_instance[uuid].append(request)
    for claim in rows.claims:
        if claim.state == ALTERNATE:
            continue
        asked = by_instance[claim.instance_uuid]
        if not asked:
            yield f"claimed for nobody: {_claim(claim)}"
        # A reschedule that is refused gives back what the build before it has claimed. An attempt
        # that nobody waited for any more, or its second delivery, may have claimed since: an orphan
        # until its lease ends.
        elif (last := max(asked, key=lambda each: each.build)).ended and not (
            last.placed or any(each.doubled for each in asked)
        ):
            yield f"claimed and refused: {_claim(claim)}, but {last.name} was refused"


def _groups(rows: Rows, requests: Iterable[Request]) -> Iterator[str]:
    groups = {uuid: each.group for each in requests for uuid in each.instances if each.group}
    hosts: dict[Group, Counter[str]] = defaultdict(Counter)
    # An instance that moves is on two hosts; where it goes to is what was asked for last.
    places = {each.instance_uuid: each.host for each in rows.claims if each.state == CONFIRMED}
    places |= {each.instance_uuid: each.host for each in rows.claims if each.state == PENDING}
    for uuid, host in places.items():
        if uuid in groups:
            hosts[groups[uuid]][host] += 1
    for group, found in hosts.items():
        broken = group.broken(found)
        if broken:
            yield f"group broken: {group.policy} group {group.uuid} has claims: {dict(found)}"
    yield from _standbys_beside_members(rows, groups, places)


def _standbys_beside_members(
    rows: Rows, groups: Mapping[str, Group], places: Mapping[str, str]
) -> Iterator[str]:
    """Yield groups that would be broken if instances went to their standbys."""
    hosts = {row.id: row.host for row in rows.nodes}
    there = {(uuid, host) for uuid, host in places.items() if uuid in groups}
    held = {(row.instance_uuid, hosts.get(row.compute_node_id)) for row in rows.standbys}
    held = {(uuid, host) for uuid, host in held if host and uuid in groups}
    there |= held
    found: dict[Group, Counter[str]] = defaultdict(Counter)
    for uuid, host in there:
        if groups[uuid].policy == ANTI_AFFINITY:
            found[groups[uuid]][host] += 1
    for group, number in found.items():
        standbys = {host for uuid, host in held if groups[uuid] == group}
        if broken := standbys.intersection(group.broken(number)):
            named = [each for each in sorted(there) if groups[each[0]] == group]
            names = [f"{uuid} on {host}" for uuid, host in named if host in broken]
            yield f"standby beside a member: group {group.uuid}: {', '.join(names)}"


def _size(row: Any) -> Size:
    return Size(row.vcpus, row.memory_mb, row.disk_mb)


def _standby(row: Any) -> str:
    return f"standby {row.id} of instance {row.instance_uuid}, {_size(row)}"


def _claim(row: Any) -> str:
    size = _size(row)
    return (
        f"claim {row.id} ({row.state}) of instance {row.instance_uuid} on host {row.host} node"
        f" {row.node}, request {row.request_id}, {size}"
    )
