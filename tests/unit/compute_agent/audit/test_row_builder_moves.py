# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Instances on the move are kept room at the end that their row does not name."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.audit.moves import Room, room_for_migrations
from compute_agent.virt.driver import Guest, Move, NodeName, Size
from tests.fixtures.agent import a_guest

HERE, THERE, ELSEWHERE = NodeName("a", "a"), NodeName("b", "b"), NodeName("c", "c")
SMALL, LARGE = Size(1, 2048, 10240), Size(2, 4096, 20480)
# Guests of these sizes.
AS_SMALL = {"vcpus": 1, "memory_mb": 2048, "root_gb": 10}
AS_LARGE = {"vcpus": 2, "memory_mb": 4096, "root_gb": 20}
GUEST = a_guest(1, **AS_SMALL)
UUID = GUEST.uuid


def a_move(
    source: NodeName | None = HERE,
    destination: NodeName | None = THERE,
    old: Size = SMALL,
    new: Size = LARGE,
    uuid: str = UUID,
) -> Move:
    return Move(uuid, source, destination, old, new)


def room(move: Move, instance: Guest | None = None, node: NodeName = HERE) -> list[Size]:
    found = room_for_migrations(node, [move], {UUID: instance} if instance else {})
    return [each.size for each in found]


def test_one_that_comes_is_kept_room_as_it_will_be() -> None:
    assert room(a_move(THERE, HERE)) == [LARGE]


def test_one_that_went_is_kept_room_as_it_was() -> None:
    assert room(a_move(HERE, THERE)) == [SMALL]


@pytest.mark.parametrize("ends", [(HERE, THERE), (THERE, HERE), (HERE, None)])
def test_one_that_counts_here_is_kept_none_besides(
    ends: tuple[NodeName | None, NodeName | None],
) -> None:
    assert room(a_move(*ends), GUEST) == []


@pytest.mark.parametrize("ends", [(THERE, ELSEWHERE), (None, THERE), (None, None)])
def test_one_that_passes_elsewhere_is_kept_none(
    ends: tuple[NodeName | None, NodeName | None],
) -> None:
    assert room(a_move(*ends)) == []


def test_a_resize_in_place_counts_both_sizes() -> None:
    assert room(a_move(HERE, HERE), GUEST) == [LARGE]
    assert room(a_move(HERE, HERE), a_guest(1, **AS_LARGE)) == [SMALL]
    # Without an instance there is only the room that it will take.
    assert room(a_move(HERE, HERE)) == [LARGE]


def test_a_resize_in_place_of_neither_size_is_kept_the_larger_of_each() -> None:
    from_volume = a_guest(1, vcpus=2, memory_mb=4096, root_gb=0)
    tall, wide = Size(1, 8192, 1024), Size(4, 512, 2048)
    assert room(a_move(HERE, HERE, tall, wide), from_volume) == [Size(4, 8192, 2048)]


def test_a_migration_in_place_of_an_equal_size_counts_twice() -> None:
    assert room(a_move(HERE, HERE, SMALL, SMALL), GUEST) == [SMALL]


def test_of_several_moves_of_an_instance_the_first_counts() -> None:
    moves = [a_move(THERE, HERE), a_move(HERE, THERE)]
    assert list(room_for_migrations(HERE, moves, {})) == [Room(LARGE)]
    assert list(room_for_migrations(HERE, moves[::-1], {})) == [Room(SMALL)]
    # The newest one leads elsewhere: then the others are of no matter anywhere.
    assert list(room_for_migrations(HERE, [a_move(THERE, ELSEWHERE), *moves], {})) == []


def test_hosts_may_have_nodes_of_the_same_name() -> None:
    namesake = NodeName("other", "a")
    assert room(a_move(THERE, namesake)) == []
    assert room(a_move(THERE, namesake), node=namesake) == [LARGE]


ENDS = st.sampled_from([HERE, THERE, ELSEWHERE, None])
SIZES = st.builds(Size, st.integers(1, 4), st.integers(1, 4), st.integers(0, 4))
MOVES = st.builds(Move, st.uuids().map(str), ENDS, ENDS, SIZES, SIZES)


@given(st.lists(MOVES, unique_by=lambda move: move.instance_uuid, max_size=6), st.randoms())
def test_moves_of_different_instances_may_come_in_any_order(
    moves: list[Move], random: Random
) -> None:
    def total(found: list[Move]) -> list[int]:
        sizes = [each.size for each in room_for_migrations(HERE, found, {})]
        return [sum(getattr(each, name) for each in sizes) for name in Size.__slots__]

    shuffled = list(moves)
    random.shuffle(shuffled)
    assert total(shuffled) == total(moves)
