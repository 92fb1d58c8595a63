# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.check_history: each kind of violation is found in a forged history."""

from typing import Any

import pytest

from benchmarks.check_history import main, shortened
from benchmarks.history import Group, Size
from inventory.tables import aggregate_hosts, aggregate_metadata, aggregates, instances, services
from tests.unit.benchmarks.forged import HOSTS, SIZE, Forger

APART, TOGETHER = Group("apart", "anti-affinity"), Group("together", "affinity")
PAIRS = Group("pairs", "anti-affinity", 2)


def test_an_ordinary_history_is_in_order(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.asked("r2", "i2", "i3")
    forger.answered("r2", "ServiceUnavailable")
    forger.asked("r2", "i2", "i3", attempt=2)
    forger.answered("r2", "placed", "alpha", "beta", attempt=2)
    forger.answered("r2", "placed", "alpha", "beta", attempt=1)
    forger.claimed("r2", "i2", "alpha")
    forger.claimed("r2", "i3", "beta")
    forger.asked("r3", "i4")
    forger.answered("r3", "NoValidHost")
    assert check("--placed", "3") == []


def test_the_summary_says_what_was_looked_at(
    forger: Forger, capsys: pytest.CaptureFixture[str]
) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.asked("r2", "i2")
    forger.answered("r2", "NoValidHost")
    assert main([str(forger.log), "--database", forger.url]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 requests in 2 attempts: 1 instances placed, 1 requests refused; 1 pending claims on 2"
        " nodes",
        "0 violations",
    ]


def test_a_request_that_nobody_answered(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "ServiceUnavailable")
    forger.asked("r1", "i1", attempt=2)
    # It may be claimed for: the answer may be lost.
    forger.claimed("r1", "i1", "alpha")
    assert check() == ["unanswered: request r1 after 2 attempts"]


def test_refusals_that_are_none(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "KeyError")
    assert check() == ["failure: request r1 got KeyError: why"]


def test_in_a_calm_everything_is_answered_at_once(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "ServiceUnavailable")
    forger.asked("r1", "i1", attempt=2)
    forger.answered("r1", "NoValidHost", attempt=2)
    assert check() == []
    assert check("--calm") == [
        "asked again: request r1 2 times although nothing was broken",
        "failure: request r1 got ServiceUnavailable: why",
    ]


def test_two_answers_to_one_request(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.answered("r1", "placed", "beta")
    (found,) = check()
    assert found.startswith("two answers: request r1 got ")
    assert "placed alpha/alpha" in found
    assert "placed beta/beta" in found


def test_half_of_a_request(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1", "i2")
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "alpha")
    assert check() == ["not all or nothing: request r1 got 1 places for 2 instances"]


def test_not_the_number_that_has_room(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    assert check("--placed", "2") == ["exact capacity: 1 instances are placed, 2 have room"]


@pytest.mark.parametrize(
    ("size", "excess"),
    [
        (Size(5, 1, 1), "vcpu 10 of 8"),
        (Size(1, 2000, 1), "memory_mb 4512 of 4096"),
        (Size(1, 1, 51201), "disk_gb 100.002 of 100"),
    ],
)
def test_double_bookings(forger: Forger, check: Any, size: Size, excess: str) -> None:
    forger.placed("r1", "i1", "alpha", size=size)
    forger.placed("r2", "i2", "alpha", size=size)
    assert check() == [
        f"double booking: host alpha node alpha {excess}: i1, i2",
        f"over the limit: host alpha node alpha {excess}",
    ]


def test_a_double_booking_that_the_database_knows_nothing_of(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha", size=Size(5, 1, 1))
    forger.asked("r2", "i2", size=Size(5, 1, 1))
    forger.answered("r2", "placed", "alpha")
    assert check() == [
        "double booking: host alpha node alpha vcpu 10 of 8: i1, i2",
        "not claimed: instance i2 of request r2 was placed on host alpha and has no claim",
    ]


@pytest.mark.parametrize(
    ("group", "hosts", "others"),
    [
        (APART, ["alpha", "alpha"], ["alpha", "beta"]),
        (TOGETHER, ["alpha", "beta"], ["beta", "beta"]),
        (PAIRS, ["beta", "beta", "beta"], ["beta", "beta", "alpha"]),
    ],
)
def test_groups(
    forger: Forger, check: Any, group: Group, hosts: list[str], others: list[str]
) -> None:
    # Another one that holds, which must not be counted with it.
    right = Group("right", group.policy, group.most)
    small = Size(1, 1, 1)
    for number, host in enumerate(others):
        forger.placed(f"o{number}", f"j{number}", host, group=right, size=small)
    assert check() == []
    for number, host in enumerate(hosts):
        forger.placed(f"r{number}", f"i{number}", host, group=group, size=small)
    violation, rows = check()
    assert violation.startswith(f"group broken: {group.policy} group {group.uuid} on ")
    assert rows.startswith(f"group broken: {group.policy} group {group.uuid} has claims: ")


def test_a_claim_that_is_lost(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "alpha")
    assert check() == [
        "not claimed: instance i1 of request r1 was placed on host alpha and has no claim"
    ]


def test_a_claim_in_another_place(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "beta")
    (found,) = check()
    assert found.startswith("claimed elsewhere: instance i1 of request r1 was placed on host alpha")


def test_a_claim_of_another_size(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "alpha", Size(2, 1024, 10240))
    (found,) = check()
    assert found.startswith("wrong size: instance i1 of request r1")


def test_claims_that_nobody_knows_of(forger: Forger, check: Any) -> None:
    forger.claimed("r1", "i1", "alpha")
    forger.asked("r2", "i2")
    forger.answered("r2", "NoValidHost")
    forger.claimed("r2", "i2", "beta")
    nobody, refused = check()
    assert nobody.startswith("claimed for nobody: claim 1 (pending) of instance i1")
    assert refused.startswith("claimed and refused: claim 2 (pending) of instance i2")


def test_two_pending_claims_of_one_instance(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.claimed("r1", "i1", "beta", slot=5)
    assert check() == ["pending twice: instance i1 has 2 pending claims"]


def test_a_claim_on_a_node_that_is_gone(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "gamma")
    forger.claimed("r1", "i1", "gamma")
    (found,) = check()
    assert found.startswith("claim on no node: claim 1 (pending) of instance i1 on host gamma")


@pytest.mark.parametrize(
    "column",
    [
        "vcpus_used",
        "memory_mb_used",
        "disk_mb_used",
        "local_gb_used",
        "free_ram_mb",
        "free_disk_gb",
        "claims",
    ],
)
def test_usage_that_is_not_what_is_there(forger: Forger, check: Any, column: str) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.execute(f"UPDATE compute_nodes SET {column} = {column} + 1 WHERE host = 'beta'")
    (found,) = check()
    assert found.startswith(f"usage: host beta node beta has {column} = ")


def test_guests_count_and_their_confirmed_claims_do_not(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "alpha")
    forger.claimed("r1", "i1", "alpha", state="confirmed", slot=1)
    seen = {"uuid": "i1", "host": "alpha", "node": "alpha", "vcpus": 2, "memory_mb": 1024}
    forger.insert(instances, **seen, root_gb=10, ephemeral_gb=0, swap_mb=100)
    forger.count("alpha", SIZE)
    assert check() == []
    assert check("--after-leases") == []


def test_alternates_count_and_are_nobodys_place(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.claimed("r1", "i1", "beta", state="alternate", slot=-2)
    assert check() == []


def test_what_is_left_after_the_leases(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    (found,) = check("--after-leases")
    assert found.startswith("leaked: claim 1 (pending) of instance i1 on host alpha")


def test_claims_that_ended_in_order(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1")
    forger.answered("r1", "placed", "alpha")
    assert check("--after-leases") == []


def test_standbys_count_by_the_largest_failure_domain(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "beta", protected=True)
    forger.standby("i1", "beta", "alpha", "rack1")
    forger.standby("i2", "beta", "alpha", "rack1,feed2")
    forger.standby("i3", "beta", "alpha", "rack3", Size(5, 1, 1))
    assert len(check()) == 6
    forger.count("alpha", Size(5, 2 * SIZE.memory_mb, 2 * SIZE.disk_mb))
    assert check() == []
    _claim, *rest = check("--after-leases")
    assert [each.partition(",")[0] for each in rest] == [
        *(f"leaked: standby {number} of instance i{number - 1}" for number in (2, 3, 4))
    ]


def test_a_protected_instance_that_lacks_a_row(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha", protected=True)
    (found,) = check()
    assert found.startswith("not protected: instance i1 of request r1 was placed on host alpha")


def test_standbys_that_could_not_be_taken(forger: Forger, check: Any) -> None:
    forger.standby("i1", "beta", "alpha", "rack1", Size(9))
    forger.count("alpha", Size(9))
    (found,) = check()
    assert found == "standby in vain: standbys on host alpha have no room: vcpu 9 of 8"
    for number, host in enumerate(HOSTS, 1):
        forger.insert(aggregates, id=number, uuid=host, name=host)
        forger.insert(aggregate_hosts, aggregate_id=number, host=host)
        forger.insert(aggregate_metadata, aggregate_id=number, key="failure_domain", value="rack1")
    one_domain, _ = check()
    assert one_domain.endswith("is on alpha for beta, in one failure domain")
    forger.insert(
        services, uuid="s1", host="alpha", binary="nova-compute", topic="compute", forced_down=True
    )
    dead, _ = check()
    assert dead.endswith("is on alpha, which is dead")


def test_a_member_where_another_one_has_its_standby(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha", group=APART, protected=True)
    forger.standby("i1", "alpha", "beta", "rack1")
    forger.count("beta", SIZE)
    assert check() == []
    forger.placed("r2", "i2", "beta", group=APART)
    assert check() == ["standby beside a member: group apart: i1 on beta, i2 on beta"]


def test_an_evacuation_that_was_promised_and_refused(forger: Forger, check: Any) -> None:
    forger.placed("r1", "i1", "alpha")
    forger.asked("r2", "i1", promised=True)
    forger.answered("r2", "NoValidHost")
    assert check() == ["promise broken: request r2 was refused: why"]


def test_an_instance_that_has_ended_needs_no_claim(forger: Forger, check: Any) -> None:
    forger.asked("r1", "i1", "i2")
    forger.answered("r1", "placed", "alpha", "beta")
    forger.claimed("r1", "i1", "alpha")
    assert len(check()) == 1
    forger.left("r1", "i2")
    assert check() == []


def test_what_nodes_keep_for_themselves_may_be_given(forger: Forger, check: Any) -> None:
    forger.execute(
        "UPDATE compute_nodes SET vcpus_used = 1, memory_mb_used = 600, free_ram_mb = 3496,"
        " disk_mb_used = 1, local_gb_used = 1, free_disk_gb = 99"
    )
    assert check("--reserved", "1,600,1") == []
    assert len(check()) == 12


def test_long_lists_are_cut_by_kind() -> None:
    violations = [*(f"leaked: {number}" for number in range(7)), "usage: 1"]
    assert [*shortened(violations, 2)] == [
        "leaked: 0",
        "leaked: 1",
        "leaked: and 5 more",
        "usage: 1",
    ]
