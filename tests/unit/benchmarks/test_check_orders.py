# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.check_orders: placements against the outcomes that operators saw."""

from datetime import datetime
from typing import Any

import pytest

from benchmarks.orders import DONE, ENABLED, REFUSED, UNKNOWN, ZONE
from tests.unit.benchmarks.forged import Forger


@pytest.fixture(autouse=True)
def hosts(forger: Forger) -> None:
    """Two hosts, each in a zone of its own, and enabled."""
    for host, zone in (("alpha", "east"), ("beta", "west")):
        forger.ordered(host, ZONE, zone, began=0, at=0)
        forger.ordered(host, ENABLED, True, began=0, at=0)


def test_placements_in_their_zones_on_enabled_hosts(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha", zone="east")
    forger.placed("r2", "i2", "beta")
    forger.ordered("alpha", ZONE, "west")
    forger.placed("r3", "i3", "alpha", zone="west")
    assert check() == []


def test_a_placement_in_a_zone_that_the_host_has_left(forger: Forger, check: Any) -> None:
    forger.ordered("alpha", ZONE, "west")
    forger.placed("r1", "i1", "alpha", zone="east")
    assert check() == ["out of zone east: instance i1 of request r1 on host alpha"]


def test_a_placement_in_a_zone_that_the_host_only_joined_later(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha", zone="west")
    forger.ordered("alpha", ZONE, "west")
    assert check() == ["out of zone west: instance i1 of request r1 on host alpha"]


def test_a_placement_on_a_disabled_host(forger: Forger, check: Any) -> None:
    forger.ordered("alpha", ENABLED, False)
    forger.placed("r1", "i1", "alpha")
    assert check() == ["on a disabled host: instance i1 of request r1 on host alpha"]


def test_what_was_ordered_before_the_claim_holds_for_a_request_that_was_sent_before(
    forger: Forger, check: Any
) -> None:
    forger.asked("r1", "i1", zone="east")
    forger.ordered("alpha", ZONE, "west", began=2, at=3)
    forger.claimed("r1", "i1", "alpha", created_at=datetime(1970, 1, 1, 0, 0, 4))
    forger.ordered("beta", ZONE, "east")
    forger.ordered("beta", ZONE, "west")
    forger.answered("r1", "placed", "alpha")
    assert check("--calm") == ["out of zone east: instance i1 of request r1 on host alpha"]
    # Where somebody may have waited for the database the claim may have been made before.
    assert check() == []


def test_an_answer_that_nobody_waited_for_counts_too(forger: Forger, check: Any) -> None:
    forger.asked("r0", "i0", zone="east")
    forger.unanswered("r0")
    forger.asked("r0", "i0", zone="east", attempt=2)
    forger.answered("r0", "placed", "beta", attempt=1)
    forger.answered("r0", "placed", "beta", attempt=2)
    forger.claimed("r0", "i0", "beta")
    assert check() == ["out of zone east: instance i0 of request r0 on host beta"] * 2


def test_what_is_ordered_while_a_request_is_decided_may_come_first_or_last(
    forger: Forger, check: Any
) -> None:
    forger.asked("r1", "i1", zone="west")
    forger.asked("r2", "i2", zone="east")
    forger.ordered("alpha", ZONE, "west")
    forger.answered("r1", "placed", "alpha")
    forger.answered("r2", "placed", "alpha")
    for request, uuid in (("r1", "i1"), ("r2", "i2")):
        forger.claimed(request, uuid, "alpha")
    assert check() == []


def test_an_order_is_in_force_from_its_beginning_or_from_its_end(
    forger: Forger, check: Any
) -> None:
    forger.asked("r1", "i1", zone="west")
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "alpha")
    forger.asked("r2", "i2", zone="east")
    forger.answered("r2", "placed", "alpha")
    forger.claimed("r2", "i2", "alpha")
    # It began before the first and ended after the second.
    forger.ordered("alpha", ZONE, "west", began=0.5, at=100)
    assert check() == []


@pytest.mark.parametrize(("outcome", "zones"), [(REFUSED, ["west"]), (UNKNOWN, [])])
def test_what_an_order_does_that_is_not_done(
    forger: Forger, check: Any, outcome: str, zones: list[str]
) -> None:
    forger.ordered("alpha", ZONE, "west", outcome=outcome)
    forger.placed("r1", "i1", "alpha", zone="east")
    forger.placed("r2", "i2", "alpha", zone="west")
    assert check() == [
        f"out of zone {zone}: instance i2 of request r2 on host alpha" for zone in zones
    ]


def test_the_next_order_ends_what_is_unknown(forger: Forger, check: Any) -> None:
    forger.ordered("alpha", ZONE, "west", outcome=UNKNOWN)
    forger.ordered("alpha", ZONE, "nova", outcome=DONE)
    forger.placed("r1", "i1", "alpha", zone="west")
    forger.placed("r2", "i2", "alpha", zone="east")
    assert check() == [
        "out of zone west: instance i1 of request r1 on host alpha",
        "out of zone east: instance i2 of request r2 on host alpha",
    ]


def test_an_order_that_had_to_be_refused(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha", zone="east")
    forger.ordered("beta", ZONE, "east", forced=False)
    forger.ordered("alpha", ZONE, "west", forced=True)
    forger.ordered("alpha", ZONE, "nova", forced=False)
    (found,) = check()
    assert found.startswith("order over claims: host alpha to have zone nova at ")
    assert found.endswith("with 1 instances there")


def test_in_a_calm_no_order_is_lost(forger: Forger, check: Any) -> None:
    forger.ordered("alpha", ZONE, "west", outcome=UNKNOWN, reason="Deadlock found")
    assert check() == []
    (found,) = check("--calm")
    assert found.startswith("order lost: host alpha to have zone west at ")
    assert found.endswith(": Deadlock found")
