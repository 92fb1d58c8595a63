# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of the answers of callers beside the outcomes that operators saw."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.history import PLACED, Answer, Request, last_places
from benchmarks.orders import DONE, ENABLED, UNKNOWN, ZONE, Hosts, Order

# A claim notes the moment at which it was made, or a later one: by no more than this, in seconds,
# while no database makes anybody wait.
NOTED_WITHIN = 0.2
# When which instance was claimed for on which host in the name of which request, at the earliest.
Moments = Mapping[tuple[str, str, str], float]


def violations(
    requests: Sequence[Request], orders: Sequence[Order], claims: Iterable[Any], calm: bool = False
) -> Iterator[str]:
    """Yield what is wrong, one line each.

    calm means that every order must be answered, and that claims tell when they were made.
    """
    hosts, moments = Hosts(orders), _moments(claims) if calm else {}
    for request in requests:
        for answer in request.answers:
            if answer.outcome == PLACED:
                yield from _against_orders(request, answer, hosts, moments)
    yield from _over_claims(requests, orders)
    if calm:
        for order in orders:
            if order.outcome == UNKNOWN:
                yield f"order lost: {_order(order)}: {order.reason}"


def _against_orders(
    request: Request, answer: Answer, hosts: Hosts, moments: Moments
) -> Iterator[str]:
    """Yield the places that were forbidden from when they were claimed until the answer.

    Where nothing tells when that was it counts from when the request was sent for the first time.
    """
    wanted: dict[str, Any] = {ENABLED: True}
    if request.zone is not None:
        wanted[ZONE] = request.zone
    for uuid, place in zip(request.instances, answer.places, strict=False):
        begins = moments.get((uuid, place.host, request.id), request.began)
        for what, value in wanted.items():
            if not hosts.may_have_had(place.host, what, value, begins, answer.at):
                problem = f"out of zone {value}" if what == ZONE else "on a disabled host"
                yield f"{problem}: instance {uuid} of {request.name} on host {place.host}"


def _over_claims(requests: Sequence[Request], orders: Sequence[Order]) -> Iterator[str]:
    """Yield the orders that had to be refused, since an instance was on the host before."""
    placed: dict[str, list[tuple[float, str]]] = {}
    for uuid, request, place in last_places(requests):
        if request.placed:
            placed.setdefault(place.host, []).append((request.placed.at, uuid))
    for order in orders:
        if order.what == ZONE and order.outcome == DONE and not order.forced:
            there = [uuid for at, uuid in placed.get(order.host, ()) if at < order.began]
            if there:
                yield f"order over claims: {_order(order)}, with {len(there)} instances there"


def _order(order: Order) -> str:
    return f"host {order.host} to have {order.what} {order.value} at {order.began:.3f}"


def _moments(claims: Iterable[Any]) -> Moments:
    found = {}
    for each in claims:
        if each.created_at is not None:
            # The database has it in UTC, SQLite as text.
            noted = datetime.fromisoformat(str(each.created_at)).replace(tzinfo=UTC).timestamp()
            found[each.instance_uuid, each.host, each.request_id] = noted - NOTED_WITHIN
    return found
