# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_view: what Nova's services tell shows besides what the database has."""

import json

import pytest
import sqlalchemy as sa

from inventory import aggregates, compute_nodes, instances, revisions, tables
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_view import HostView, instance_facts
from scheduler.objects.aggregate import Aggregate
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
def view(request, cloud):
    """Return a view that has been read and is read again for each look."""
    found = HostView(cloud, reload_interval=request.param)
    look(found)
    return found


def look(view):
    """Return {host: {uuid: instance}}."""
    with view.current() as hosts:
        return {hosts.get(row, "host"): dict(hosts.residents.on(row)) for row in hosts.rows()}


def there(view, host):
    return sorted(look(view)[host])


def aggregates_of(view, host):
    with view.current() as hosts:
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
def test_worked_cases_of_what_is_told(cloud, view, host, events, expected):
    # Behaviour reference 3.9. Of a host that is not known, or whose list differs, Nova reads the
    # instances from the database, and again for each request. Here what was told is remembered.
    for name, what in events:
        getattr(view, name)(host, what)
    if host not in look(view):
        save(cloud, a_node(host))
    found = look(view)[host]
    assert sorted(found) == expected
    if BOTH in events and "u1" in found:
        assert found["u1"].vcpus == 1


def test_a_row_tells_flavor_and_image(cloud, view):
    properties = json.dumps({"os_distro": "debian"})
    report(cloud, "h1", an_instance("u1", flavor_id=7, image_properties=properties))
    found = look(view)["h1"]["u1"]
    assert (found.instance_type_id, found.image_properties) == (7, {"os_distro": "debian"})
    with view.current() as hosts:
        count = hosts.residents.count(("image", "os_distro", "debian"), hosts.size)
        assert sum(count) == count[hosts.row_of("h1", "h1")] == 1


def test_a_broken_row_spoils_nothing(cloud, view, caplog):
    instance_facts._image_properties.cache_clear()
    report(cloud, "h1", an_instance("u1", image_properties="{broken"), an_instance("u2"))
    assert look(view)["h1"]["u1"].image_properties is None
    assert there(view, "h1") == ["u1", "u2"]
    assert caplog.text.count("Image properties of an instance are unreadable") == 1


def test_told_instances_stay_beside_reported_ones(cloud, view):
    view.update_instances("h1", [Instance(uuid="u1", instance_type_id=7)])
    report(cloud, "h1", an_instance("u2"))
    for _ in range(2):
        assert there(view, "h1") == ["u1", "u2"]
    report(cloud, "h1", an_instance("u1"), an_instance("u2"))
    found = look(view)["h1"]["u1"]
    assert (found.instance_type_id, found.vcpus) == (7, 1)
    view.delete_instance("h1", "u1")
    assert there(view, "h1") == ["u2"]
    view.update_instances("h1", [Instance(uuid="u3")])
    view.sync_instances("h1", ["u2", "u4"])
    assert there(view, "h1") == ["u2", "u4"]
    view.forget_instances()
    assert there(view, "h1") == ["u2"]


def test_what_was_told_before_the_first_reading_shows_after_it(cloud):
    view = HostView(cloud)
    view.update_instances("h1", [Instance(uuid="u1")])
    view.delete_instance("h1", "u2")
    view.sync_instances("h2", ["u3"])
    view.update_aggregates([an_aggregate(1, "h2")])
    assert (there(view, "h1"), there(view, "h2")) == (["u1"], ["u3"])
    assert aggregates_of(view, "h2") == ["told"]


def test_what_was_told_about_a_host_that_comes_later(cloud, view):
    view.update_instances("h3", [Instance(uuid="u1")])
    view.update_aggregates([an_aggregate(1, "h3")])
    assert "h3" not in look(view)
    save(cloud, a_node("h3"))
    assert there(view, "h3") == ["u1"]
    assert aggregates_of(view, "h3") == ["told"]
    cloud.write(lambda c: compute_nodes.delete(c, "h3", ["h3"]))
    assert "h3" not in look(view)
    save(cloud, a_node("h3"))
    assert there(view, "h3") == []


def test_a_node_that_is_replaced_keeps_what_its_host_told(cloud, view):
    view.update_instances("h1", [Instance(uuid="u1")])
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    save(cloud, a_node("h1", uuid=None))
    assert there(view, "h1") == ["u1"]


def test_rows_that_come_before_their_node_show_with_it(cloud, view):
    report(cloud, "h3", an_instance("u1"))
    assert "h3" not in look(view)
    save(cloud, a_node("h3"))
    assert there(view, "h3") == ["u1"]


def take(view, host, uuid, **changes):
    spec = a_request(force_hosts=[host], instance_uuid=uuid, **changes)
    with view.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    view.consume(decision, spec)


def test_what_is_known_of_an_instance_survives_its_promise(cloud, view):
    flavor = a_flavor(id=5, name="m1.large")
    report(cloud, "h1", an_instance("u1", vm_state="stopped", flavor_name="m1.small"))
    look(view)
    # A resize on the same host.
    take(view, "h1", "u1", flavor=flavor)
    for _ in range(2):
        found = look(view)["h1"]["u1"]
        assert (found.vm_state, found.instance_type_id) == ("stopped", 5)
        assert found.flavor_name == "m1.large"
    take(view, "h2", "u2", flavor=flavor)
    view.update_instances("h2", [Instance(uuid="u2", vm_state="building")])
    report(cloud, "h2", an_instance("u2", flavor_name="m1.large"))
    for _ in range(2):
        found = look(view)["h2"]["u2"]
        assert (found.vm_state, found.instance_type_id) == ("active", 5)


def test_an_instance_that_is_built_on_an_alternate_is_gone_from_the_first(cloud, view):
    take(view, "h1", "u1")
    report(cloud, "h2", an_instance("u1"))
    assert (there(view, "h1"), there(view, "h2")) == ([], ["u1"])


def test_told_aggregates_stay_beside_those_of_the_inventory(cloud, view):
    cloud.write(lambda c: aggregates.create(c, "ours", ["h1"], ZONE))
    view.update_aggregates([an_aggregate(1, "h1", "h2", "h2", "h9")])
    for _ in range(2):
        assert aggregates_of(view, "h1") == ["ours", "told"]
        assert aggregates_of(view, "h2") == ["told"]
    cloud.write(lambda c: aggregates.create(c, "new", ["h2"], {}))
    assert aggregates_of(view, "h2") == ["new", "told"]
    view.update_aggregates([an_aggregate(1, "h2", name="smaller")])
    assert aggregates_of(view, "h1") == ["ours"]
    assert aggregates_of(view, "h2") == ["new", "smaller"]
    view.delete_aggregate(an_aggregate(1))
    assert aggregates_of(view, "h2") == ["new"]


def ours(database):
    """Create an aggregate of h1 in the inventory; return its uuid."""
    database.write(lambda c: aggregates.create(c, "ours", ["h1", "h9"], ZONE))
    return database.read(aggregates.everything)[0].uuid


def everyones(view):
    return aggregates_of(view, "h1"), aggregates_of(view, "h2")


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
    cloud, view, told, statements, expected
):
    uuid = ours(cloud)
    assert everyones(view) == (["ours"], [])
    if told == "changed":
        view.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    else:
        view.delete_aggregate(Aggregate(99, uuid))
    theirs = [], ["theirs"] if told == "changed" else []
    for _ in range(2):
        assert everyones(view) == theirs
    # Another one changes.
    cloud.write(lambda c: aggregates.create(c, "another", [], {}))
    assert everyones(view) == theirs
    change(cloud, statements)
    assert everyones(view) == expected
    view.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    assert everyones(view) == ([], ["theirs"])


def test_an_aggregate_that_the_inventory_gets_later_is_as_the_inventory_has_it(cloud, view):
    view.update_aggregates([Aggregate(1, a_uuid("a"), "told", ["h2"])])
    assert everyones(view) == ([], ["told"])
    cloud.write(
        lambda c: c.execute(sa.insert(tables.aggregates).values(uuid=a_uuid("a"), name="n"))
    )
    change(cloud, "INSERT INTO aggregate_hosts VALUES (1, 'h1')")
    assert everyones(view) == (["n"], [])


def test_a_told_aggregate_without_uuid_has_nothing_to_do_with_ours_of_its_id(cloud, view):
    ours(cloud)
    view.update_aggregates([Aggregate(1, None, "theirs", ["h2"])])
    assert everyones(view) == (["ours"], ["theirs"])
    change(cloud, "UPDATE aggregates SET name = 'new' WHERE id = 1")
    assert everyones(view) == (["new"], ["theirs"])
    view.delete_aggregate(Aggregate(1))
    assert everyones(view) == (["new"], [])


def test_what_was_told_of_an_aggregate_before_the_first_reading_counts(cloud):
    uuid = ours(cloud)
    view = HostView(cloud)
    view.update_aggregates([Aggregate(99, uuid, "theirs", ["h2"])])
    assert everyones(view) == ([], ["theirs"])
    view = HostView(cloud)
    view.delete_aggregate(Aggregate(99, uuid))
    assert everyones(view) == ([], [])


def test_an_aggregate_loses_the_hosts_and_metadata_that_are_told_no_longer(view):
    view.update_aggregates([an_aggregate(1, "h1", "h2", ssd="true", az="z")])
    view.update_aggregates([an_aggregate(1, "h2", az="z")])
    assert everyones(view) == ([], ["told"])
    with view.current() as hosts:
        (found,) = hosts.get(hosts.row_of("h2", "h2"), "aggregates")
    assert found.metadata == {"az": "z"}
    view.update_aggregates([an_aggregate(1)])
    assert everyones(view) == ([], [])


def test_the_names_of_hosts_in_aggregates_are_told_apart_by_case(view):
    view.update_aggregates([an_aggregate(1, "H1", "h2")])
    assert everyones(view) == ([], ["told"])


def test_filters_see_equal_sets_of_aggregates_as_one_value(view):
    for number in range(3):
        view.update_aggregates([an_aggregate(number, "h1", "h2")])
    with view.current() as hosts:
        assert len(set(hosts.codes("aggregates").tolist())) == 1
        zones = hosts.derived("aggregates", "n", lambda found: len(found or ()), int)
        assert zones.tolist() == [3, 3]
    view.update_aggregates([an_aggregate(0, "h1")])
    with view.current() as hosts:
        zones = hosts.derived("aggregates", "n", lambda found: len(found or ()), int)
        assert sorted(zones.tolist()) == [2, 3]
