# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of the answers that callers got, whatever the database says."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.history import (
    PLACED,
    REFUSED,
    UNAVAILABLE,
    Answer,
    Group,
    Place,
    Request,
    Size,
    last_places,
)


def violations(
    requests: Sequence[Request], reserved: Size, calm: bool = False, placed: int | None = None
) -> Iterator[str]:
    """Yield what is wrong, one line each.

    reserved is what each node keeps for itself; calm means that nothing was broken meanwhile, so
    that all requests are answered at once; placed is how many instances must have a place.
    """
    for request in requests:
        yield from _of_answers(request, calm)
    yield from _double_bookings(requests, reserved)
    yield from _groups(requests)
    number = sum(1 for _ in last_places(requests))
    if placed is not None and number != placed:
        yield f"exact capacity: {number} instances are placed, {placed} have room"


def _of_answers(request: Request, calm: bool) -> Iterator[str]:
    if request.ended is None:
        yield f"unanswered: {request.name} after {request.attempts} attempts"
    elif request.promised and not request.placed:
        yield f"promise broken: {request.name} was refused: {request.ended.reason}"
    if calm and request.attempts > 1:
        yield f"asked again: {request.name} {request.attempts} times although nothing was broken"
    if calm and len(request.answers) > request.attempts:
        yield f"answered again: {request.name} although nothing was broken"
    expected = {PLACED, REFUSED} if calm else {PLACED, REFUSED, UNAVAILABLE}
    for answer in request.answers:
        if answer.outcome not in expected and not _is_late(request, answer):
            reason = answer.reason.partition("\n")[0]
            yield f"failure: {request.name} got {answer.outcome}: {reason}"
        if answer.outcome == PLACED and len(answer.places) != len(request.instances):
            yield (
                f"not all or nothing: {request.name} got {len(answer.places)} places for"
                f" {len(request.instances)} instances"
            )
    final = {
        (each.outcome, each.hosts)
        for each in request.answers
        if each.final and not _is_late(request, each)
    }
    if len(final) > 1:
        answers = " and ".join(sorted(" ".join((outcome, *hosts)) for outcome, hosts in final))
        yield f"two answers: {request.name} got {answers}"


def _is_late(request: Request, answer: Answer) -> bool:
    """Tell whether an answer that nobody heard is right for an attempt that was late.

    Such a one may have found no room where a later one did, or may be outdated. It must not be
    placed elsewhere, unless the caller was refused in the end: then it is an orphan.
    """
    outdated = answer.outdated and request.rescheduled
    orphan = answer.outcome == PLACED and request.over
    return not answer.heard and (outdated or orphan or answer.outcome == REFUSED)


def _double_bookings(requests: Iterable[Request], reserved: Size) -> Iterator[str]:
    """Yield the nodes that hold more than fits, as far as the answers tell."""
    used: dict[tuple[str, str], Size] = defaultdict(lambda: reserved)
    limits: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    there: dict[tuple[str, str], list[str]] = defaultdict(list)
    for uuid, request, place in last_places(requests):
        node = place.host, place.node
        used[node] += request.size
        there[node].append(uuid)
        limits[node] = _lowest(limits[node], place)
    for node, size in sorted(used.items()):
        for excess in size.beyond(limits[node]):
            yield f"double booking: host {node[0]} node {node[1]} {excess}: {_some(there[node])}"


def _lowest(limits: dict[str, float | None], place: Place) -> dict[str, float | None]:
    """Return the lower of the limits; those that are not known do not count."""
    known = [(name, each) for name, each in place.limits.items() if each is not None]
    lower = {name: min(each, limits.get(name) or each) for name, each in known}
    return {**limits, **lower}


def _groups(requests: Iterable[Request]) -> Iterator[str]:
    hosts: dict[Group, Counter[str]] = defaultdict(Counter)
    there: dict[Group, list[str]] = defaultdict(list)
    for uuid, request, place in last_places(requests):
        if request.group:
            hosts[request.group][place.host] += 1
            there[request.group].append(f"{uuid} on {place.host}")
    for group, found in hosts.items():
        broken = group.broken(found)
        if broken:
            names = f"{group.policy} group {group.uuid} on {', '.join(broken)}"
            yield f"group broken: {names}: {_some(there[group], 20)}"


def _some(names: Sequence[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more
