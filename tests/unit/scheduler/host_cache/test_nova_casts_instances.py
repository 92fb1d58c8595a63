# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: what Nova's services tell shows besides what the database has."""

import json

import pytest
import sqlalchemy as sa

from inventory import aggregates, compute_nodes, instances, revisions, tables
from inventory.objects.aggregate import Aggregate
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache import instance_sources
from scheduler.host_cache.cache import HostCache
from scheduler.objects.instance import Instance
from tests.builders import a_flavor, a_request
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve

ZONE = {"availability_zone": "z1"}
FORGET = "DELETE FROM aggregate"


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    return database


@pytest.fixture(params=[0, 3600], ids=["reloads", "deltas"])
def cache(request, cloud):
    """Return a cache that has been read and is read again for each look."""
    found = HostCache(cloud, reload_interval=request.param)
    look(found)
    return found


def look(cache):
    """Return {host: {uuid: instance}}."""
    with cache.current() as hosts:
        return {hosts.get(row, "host"): dict(hosts.instances.on(row)) for row in hosts.rows()}


def there(cache, host):
    return sorted(look(cache)[host])


def aggregates_of(cache, host):
    with cache.current() as hosts:
        return [each.name for each in hosts.get(hosts.row_of(host, host), "aggregates")]


def report(database, host, *seen):
    database.write(lambda c: instances.replace(c, host, host, list(seen)))


def an_aggregate(number, *hosts, name="told", **metadata):
    return Aggregate(number, f"x{number}", name, list(hosts), metadata)


U1, U2 = Instance(uuid="u1", vcpus=1), Instance(uuid="u2")
BOTH = ("update_instances", [U1, U2])


@pytest.mark.parametrize("host", ["h1", "h3"], ids=["known", "unknown"])
@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([BOTH], ["u1", "u2"]),
        ([("update_instances", [U1])], ["u1"]),
        ([("update_instances", [])], []),
        ([("update_instances", [Instance(uuid="u1", vcpus=7)]), BOTH], ["u1", "u2"]),
        ([BOTH, ("delete_instance", "u2")], ["u1"]),
        ([("delete_instance", "u1")], []),
        ([BOTH, ("sync_instances", ["u2", "u1"])], ["u1", "u2"]),
        ([BOTH, ("sync_instances", ["u1", "u3"])], ["u1", "u3"]),
        ([("sync_instances", ["u1"])], ["u1"]),
        ([BOTH, ("sync_instances", [])], []),
    ],
)
def test_worked_cases_of_what_is_told(cloud, cache, host, events, expected):
    # Behaviour reference 3.9. Of a host that is not known, or whose list differs, Nova reads the
    # instances from the database, and again for each request. Here what was told is remembered.
    for name, what in events:
        getattr(cache, name)(host, what)
    if host not in look(cache):
        save(cloud, a_node(host))
    found = look(cache)[host]
    assert sorted(found) == expected
    if BOTH in events and "u1" in found:
        assert found["u1"].vcpus == 1


def test_a_row_tells_flavor_and_image(cloud, cache):
    properties = json.dumps({"os_distro": "debian"})
    report(cloud, "h1", an_instance("u1", flavor_id=7, image_properties=properties))
    found = look(cache)["h1"]["u1"]
    assert (found.instance_type_id, found.image_properties) == (7, {"os_distro": "debian"})
    with cache.current() as hosts:
        count = hosts.instances.count(("image", "os_distro", "debian"), hosts.size)
        assert sum(count) == count[hosts.row_of("h1", "h1")] == 1


def test_a_broken_row_spoils_nothing(cloud, cache, caplog):
    instance_sources._image_properties.cache_clear()
    report(cloud, "h1", an_instance("u1", image_properties="{broken"), an_instance("u2"))
    assert look(cache)["h1"]["u1"].image_properties is None
    assert there(cache, "h1") == ["u1", "u2"]
    assert caplog.text.count("Image properties of an instance are unreadable") == 1


def test_told_instances_stay_beside_reported_ones(cloud, cache):
    cache.update_instances("h1", [Instance(uuid="u1", instance_type_id=7)])
    report(cloud, "h1", an_instance("u2"))
    for _ in range(2):
        assert there(cache, "h1") == ["u1", "u2"]
    report(cloud, "h1", an_instance("u1"), an_instance("u2"))
    found = look(cache)["h1"]["u1"]
    assert (found.instance_type_id, found.vcpus) == (7, 1)
    cache.delete_instance("h1", "u1")
    assert there(cache, "h1") == ["u2"]
    cache.update_instances("h1", [Instance(uuid="u3")])
    cache.sync_instances("h1", ["u2", "u4"])
    assert there(cache, "h1") == ["u2", "u4"]
    cache.forget_cast_instances()
    assert there(cache, "h1") == ["u2"]


def test_what_was_told_before_the_first_reading_shows_after_it(cloud):
    cache = HostCache(cloud)
    cache.update_instances("h1", [Instance(uuid="u1")])
    cache.delete_instance("h1", "u2")
    cache.sync_instances("h2", ["u3"])
    cache.update_aggregates([an_aggregate(1, "h2")])
    assert (there(cache, "h1"), there(cache, "h2")) == (["u1"], ["u3"])
    assert aggregates_of(cache, "h2") == ["told"]


def test_what_was_told_about_a_host_that_comes_later(cloud, cache):
    cache.update_instances("h3", [Instance(uuid="u1")])
    cache.update_aggregates([an_aggregate(1, "h3")])
    assert "h3" not in look(cache)
    save(cloud, a_node("h3"))
    assert there(cache, "h3") == ["u1"]
    assert aggregates_of(cache, "h3") == ["told"]
    cloud.write(lambda c: compute_nodes.delete(c, "h3", ["h3"]))
    assert "h3" not in look(cache)
    save(cloud, a_node("h3"))
    assert there(cache, "h3") == []


def test_a_node_that_is_replaced_keeps_what_its_host_told(cloud, cache):
    cache.update_instances("h1", [Instance(uuid="u1")])
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    save(cloud, a_node("h1", uuid=None))
    assert there(cache, "h1") == ["u1"]


def test_rows_that_come_before_their_node_show_with_it(cloud, cache):
    report(cloud, "h3", an_instance("u1"))
    assert "h3" not in look(cache)
    save(cloud, a_node("h3"))
    assert there(cache, "h3") == ["u1"]


def take(cache, host, uuid, **changes):
    spec = a_request(force_hosts=[host], instance_uuid=uuid, **changes)
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    cache.consume(decision, spec)


def test_what_is_known_of_an_instance_survives_its_promise(cloud, cache):
    flavor = a_flavor(id=5, name="m1.large")
    report(cloud, "h1", an_instance("u1", vm_state="stopped", flavor_name="m1.small"))
    look(cache)
    # A resize on the same host.
    take(cache, "h1", "u1", flavor=flavor)
    for _ in range(2):
        found = look(cache)["h1"]["u1"]
        assert (found.vm_state, found.instance_type_id) == ("stopped", 5)
        assert found.flavor_name == "m1.large"
    take(cache, "h2", "u2", flavor=flavor)
    cache.update_instances("h2", [Instance(uuid="u2", vm_state="building")])
    report(cloud, "h2", an_instance("u2", flavor_name="m1.large"))
    for _ in range(2):
        found = look(cache)["h2"]["u2"]
        assert (found.vm_state, found.instance_type_id) == ("active", 5)


def test_an_instance_that_is_built_on_an_alternate_is_gone_from_the_first(cloud, cache):
    take(cache, "h1", "u1")
    report(cloud, "h2", an_instance("u1"))
    assert (there(cache, "h1"), there(cache, "h2")) == ([], ["u1"])


def test_told_aggregates_stay_beside_those_of_the_inventory(cloud, cache):
    cloud.write(lambda c: aggregates.create(c, "ours", ["h1"], ZONE))
    cache.update_aggregates([an_aggregate(1, "h1", "h2", "h2", "h9")])
    for _ in range(2):
        assert aggregates_of(cache, "h1") == ["ours", "told"]
        assert aggregates_of(cache, "h2") == ["told"]
    cloud.write(lambda c: aggregates.create(c, "new", ["h2"], {}))
    assert aggregates_of(cache, "h2") == ["new", "told"]
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
@pytest.mark.parametrize("told", ["changed", "deleted"])
def test_what_was_told_of_an_aggregate_counts_until_the_inventory_changes_it(
    cloud, cache, told, statements, expected
):
    uuid = ours(cloud)
    assert everyones(cache) == (["ours"], [])
    if told == "changed":
        cache.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    else:
        cache.delete_aggregate(Aggregate(99, uuid))
    theirs = [], ["theirs"] if told == "changed" else []
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
    cache.update_aggregates([Aggregate(1, a_uuid("a"), "told", ["h2"])])
    assert everyones(cache) == ([], ["told"])
    cloud.write(
        lambda c: c.execute(sa.insert(tables.aggregates).values(uuid=a_uuid("a"), name="n"))
    )
    change(cloud, "INSERT INTO aggregate_hosts VALUES (1, 'h1')")
    assert everyones(cache) == (["n"], [])


def test_a_told_aggregate_without_uuid_has_nothing_to_do_with_ours_of_its_id(cloud, cache):
    ours(cloud)
    cache.update_aggregates([Aggregate(1, None, "theirs", ["h2"])])
    assert everyones(cache) == (["ours"], ["theirs"])
    change(cloud, "UPDATE aggregates SET name = 'new' WHERE id = 1")
    assert everyones(cache) == (["new"], ["theirs"])
    cache.delete_aggregate(Aggregate(1))
    assert everyones(cache) == (["new"], [])


def test_what_was_told_of_an_aggregate_before_the_first_reading_counts(cloud):
    uuid = ours(cloud)
    cache = HostCache(cloud)
    cache.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    assert everyones(cache) == ([], ["theirs"])
    cache = HostCache(cloud)
    cache.delete_aggregate(Aggregate(99, uuid))
    assert everyones(cache) == ([], [])


def test_an_aggregate_loses_the_hosts_and_metadata_that_are_told_no_longer(cache):
    cache.update_aggregates([an_aggregate(1, "h1", "h2", ssd="true", az="z")])
    cache.update_aggregates([an_aggregate(1, "h2", az="z")])
    assert everyones(cache) == ([], ["told"])
    with cache.current() as hosts:
        (found,) = hosts.get(hosts.row_of("h2", "h2"), "aggregates")
    assert found.metadata == {"az": "z"}
    cache.update_aggregates([an_aggregate(1)])
    assert everyones(cache) == ([], [])


def test_the_names_of_hosts_in_aggregates_are_told_apart_by_case(cache):
    cache.update_aggregates([an_aggregate(1, "H1", "h2")])
    assert everyones(cache) == ([], ["told"])


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
