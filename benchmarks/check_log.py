# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The audit log beside what operators saw: what they changed is in it, and nothing else of them."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.orders import DONE, ENABLED, REFUSED, UNKNOWN, Order


def violations(orders: Iterable[Order], entries: Iterable[Any]) -> Iterator[str]:
    """Yield what is wrong, one line each; entries of others than these operators do not count."""
    orders = sorted(orders, key=lambda each: each.began)
    operators = {each.operator for each in orders}
    logged: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for entry in entries:
        if entry.operator in operators:
            logged[entry.operator, entry.command].append(entry)
    # What hosts have, None after an order of which nobody knows.
    known: dict[tuple[str, str], Any] = {}
    for order in orders:
        fact = order.host, order.what
        found = logged.pop((order.operator, order.command), [])
        least, most = _expected(order, known.get(fact))
        # How hosts are when a storm begins is no order.
        if order.operator and not least <= len(found) <= most:
            yield f"audit log: {len(found)} entries of an order that was {_words(order)}"
        for entry in found:
            if not _is_about(entry, order):
                yield f"audit log: an entry about {entry.name} of an order that was {_words(order)}"
        if order.outcome != REFUSED:
            known[fact] = order.value if order.outcome == DONE else None
    for operator, command in logged:
        yield f"audit log: an entry of no order: {command} of {operator}"


def _expected(order: Order, known: Any) -> tuple[int, int]:
    """Return how many entries an order has at least and at most."""
    if order.outcome == REFUSED:
        return 0, 0
    is_sure = order.outcome != UNKNOWN and known not in (None, order.value)
    return int(is_sure), 1


def _is_about(entry: Any, order: Order) -> bool:
    before, after = json.loads(entry.before), json.loads(entry.after)
    if order.what == ENABLED:
        return entry.name == order.host and after.get("disabled") is not order.value
    sides = before.get("hosts"), after.get("hosts")
    # A host leaves the aggregate of another zone.
    joins = entry.name == order.value
    return sides == (([], [order.host]) if joins else ([order.host], []))


def _words(order: Order) -> str:
    return f"{order.outcome}: host {order.host} to have {order.what} {order.value}"
