# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a node reserves is what Nova says is used without its instances, though it counts late."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.audit import usage
from compute_agent.virt.driver import Guest, Move, NodeName, Size
from compute_agent.virt.nova import node_facts
from compute_agent.virt.nova.reserves import MOVE_SETTLED, SETTLED, Reserve
from tests.nova_tables import a_node

H1, H2 = NodeName("h1", "h1"), NodeName("h2", "h2")
AMOUNT = st.integers(0, 1000)
GUESTS = st.builds(
    Guest,
    uuid=st.uuids().map(str),
    name=st.just("vm"),
    **dict.fromkeys(("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap_mb"), AMOUNT),
)
SIZES = st.builds(Size, AMOUNT, AMOUNT, AMOUNT)
ONE, TWO = (Guest(name, "vm", 2, 1024) for name in ("one", "two"))


class Node:
    """One that reserves memory, and what was found of that."""

    def __init__(self, *guests: Guest, used: int) -> None:
        self.reserve = Reserve()
        self.now = 0.0
        self.find(used, *guests)

    def find(self, used: int, *guests: Guest, moves: tuple[Move, ...] = ()) -> int:
        size = Size(2 * len(guests), used, 0)
        self.reserve.update(H1, size, guests, moves, self.now)
        return self.reserve.size.memory_mb


@given(st.lists(GUESTS, max_size=4, unique_by=lambda each: each.uuid), SIZES, st.booleans())
def test_the_audit_counts_what_novas_row_says(
    guests: list[Guest], old: Size, incoming: bool
) -> None:
    """Whatever is on a node, and whatever else Nova has counted there."""
    move = Move("m", H2, H1, Size(), old) if incoming else Move("m", H1, H2, old, Size())
    values = {"vcpus_used": 9000, "memory_mb_used": 90_000, "local_gb_used": 9000}
    row = SimpleNamespace(**a_node("h1", **values))
    reserve = Reserve()
    for now in (0.0, MOVE_SETTLED):
        reserve.update(H1, node_facts.used(row), guests, [move], now)
    taken = [reserve.size, old]
    facts = SimpleNamespace(vcpus=16, memory_mb=65536, local_gb=1000, disk_available_least=None)
    columns = usage.count(facts, guests, taken)  # type: ignore[arg-type]
    assert {name: columns[name] for name in values} == values


def test_at_first_all_that_does_nothing_was_counted() -> None:
    assert Node(ONE, TWO, used=2048 + 512).reserve.size.memory_mb == 512
    assert Node(ONE, TWO, used=2048 + 512).reserve.is_settled


@pytest.mark.parametrize("states", [{"task_state": "spawning"}, {"vm_state": "building"}])
def test_at_first_what_comes_may_have_been_counted_or_not(states: dict[str, str]) -> None:
    coming = Guest("one", "vm", 2, 1024, **states)
    for used in (512, 1024 + 512):
        node = Node(coming, used=used)
        assert not node.reserve.is_settled
        assert node.reserve.size.memory_mb == 512


def test_at_first_an_instance_that_nova_has_not_counted_makes_no_room() -> None:
    """Its room would be promised twice: once to it, and once by a reserve below zero."""
    node = Node(ONE, TWO, used=1024)
    assert node.reserve.size.memory_mb == 0
    assert node.find(2048, ONE, TWO) == 0
    node.now += SETTLED
    assert node.find(2048, ONE, TWO) == 0


def test_a_reserve_that_stays_below_zero_is_found() -> None:
    node = Node(ONE, TWO, used=1024)
    node.now += SETTLED
    assert node.find(1024, ONE, TWO) == -1024


def test_what_nova_counts_late_is_no_reserve() -> None:
    node = Node(ONE, used=1024 + 512)
    assert node.find(1024 + 512, ONE, TWO) == 512
    assert node.find(2048 + 512, ONE, TWO) == 512
    assert node.find(2048 + 512, TWO) == 512
    assert node.find(1024 + 512, TWO) == 512
    assert node.find(1024 + 512) == 512
    assert not node.reserve.is_settled
    node.now += SETTLED
    assert node.find(512) == 512
    assert node.reserve.is_settled


def test_what_is_found_at_once_and_what_when_nova_has_counted() -> None:
    node = Node(ONE, used=1024 + 512)
    # Raised by more than what comes, or by less.
    assert node.find(1024 + 1024 + 4096, ONE, TWO) == 4096
    assert node.find(1024 + 1024 + 4100, ONE, TWO) == 4100
    # It is lower, or larger and what has come was not counted yet.
    assert node.find(1024 + 1024 + 4000, ONE, TWO) == 4000 + 1024
    node.now += SETTLED
    assert node.find(1024 + 1024 + 4000, ONE, TWO) == 4000


@pytest.mark.parametrize("raised", [1, 512, 1020])
@pytest.mark.parametrize("lag", [0, 1])
def test_a_raised_reserve_is_found_while_instances_go_one_after_another(
    raised: int, lag: int
) -> None:
    """Nova counts a departure at once or with the next one; there is never a settled moment."""
    guests = [Guest(str(number), "vm", 2, 1024) for number in range(9)]
    node = Node(*guests, used=9 * 1024 + 512)
    for left in range(8, 0, -1):
        node.now += SETTLED / 2
        used = (left + lag) * 1024 + 512 + (raised if left < 7 else 0)
        found = node.find(used, *guests[:left])
        assert not node.reserve.is_settled
        assert (512 + raised if left < 7 else 512) <= found <= 512 + raised + lag * 1024


def test_a_size_that_changes_twice_may_have_been_counted_as_any() -> None:
    node = Node(ONE, used=1024 + 512)
    for size in (2048, 4096):
        assert node.find(1024 + 512, Guest("one", "vm", 2, size)) == 512
    assert node.find(2048 + 512, Guest("one", "vm", 2, 4096)) == 512
    assert node.find(4096 + 512, Guest("one", "vm", 2, 4096)) == 512


def test_a_move_is_counted_by_the_next_audits_of_its_destination() -> None:
    node, coming = Node(used=512), Size(2, 1024, 0)
    moves = (Move("one", H2, H1, coming, coming),)
    for used in (512, 1024 + 512):
        assert node.find(used, moves=moves) == 512
        node.now += SETTLED
    # It takes the same when it has come.
    assert node.find(1024 + 512, ONE) == 512
    assert node.reserve.is_settled


@given(
    st.integers(-100, 1000),
    st.lists(st.tuples(st.floats(0.0, 30.0), st.sets(st.integers(0, 5))), max_size=8),
    st.data(),
)
def test_a_constant_reserve_is_found_whatever_nova_has_counted_lately(
    reserved: int, steps: list[tuple[float, set[int]]], data: st.DataObject
) -> None:
    """Of each instance it may have counted any state that is not older than some seconds."""
    guests = [Guest(str(number), "vm", 0, 1 << number) for number in range(6)]
    node = Node(used=reserved)
    history: list[tuple[float, set[int]]] = [(0.0, set())]
    for pause, here in steps:
        node.now += pause
        history.append((node.now, here))
        # The state at the beginning of the window, and all later ones.
        first = max(n for n, (at, _) in enumerate(history) if n == 0 or node.now - at >= SETTLED)
        states = [each for _, each in history[first:]]
        counted = [number for number in range(6) if number in data.draw(st.sampled_from(states))]
        used = reserved + sum(1 << number for number in counted)
        # Less than nothing is believed once Nova has counted all instances.
        found = node.find(used, *(guests[number] for number in here))
        assert reserved <= found <= max(0, reserved)
    # A sum of floats may be a bit less than SETTLED later.
    node.now += SETTLED + 1
    last = history[-1][1]
    raised = reserved + sum(1 << number for number in last) + 7
    assert node.find(raised, *(guests[number] for number in last)) == reserved + 7
