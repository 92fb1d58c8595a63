# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: aggregates of Nova's services beside the database's."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from inventory import aggregates, revisions, tables
from inventory.objects.aggregate import Aggregate
from scheduler.host_cache.cache import HostCache
from tests.databases import a_node, a_uuid, execute, save

HOSTS = ("h1", "h2")
ZONE = {"availability_zone": "z1"}
FORGET = "DELETE FROM aggregate"


@pytest.fixture(params=[0, 3600], ids=["reloads", "deltas"])
def cache(request, cloud):
    """Return a cache that has been read and is read again for each look."""
    found = HostCache(cloud, reload_interval=request.param)
    found.refresh()
    return found


def aggregates_of(cache, host):
    with cache.current() as hosts:
        return [each.name for each in hosts.get(hosts.row_of(host, host), "aggregates")]


def an_aggregate(number, *hosts, name="announced", **metadata):
    return Aggregate(number, f"x{number}", name, list(hosts), metadata)


def test_what_was_announced_before_the_first_reading_shows_after_it(cloud):
    cache = HostCache(cloud)
    cache.update_aggregates([an_aggregate(1, "h2")])
    assert aggregates_of(cache, "h2") == ["announced"]


def test_what_was_announced_about_a_host_that_comes_later(cloud, cache):
    cache.update_aggregates([an_aggregate(1, "h3")])
    save(cloud, a_node("h3"))
    assert aggregates_of(cache, "h3") == ["announced"]


def test_casts_are_taken_in_in_the_order_in_which_they_came(cache, monkeypatch):
    """Whoever has the lock first takes in what others wait to say as well."""
    came = []
    monkeypatch.setattr(cache._aggregates, "update", came.append)
    cache._casts.append(lambda: came.append("earlier"))
    cache.update_aggregates("later")
    cache.update_aggregates("last")
    assert came == ["earlier", "later", "last"]


def _casts(cache, number):
    """Tell one thing after the other, as many threads do at the same time."""
    for turn in range(60):
        host = HOSTS[turn % 2]
        aggregate = Aggregate(number, a_uuid(f"a{number}"), "a", [host], {"turn": str(turn)})
        cache.update_aggregates([aggregate])
        cache.mark_host_stale(host)
        cache.forget_instance(host, a_uuid(f"u{turn}"))
        cache.compare_instances(host, [a_uuid(f"u{turn}")])
    if number % 2:
        cache.delete_aggregate(aggregate)


def test_all_casts_at_once_with_readings(cloud):
    cache = HostCache(cloud, max_age=0.01, reload_interval=0.1)
    with ThreadPoolExecutor(8) as pool:
        casting = [pool.submit(_casts, cache, number) for number in range(6)]
        asked = [pool.submit(aggregates_of, cache, "h1") for _ in range(60)]
        for each in (*casting, *asked):
            each.result()
    with cache.current() as hosts:
        found = [{each.id for each in hosts.get(hosts.row_of(h, h), "aggregates")} for h in HOSTS]
    assert found == [set(), {0, 2, 4}]


def test_announced_aggregates_stay_beside_those_of_the_inventory(cloud, cache):
    cloud.write(lambda c: aggregates.create(c, "ours", ["h1"], ZONE))
    cache.update_aggregates([an_aggregate(1, "h1", "h2", "h2", "h9")])
    for _ in range(2):
        assert aggregates_of(cache, "h1") == ["ours", "announced"]
        assert aggregates_of(cache, "h2") == ["announced"]
    cloud.write(lambda c: aggregates.create(c, "new", ["h2"], {}))
    assert aggregates_of(cache, "h2") == ["new", "announced"]
    cache.update_aggregates([an_aggregate(1, "h2", name="smaller")])
    assert aggregates_of(cache, "h1") == ["ours"]
    assert aggregates_of(cache, "h2") == ["new", "smaller"]
    cache.delete_aggregate(an_aggregate(1))
    assert aggregates_of(cache, "h2") == ["new"]


def ours(database):
    """Create an aggregate of h1 in the inventory; return its uuid."""
    database.write(lambda c: aggregates.create(c, "ours", ["h1", "h9"], ZONE))
    return database.read(aggregates.everything)[0].uuid


def everyones(cache):
    return aggregates_of(cache, "h1"), aggregates_of(cache, "h2")


def change(database, statements):
    """Change aggregates as an operator does by hand."""
    for statement in statements.split("; "):
        execute(database, statement)
    database.write(lambda c: revisions.advance(c, revisions.AGGREGATES))


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("INSERT INTO aggregate_hosts VALUES (1, 'h2')", (["ours"], ["ours"])),
        ("INSERT INTO aggregate_metadata VALUES (1, 'k', 'v')", (["ours"], [])),
        ("UPDATE aggregates SET name = 'new' WHERE id = 1", (["new"], [])),
        (f"{FORGET}_hosts; {FORGET}_metadata; DELETE FROM aggregates", ([], [])),
    ],
)
@pytest.mark.parametrize("cast", ["changed", "deleted"])
def test_what_was_announced_of_an_aggregate_counts_until_the_inventory_changes_it(
    cloud, cache, cast, statements, expected
):
    uuid = ours(cloud)
    assert everyones(cache) == (["ours"], [])
    if cast == "changed":
        cache.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    else:
        cache.delete_aggregate(Aggregate(99, uuid))
    theirs = [], ["theirs"] if cast == "changed" else []
    for _ in range(2):
        assert everyones(cache) == theirs
    # Another one changes.
    cloud.write(lambda c: aggregates.create(c, "another", [], {}))
    assert everyones(cache) == theirs
    change(cloud, statements)
    assert everyones(cache) == expected
    cache.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    assert everyones(cache) == ([], ["theirs"])


def test_an_aggregate_that_the_inventory_gets_later_is_as_the_inventory_has_it(cloud, cache):
    cache.update_aggregates([Aggregate(1, a_uuid("a"), "announced", ["h2"])])
    assert everyones(cache) == ([], ["announced"])
    cloud.write(
        lambda c: c.execute(sa.insert(tables.aggregates).values(uuid=a_uuid("a"), name="n"))
    )
    change(cloud, "INSERT INTO aggregate_hosts VALUES (1, 'h1')")
    assert everyones(cache) == (["n"], [])


def test_an_announced_aggregate_without_uuid_has_nothing_to_do_with_ours_of_its_id(cloud, cache):
    ours(cloud)
    cache.update_aggregates([Aggregate(1, None, "theirs", ["h2"])])
    assert everyones(cache) == (["ours"], ["theirs"])
    change(cloud, "UPDATE aggregates SET name = 'new' WHERE id = 1")
    assert everyones(cache) == (["new"], ["theirs"])
    cache.delete_aggregate(Aggregate(1))
    assert everyones(cache) == (["new"], [])


def test_what_was_announced_of_an_aggregate_before_the_first_reading_counts(cloud):
    uuid = ours(cloud)
    cache = HostCache(cloud)
    cache.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    assert everyones(cache) == ([], ["theirs"])
    cache = HostCache(cloud)
    cache.delete_aggregate(Aggregate(99, uuid))
    assert everyones(cache) == ([], [])


def test_an_aggregate_loses_the_hosts_and_metadata_that_are_announced_no_longer(cache):
    cache.update_aggregates([an_aggregate(1, "h1", "h2", ssd="true", az="z")])
    cache.update_aggregates([an_aggregate(1, "h2", az="z")])
    assert everyones(cache) == ([], ["announced"])
    with cache.current() as hosts:
        (found,) = hosts.get(hosts.row_of("h2", "h2"), "aggregates")
    assert found.metadata == {"az": "z"}
    cache.update_aggregates([an_aggregate(1)])
    assert everyones(cache) == ([], [])


def test_the_names_of_hosts_in_aggregates_are_told_apart_by_case(cache):
    cache.update_aggregates([an_aggregate(1, "H1", "h2")])
    assert everyones(cache) == ([], ["announced"])


def test_filters_see_equal_sets_of_aggregates_as_one_value(cache):
    for number in range(3):
        cache.update_aggregates([an_aggregate(number, "h1", "h2")])
    with cache.current() as hosts:
        assert len(set(hosts.codes("aggregates").tolist())) == 1
        zones = hosts.memo("aggregates", "n", lambda found: len(found or ()), int)
        assert zones.tolist() == [3, 3]
    cache.update_aggregates([an_aggregate(0, "h1")])
    with cache.current() as hosts:
        zones = hosts.memo("aggregates", "n", lambda found: len(found or ()), int)
        assert sorted(zones.tolist()) == [2, 3]
