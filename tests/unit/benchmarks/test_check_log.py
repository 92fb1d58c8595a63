# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.check_log: the audit log against the outcomes that operators saw."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from benchmarks.orders import DONE, ENABLED, REFUSED, UNKNOWN, ZONE
from inventory.tables import audit_log
from tests.unit.benchmarks.forged import Forger

OFF, ON = {"disabled": True}, {"disabled": False}


@pytest.fixture
def order(forger: Forger) -> Callable[..., None]:
    """Return what writes an order of an operator about the host alpha."""
    forger.ordered("alpha", ENABLED, True, began=0, at=0)
    forger.ordered("alpha", ZONE, "nova", began=0, at=0)

    def write(command: str, what: str, value: Any, outcome: str = DONE) -> None:
        forger.ordered("alpha", what, value, operator="op", command=command, outcome=outcome)

    return write


@pytest.fixture
def entry(forger: Forger) -> Callable[..., None]:
    """Return what writes an entry."""

    def write(command: str, name: str, before: Any, after: Any, operator: str = "op") -> None:
        forger.insert(
            audit_log,
            changed_at=datetime(2026, 1, 1),
            **{"operator": operator, "machine": "m", "command": command, "kind": "k"},
            **{"name": name, "hosts": "[]"},
            **{"before": json.dumps(before), "after": json.dumps(after)},
        )

    return write


def test_what_was_done_is_in_the_log_once(order: Any, entry: Any, check: Any) -> None:
    order("1", ENABLED, False)
    order("2", ENABLED, True)
    order("3", ZONE, "east", REFUSED)
    order("4", ZONE, "east")
    order("5", ZONE, "nova")
    entry("1", "alpha", ON, OFF)
    entry("2", "alpha", OFF, ON)
    entry("4", "east", {"hosts": []}, {"hosts": ["alpha"]})
    entry("5", "east", {"hosts": ["alpha"]}, {"hosts": []})
    entry("9", "beta", ON, OFF, operator="somebody else")
    assert check() == []


def test_an_order_that_is_not_in_it(order: Any, check: Any) -> None:
    order("1", ENABLED, False)
    expected = "0 entries of an order that was done: host alpha to have enabled False"
    assert check() == [f"audit log: {expected}"]


@pytest.mark.parametrize(("outcome", "number"), [(REFUSED, 1), (DONE, 2), (UNKNOWN, 2)])
def test_too_many_entries(order: Any, entry: Any, check: Any, outcome: str, number: int) -> None:
    order("1", ENABLED, False, outcome)
    for _ in range(number):
        entry("1", "alpha", ON, OFF)
    (found,) = check()
    assert found.startswith(f"audit log: {number} entries of an order that was {outcome}: ")


@pytest.mark.parametrize("number", [0, 1])
def test_of_what_nobody_knows_there_may_be_one(
    order: Any, entry: Any, check: Any, number: int
) -> None:
    order("1", ENABLED, False, UNKNOWN)
    for _ in range(number):
        entry("1", "alpha", ON, OFF)
    # It changes nothing if the first order did.
    order("2", ENABLED, False)
    assert check() == []


def test_an_entry_about_something_else(order: Any, entry: Any, check: Any) -> None:
    order("1", ENABLED, False)
    entry("1", "beta", ON, OFF)
    (found,) = check()
    assert found.startswith("audit log: an entry about beta of an order that was done: ")


def test_an_entry_of_no_order(order: Any, entry: Any, check: Any) -> None:
    order("1", ENABLED, False)
    entry("1", "alpha", ON, OFF)
    entry("7", "alpha", ON, OFF)
    assert check() == ["audit log: an entry of no order: 7 of op"]
