# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.check_answers: what becomes of instances that are rescheduled."""

from typing import Any

import pytest

from benchmarks import history
from benchmarks.history import Size
from tests.unit.benchmarks.forged import Forger


def test_an_instance_counts_where_it_was_placed_last(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1", size=Size(8, 1, 1))
    forger.answered("r1", "placed", "alpha")
    forger.placed("r2", "i2", "alpha", size=Size(8, 1, 1))
    forger.placed("r1", "i1", "beta", size=Size(8, 1, 1), build=2)
    assert check() == []


def test_a_reschedule_that_is_refused_gives_back_the_claim_before_it(
    forger: Forger, check: Any
) -> None:
    forger.asked("r1", "i1", size=Size(8, 1, 1))
    forger.answered("r1", "placed", "alpha")
    forger.asked("r1", "i1", build=2)
    forger.answered("r1", "NoValidHost", build=2)
    forger.placed("r2", "i2", "alpha", size=Size(8, 1, 1))
    assert check("--placed", "1") == []
    forger.claimed("r1", "i1", "beta")
    (found,) = check()
    assert found.startswith("claimed and refused: claim 2 (pending) of instance i1 on host beta")
    assert found.endswith("but request r1 build 2 was refused")


@pytest.mark.parametrize(
    "late", [("NoValidHost", "why"), ("InvalidInput", f"Invalid: {history.OUTDATED} of i1")]
)
def test_late_attempts_of_a_build_that_was_given_up(
    forger: Forger, check: Any, late: tuple[str, str]
) -> None:
    outcome, reason = late
    forger.asked("r1", "i1")
    forger.asked("r1", "i1", attempt=2)
    forger.answered("r1", "placed", "alpha", attempt=2)
    forger.placed("r1", "i1", "beta", build=2)
    forger.answered("r1", outcome, reason=reason)
    assert check() == []


@pytest.mark.parametrize("late", [("placed", "beta"), ("InvalidInput",), ("KeyError",)])
def test_late_attempts_that_are_answered_wrongly(
    forger: Forger, check: Any, late: tuple[str, ...]
) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "alpha")
    forger.placed("r1", "i1", "beta", build=2)
    forger.answered("r1", *late)
    assert any(each.startswith("two answers: request r1 got ") for each in check())


def test_what_was_delivered_twice(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.answered("r1", "placed", "alpha")
    assert check() == []
    assert check("--calm") == ["answered again: request r1 although nothing was broken"]
    # One delivery may find no room where the other did, and the other way round.
    forger.answered("r1", "NoValidHost")
    forger.asked("r2", "i2")
    forger.answered("r2", "NoValidHost")
    forger.answered("r2", "placed", "beta")
    forger.claimed("r2", "i2", "beta")
    assert check() == []
    assert check("--after-leases") != []


@pytest.mark.parametrize(
    "again", [("placed", "beta"), ("InvalidInput", f"Invalid: {history.OUTDATED} of i1")]
)
def test_what_was_delivered_twice_and_answered_wrongly(
    forger: Forger, check: Any, again: tuple[str, ...]
) -> None:
    outcome, reason = again
    forger.placed("r1", "i1", "alpha")
    if outcome == "placed":
        forger.answered("r1", outcome, reason)
    else:
        forger.answered("r1", outcome, reason=reason)
    assert any(each.startswith("two answers: request r1 got ") for each in check())


def test_a_refusal_that_nobody_heard_and_a_later_attempt_that_found_room(
    forger: Forger, check: Any
) -> None:
    forger.asked("r1", "i1")
    forger.placed("r1", "i1", "alpha", attempt=2)
    forger.answered("r1", "NoValidHost")
    assert check("--placed", "1") == []


def test_a_refusal_that_was_heard_and_an_earlier_attempt_that_found_room(
    forger: Forger, check: Any
) -> None:
    forger.asked("r1", "i1")
    forger.asked("r1", "i1", attempt=2)
    forger.answered("r1", "NoValidHost", attempt=2)
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "alpha")
    # An orphan, which has to be gone when its lease has ended.
    assert check() == []
    assert check("--after-leases") != []


def test_answers_to_attempts_that_were_given_up_only(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.asked("r1", "i1", attempt=2)
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "alpha")
    assert check() == ["unanswered: request r1 after 2 attempts"]
    forger.unanswered("r1", attempt=2)
    forger.answered("r1", "placed", "alpha", attempt=2)
    assert check() == ["unanswered: request r1 after 2 attempts"]
