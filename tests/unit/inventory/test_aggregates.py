# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregates by their names, ids and uuids, and the zones of their hosts."""

from typing import Any

import pytest

from inventory import aggregates
from inventory.aggregates import AggregateRecord
from inventory.errors import Malformed, NotFound
from tests.databases import a_uuid, execute, migrated


def a_record(number: int, name: str, *hosts: str, **metadata: Any) -> AggregateRecord:
    return AggregateRecord(number, a_uuid(f"{number} {name}"), name, list(hosts), metadata)


FIRST, SECOND = a_record(1, "north"), a_record(2, "3")
THIRD, FOURTH, FIFTH = a_record(3, "North"), a_record(4, "NORTH"), a_record(5, "south")
ALL = [FIRST, SECOND, THIRD, FOURTH, FIFTH]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("north", FIRST),
        ("North", THIRD),
        (" NORTH ", FOURTH),
        ("SOUTH", FIFTH),
        ("2", SECOND),
        (SECOND.uuid, SECOND),
        (f" {THIRD.uuid.upper()}", THIRD),
    ],
)
def test_the_nearest_spelling_of_a_name_an_id_or_a_uuid(text, expected):
    assert aggregates.find(ALL, text) is expected


@pytest.mark.parametrize(("text", "several"), [("nOrth", "134"), ("3", "23")])
def test_what_stands_for_several_stands_for_none(text, several):
    with pytest.raises(Malformed) as caught:
        aggregates.find(ALL, text)
    for record in ALL:
        assert (f"(id {record.id}, uuid {record.uuid})" in str(caught.value)) == (
            str(record.id) in several
        )


def test_an_aggregate_called_like_its_id_is_one():
    only = a_record(7, "7")
    assert aggregates.find([*ALL, only], "7") is only


@pytest.mark.parametrize("text", ["", "6", "nort", "03"])
def test_what_there_is_none_of(text):
    with pytest.raises(NotFound, match="there is no aggregate"):
        aggregates.find(ALL, text)


@pytest.mark.parametrize(
    ("metadata", "zones", "properties"),
    [
        ({}, set(), {}),
        ({"availability_zone": "a"}, {"a"}, {}),
        ({"availability_zone": " a,b "}, {"a", "b"}, {}),
        ({"availability_zone": ""}, {""}, {}),
        ({"b": "1", "availability_zone": "a", "a": "2"}, {"a"}, {"a": "2", "b": "1"}),
    ],
)
def test_the_zone_is_metadata_and_no_property(metadata, zones, properties):
    record = a_record(1, "any", **metadata)
    assert (record.zones, record.properties) == (zones, properties)
    assert list(record.properties) == sorted(properties)


def test_hosts_have_the_zones_of_all_their_aggregates():
    records = [
        a_record(1, "a", "h1", "h2", availability_zone="x"),
        a_record(2, "b", "h2", "h3", ssd="1"),
        a_record(3, "c", "h1", availability_zone="y"),
    ]
    assert aggregates.zones_by_host(records) == {"h1": {"x", "y"}, "h2": {"x"}, "h3": set()}


def test_what_is_left_of_an_aggregate_that_was_deleted_by_hand_does_not_count(tmp_path):
    database = migrated(tmp_path)
    for name in ("gone", "here"):
        database.write(lambda c, name=name: aggregates.create(c, name, ["h1"], {"of": name}))
    execute(database, "DELETE FROM aggregates WHERE name = 'gone'")
    (only,) = database.read(aggregates.everything)
    assert (only.name, only.hosts, only.metadata) == ("here", ["h1"], {"of": "here"})
    database.close()
