# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Frames show the table as it was at each decision, whatever has happened to it since."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.decision import film as films
from scheduler.decision.columns import NUMBERS, OBJECTS
from scheduler.decision.film import COLUMNS, Film, Frame, Part, last_picture
from scheduler.decision.journal import MOST
from tests.contract.drawn.drawn_lives import lives
from tests.hosts import a_host, a_table

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def contents(table):
    """Return all that decisions can see of a table, to the very bit."""
    numbers = {name: getattr(table, name).tobytes() for name in NUMBERS}
    objects = {name: [repr(table.get(row, name)) for row in range(table.size)] for name in OBJECTS}
    places = {row: (table.get(row, "host"), table.get(row, "nodename")) for row in table.rows()}
    residents = [
        [(uuid, repr(each)) for uuid, each in table.residents.on(row).items()]
        for row in range(table.size)
    ]
    rest = table.size, len(table), table.moment, table.numa_packing, table.present.tolist()
    return numbers, objects, dict(sorted(places.items())), residents, rest


@settings(max_examples=60, suppress_health_check=SLOW)
@given(lives(), st.integers(2, 5))
def test_each_frame_shows_the_table_as_it_was(life, count):
    film, taken = Film(), []
    for _ in range(count):
        life.happen()
        taken.append((film.take(life.table), contents(life.table)))
    frames = [frame for frame, _ in taken]
    for number, (_, before) in enumerate(taken):
        assert contents(last_picture(frames[: number + 1])) == before


def a_fleet():
    table = a_table(a_host("h1"), a_host("h2"), a_host("h3"))
    table.set_moment(5.0)
    return table


def test_a_further_frame_has_what_has_changed_and_no_more():
    table, film = a_fleet(), Film()
    first = film.take(table)
    assert (first.reel, first.number, first.size) == (1, 0, 3)
    assert {*first.columns} == {*COLUMNS}
    assert first.residents == {0: {}, 1: {}, 2: {}}
    table.set(1, "free_ram_mb", 5)
    table.set(1, "cell_uuid", "c1")
    table.set_moment(7.0)
    frame = film.take(table)
    assert (frame.reel, frame.number, frame.moment) == (1, 1, 7.0)
    assert frame.columns == {"free_ram_mb": Part([1], [5]), "cell_uuid": Part([1], ["c1"])}
    assert frame.residents == {}
    assert film.take(table).columns == {}


def test_a_column_that_was_written_too_often_to_tell_where_is_taken_as_a_whole():
    table, film = a_fleet(), Film()
    frames = [film.take(table)]
    for number in range(2 * MOST):
        table.set(number % 2, "free_ram_mb", number)
        table.set(number % 2, "metrics", [number])
    frames.append(film.take(table))
    parts = {name: (part.rows, [*part.values]) for name, part in frames[1].columns.items()}
    assert parts == {
        "free_ram_mb": (None, [8190, 8191, 65536]),
        "metrics": (None, [[8190], [8191], None]),
    }
    table.set(0, "free_ram_mb", 1)
    assert contents(last_picture(frames)) != contents(table)
    frames.append(film.take(table))
    assert contents(last_picture(frames)) == contents(table)


def test_a_film_begins_anew_when_it_is_long_or_somebody_wishes_so(monkeypatch):
    monkeypatch.setattr(films, "MOST_FRAMES", 3)
    table, film = a_fleet(), Film()
    taken = [film.take(table) for _ in range(4)]
    assert [(each.reel, each.number) for each in taken] == [(1, 0), (1, 1), (1, 2), (2, 0)]
    film.begin_anew()
    film.begin_anew()
    table.remove(0)
    frame = film.take(table)
    assert (frame.reel, frame.number) == (3, 0)
    assert contents(last_picture([frame])) == contents(table)
    assert film.take(table).number == 1


def test_a_row_without_a_host_stays_one():
    table = a_fleet()
    table.remove(1)
    film = Film()
    frames = [film.take(table)]
    found = last_picture(frames)
    assert found.present.tolist() == [True, False, True]
    assert found.row_of("h3", "h3") == 2
    row = table.add("h4", "n")
    frames.append(film.take(table))
    assert last_picture(frames).row_of("h4", "n") == row == 1


NAMES = ("host", "nodename")


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([], "the film is empty"),
        ([Frame(1, 1, 0, 0.0)], "frame 0 of the film is missing, 1 is there"),
        ([Frame(1, 0, 0, 0.0), Frame(1, 2, 0, 0.0)], "frame 1 of the film is missing, 2 is there"),
        ([Frame(1, 0, 0, 0.0), Frame(2, 1, 0, 0.0)], "frame 1 is of another film"),
        ([Frame(1, 0, 1, 0.0), Frame(1, 1, 0, 0.0)], "frame 1 has fewer rows than the one before"),
        ([Frame(1, 0, 2, 0.0, columns={"free_ram_mb": Part(None, [1])})], "zip"),
        (
            [Frame(1, 0, 2, 0.0, columns={each: Part(None, ["h", "h"]) for each in NAMES})],
            "two rows are of the same node",
        ),
    ],
)
def test_frames_that_do_not_belong_together_are_refused(frames, complaint):
    with pytest.raises(ValueError, match=complaint):
        last_picture(frames)


def test_what_a_frame_says_nothing_about_is_unset():
    names = {name: Part(None, ["h"]) for name in NAMES}
    found = last_picture([Frame(1, 0, 1, 0.0, columns=names)])
    assert found.get(0, "cell_uuid") is None
    assert found.get(0, "cpu_allocation_ratio") is None
    assert np.isnan(found.last_seen[0])
    assert found.get(0, "free_ram_mb") == 0
