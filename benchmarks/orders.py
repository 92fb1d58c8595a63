# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What operators of a storm wrote down: each order that they gave, and what of hosts it may mean.

A log has a line of JSON for each order, the event "ordered", at the time when it has ended: host,
what ("zone" or "enabled"), value, began, outcome, reason, and forced, which tells whether it was
given in spite of instances; operator and command are its names in the audit log. The clock is that
of the callers. How hosts are when a storm begins is written as orders of the time 0.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.history import events

ZONE, ENABLED = "zone", "enabled"
# UNKNOWN is for an operator who was told that the database was not available.
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"


@dataclass(frozen=True, slots=True)
class Order:
    """What an operator wanted of a host, and what came of it."""

    host: str
    what: str
    value: Any
    began: float
    at: float
    outcome: str = DONE
    forced: bool = True
    reason: str = ""
    operator: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last moment at which something may have held."""

    value: Any
    begins: float
    ends: float


class Hosts:
    """What may have held of hosts, and when. One operator at a time gives orders for each."""

    def __init__(self, orders: Iterable[Order]) -> None:
        by_fact: dict[tuple[str, str], list[Order]] = defaultdict(list)
        for order in sorted(orders, key=lambda each: each.began):
            if order.outcome != REFUSED:
                by_fact[order.host, order.what].append(order)
        self._spans = {fact: [*_spans(given)] for fact, given in by_fact.items()}

    def may_have_had(self, host: str, what: str, value: Any, begins: float, ends: float) -> bool:
        """Tell whether a host may have had a value at some moment between two."""
        spans = self._spans.get((host, what))
        # Nobody has given any orders for it.
        if spans is None:
            return True
        return any(
            each.value == value and each.begins <= ends and begins <= each.ends for each in spans
        )


def read(paths: Iterable[Path]) -> list[Order]:
    """Return the orders of some logs."""
    ordered = [each for each in events(paths) if each.pop("event") == "ordered"]
    return [Order(**each) for each in ordered]


def _spans(orders: list[Order]) -> Iterator[Span]:
    """Yield from when to when each order for one thing of a host may have been in force."""
    replaced = inf
    for order in reversed(orders):
        yield Span(order.value, order.began, replaced)
        if order.outcome == DONE:
            replaced = order.at
