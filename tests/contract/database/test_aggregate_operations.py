# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of aggregate_operations: what operators may do to aggregates and zones."""

import pytest
import sqlalchemy as sa

from inventory import aggregates, instances, revisions, services, tables
from inventory.errors import InUse, Malformed, NotFound, OperationRefused
from inventory.operations import aggregate_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from tests.claimed import claim
from tests.databases import an_instance, execute, serve

STRICT = ZoneRules("nova")
LENIENT = ZoneRules("nova", with_instances=True)
NORTH, SOUTH = {"availability_zone": "north"}, {"availability_zone": "south"}


def create(database, name, **properties):
    return database.write(lambda c: aggregate_operations.create(c, name, properties))


def add(database, aggregate, host, zones=STRICT):
    return database.write(lambda c: aggregate_operations.add_hosts(c, aggregate, [host], zones))


def remove(database, aggregate, host, zones=STRICT):
    return database.write(lambda c: aggregate_operations.remove_hosts(c, aggregate, [host], zones))


def change(database, aggregate, zones=STRICT, **asked):
    return database.write(
        lambda c: aggregate_operations.change(c, aggregate, Change(**asked), zones)
    )


def delete(database, *names):
    return database.write(lambda c: aggregate_operations.delete(c, names))


def show(database, name):
    return database.read(lambda c: aggregates.show(c, name))


def revision(database):
    return database.read(revisions.current)[0].get(revisions.AGGREGATES, 0)


def facts(database):
    return database.read(aggregates.everything)


def refused(database, kind, order):
    """Return in what words an order is refused, which must change nothing."""
    before = facts(database), revision(database)
    with pytest.raises(kind) as caught:
        order()
    assert (facts(database), revision(database)) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def hosts(database):
    """A database with three hosts."""
    serve(database, "h1", "H2", "h3")
    return database


def test_an_aggregate_from_its_beginning_to_its_end(hosts):
    made = create(hosts, " racks ", ssd="true")
    assert made == show(hosts, "racks")
    assert (made["name"], made["hosts"], made["availability_zone"]) == ("racks", [], None)
    assert made["properties"] == {"ssd": "true"}
    add(hosts, "racks", "h1")
    # As the service is called, whatever the operator's letter case.
    assert add(hosts, "RACKS", " h2 ")["hosts"] == ["H2", "h1"]
    asked = {"name": "cabinets", "properties": {"availability_zone": "north", "gpu": "no"}}
    changed = change(hosts, made["uuid"].upper(), **asked)
    assert changed == show(hosts, str(made["id"]))
    assert (changed["name"], changed["availability_zone"]) == ("cabinets", "north")
    assert changed["properties"] == {"gpu": "no", "ssd": "true"}
    assert changed["updated_at"] >= made["created_at"] == changed["created_at"]
    changed = change(hosts, "cabinets", without=["availability_zone", "gpu"])
    assert (changed["availability_zone"], changed["properties"]) == (None, {"ssd": "true"})
    remove(hosts, "cabinets", "H1")
    assert remove(hosts, "cabinets", "h2")["hosts"] == []
    (gone,) = delete(hosts, "cabinets")
    assert gone["uuid"] == made["uuid"]
    assert facts(hosts) == []
    assert hosts.read(lambda c: c.execute(sa.select(tables.aggregate_metadata)).all()) == []


def test_every_order_tells_readers(hosts):
    for order in (
        lambda: create(hosts, "a"),
        lambda: add(hosts, "a", "h1"),
        lambda: change(hosts, "a", properties=NORTH),
        lambda: change(hosts, "a", name="b"),
        lambda: change(hosts, "b", without=["availability_zone"]),
        lambda: remove(hosts, "b", "h1"),
        lambda: delete(hosts, "b"),
    ):
        before = revision(hosts)
        order()
        assert revision(hosts) > before


def test_properties_are_replaced_or_all_but_the_zone_taken_away(database):
    create(database, "a", ssd="true", gpu="no", **NORTH)
    shown = change(database, "a", properties={"ssd": "false"})
    assert shown["properties"] == {"ssd": "false", "gpu": "no"}
    shown = change(database, "a", properties={"new": "1"}, without_others=True)
    assert (shown["properties"], shown["availability_zone"]) == ({"new": "1"}, "north")
    assert change(database, "a", without_others=True)["properties"] == {}


@pytest.mark.parametrize("name", ["a", "A", " a "])
def test_a_name_belongs_to_one_aggregate(database, name):
    create(database, "a")
    create(database, "b")
    refusal = {
        "a": "there is an aggregate 'a' already; see 'aggregate list'",
        "A": "there is an aggregate 'a' already, which counts as the same name as 'A';"
        " see 'aggregate list'",
    }[name.strip()]
    assert refused(database, InUse, lambda: create(database, name)) == refusal
    assert refused(database, InUse, lambda: change(database, "b", name=name)) == refusal


def test_an_aggregate_may_be_spelled_otherwise(database):
    create(database, "a")
    assert change(database, "a", name="A")["name"] == "A"


def test_names_that_differ_by_an_accent_only(database):
    create(database, "groß")
    create(database, "other")
    refusal = (
        "there is an aggregate 'groß' already, which counts as the same name as 'größ';"
        " see 'aggregate list'"
    )
    assert refused(database, InUse, lambda: create(database, "größ")) == refusal
    assert refused(database, InUse, lambda: change(database, "other", name="größ")) == refusal


def test_of_several_aggregates_none_is_meant(database):
    first = create(database, "a")
    second = create(database, str(first["id"]))
    refusal = refused(database, Malformed, lambda: delete(database, str(first["id"])))
    assert refusal.startswith(f"aggregate: '{first['id']}' is ambiguous: {second['name']} (id ")
    assert delete(database, first["uuid"])[0]["name"] == "a"
    assert delete(database, second["name"])[0]["uuid"] == second["uuid"]


@pytest.mark.parametrize("name", ["nothing", "", "%", "0", "-1", "a' OR '1'='1"])
def test_aggregates_that_there_are_none_of(hosts, name):
    create(hosts, "a")
    for order in (
        lambda: delete(hosts, "a", name),
        lambda: change(hosts, name, name="b"),
        lambda: add(hosts, name, "h1"),
        lambda: remove(hosts, name, "h1"),
    ):
        refusal = refused(hosts, NotFound, order)
        assert refusal == f"there is no aggregate {name!r}; see 'aggregate list'"


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"k": "v" * 256}, "k: has 256 characters, at most 255 are allowed"),
        ({"k": " "}, "k: is empty"),
        ({"k": "a\nb"}, "k: has characters that cannot be printed on one line"),
        ({"k" * 256: "v"}, "property: has 256 characters, at most 255 are allowed"),
        ({"k/k": "v"}, "property: 'k/k' has other characters than letters"),
        ({"ü": "v"}, "property: 'ü' has other characters than letters"),
        ({"SSD": "1", "ssd": "2"}, "property: 'SSD' and 'ssd' differ by letter case only"),
        ({"availability_zone": "a,b"}, "availability_zone: 'a,b': a host can be in one zone only"),
        (
            {"availability_zone": "a:b"},
            "availability_zone: 'a:b': the name of a zone cannot contain a colon",
        ),
        ({"availability_zone": ""}, "availability_zone: is empty"),
    ],
)
def test_properties_that_cannot_be(database, properties, problem):
    create(database, "a")
    refusal = refused(database, Malformed, lambda: create(database, "b", **properties))
    assert refusal.startswith(problem)
    refusal = refused(database, Malformed, lambda: change(database, "a", properties=properties))
    assert refusal.startswith(problem)


def test_a_key_is_not_set_beside_one_of_other_letter_case(database):
    create(database, "a", ssd="1")
    refusal = refused(database, Malformed, lambda: change(database, "a", properties={"SSD": "2"}))
    assert refusal == "property: 'SSD' and 'ssd' differ by letter case only"
    shown = change(database, "a", properties={"SSD": "2"}, without=["ssd"])
    assert shown["properties"] == {"SSD": "2"}


def test_what_fits_is_kept_whole(database):
    value = "\U0001f680%_'\\" + "ü" * 250
    made = create(database, value, **{"trait:CUSTOM_X": "required", "filter_tenant_id2": value})
    assert made["name"] == value
    assert show(database, value)["properties"]["filter_tenant_id2"] == value
    for name in ("x" * 256, "", "\ud800"):
        refused(database, Malformed, lambda name=name: create(database, name))
        refused(database, Malformed, lambda name=name: change(database, value, name=name))


def test_a_property_that_is_not_there_is_not_taken_away(database):
    create(database, "a", ssd="1")
    refusal = refused(database, NotFound, lambda: change(database, "a", without=["SSD"]))
    assert refusal == "aggregate a has no property 'SSD'; it has ssd"


def test_hosts_need_a_compute_service(hosts):
    create(hosts, "a")
    hosts.write(lambda c: services.register(c, ["controller"], services.SCHEDULER, 1))
    for host in ("controller", "nowhere", "", "%", "h"):
        refusal = refused(hosts, NotFound, lambda host=host: add(hosts, "a", host))
        assert refusal.startswith(f"there is no compute service on a host {host!r}: start")
    execute(hosts, "UPDATE services SET deleted = id WHERE host = 'h3'")
    refused(hosts, NotFound, lambda: add(hosts, "a", "h3"))


def test_hosts_that_are_members_already_or_not(hosts):
    create(hosts, "a")
    refusal = refused(hosts, NotFound, lambda: remove(hosts, "a", "h1"))
    assert refusal == "host 'h1' is not in aggregate a, which has no hosts"
    add(hosts, "a", "h1")
    refusal = refused(hosts, InUse, lambda: add(hosts, "a", "H1"))
    assert refusal == "host h1 is in aggregate a already"
    refusal = refused(hosts, NotFound, lambda: remove(hosts, "a", "h2"))
    assert refusal == "host 'h2' is not in aggregate a, which has h1"


def test_a_member_whose_service_is_gone_can_leave(hosts):
    create(hosts, "a")
    add(hosts, "a", "h1")
    execute(hosts, "UPDATE services SET deleted = id WHERE host = 'h1'")
    assert remove(hosts, "a", "h1")["hosts"] == []


def test_an_aggregate_with_hosts_is_not_deleted(hosts):
    create(hosts, "a")
    create(hosts, "b")
    add(hosts, "b", "h1")
    refusal = refused(hosts, InUse, lambda: delete(hosts, "a", "b"))
    assert refusal == (
        "aggregate b is not empty: remove its hosts first, h1, with 'aggregate remove host'"
    )


def test_a_host_is_in_one_zone_only(hosts):
    first = create(hosts, "a", **NORTH)
    second = create(hosts, "b", **SOUTH)
    create(hosts, "c", **NORTH)
    create(hosts, "plain")
    for name in ("a", "c", "plain"):
        add(hosts, name, "h1")
    ways = f"north by aggregate a (id {first['id']})"
    refusal = refused(hosts, InUse, lambda: add(hosts, "b", "h1"))
    assert refusal.startswith(f"host h1 would be in several availability zones, {ways}, south by")
    assert f"south by aggregate b (id {second['id']})" in refusal
    for name in ("plain", "a"):
        refusal = refused(hosts, InUse, lambda name=name: change(hosts, name, properties=SOUTH))
        assert refusal.startswith("host h1 would be in several availability zones, ")
    # The order of steps is what counts.
    for name in ("a", "c"):
        remove(hosts, name, "h1")
    add(hosts, "b", "h1")
    change(hosts, "plain", properties=SOUTH)


def test_two_zones_that_somebody_wrote_can_be_mended(hosts):
    hosts.write(lambda c: aggregates.create(c, "a", ["h1"], {"availability_zone": "x, y"}))
    hosts.write(lambda c: aggregates.create(c, "b", ["h1"], {"availability_zone": "z"}))
    change(hosts, "a", name="c", properties={"ssd": "1"})
    change(hosts, "c", properties={"availability_zone": "x"})
    remove(hosts, "c", "h1")


def see(database, *rows, host="h1"):
    database.write(lambda c: instances.replace(c, host, host, rows))


@pytest.fixture
def lived_in(hosts):
    """h1 in zone north with an instance; aggregates of other zones and of none."""
    create(hosts, "a", **NORTH)
    create(hosts, "b", **SOUTH)
    create(hosts, "plain")
    create(hosts, "default", availability_zone="nova")
    add(hosts, "a", "h1")
    see(hosts, an_instance("u1"))
    see(hosts, an_instance("u2"), host="H2")
    return hosts


def test_instances_keep_the_zone_of_their_host(lived_in):
    orders = {
        "h1 (1, from north to south)": lambda zones: change(lived_in, "a", zones, properties=SOUTH),
        "h1 (1, from south to nova)": lambda zones: change(
            lived_in, "a", zones, without=["availability_zone"]
        ),
        "H2 (1, from nova to south)": lambda zones: add(lived_in, "b", "h2", zones),
        "H2 (1, from south to nova)": lambda zones: remove(lived_in, "b", "h2", zones),
    }
    for what, order in orders.items():
        assert refused(lived_in, InUse, lambda order=order: order(STRICT)) == (
            "1 instance would be in another availability zone than before, on"
            f" {what}: move it away first, or allow the change of zone with"
            " --with-instances"
        )
        order(LENIENT)


def test_what_does_not_change_the_zone_may_be_done_with_instances(lived_in):
    change(lived_in, "a", name="c", properties={"ssd": "1", **NORTH})
    add(lived_in, "plain", "h1")
    # The default zone by name is the same zone.
    add(lived_in, "default", "h2")
    remove(lived_in, "default", "h2")
    remove(lived_in, "plain", "h1")
    see(lived_in, an_instance("u1", vm_state="shelved_offloaded"))
    remove(lived_in, "c", "h1")
    add(lived_in, "b", "h3")


def test_what_is_claimed_counts_as_an_instance(cloud):
    serve(cloud, "h1", "h2")
    create(cloud, "a", **NORTH)
    node = cloud.read(lambda c: c.execute(sa.select(tables.compute_nodes)).first())
    claim(cloud, "u1", node)
    refusal = refused(cloud, InUse, lambda: add(cloud, "a", "h1"))
    assert "on h1 (1, from nova to north)" in refusal
    # It is not counted twice when it is there.
    see(cloud, an_instance("u1"))
    refusal = refused(cloud, InUse, lambda: add(cloud, "a", "h1"))
    assert "on h1 (1, from nova to north)" in refusal


def test_of_many_hosts_some_are_named(database):
    names = [f"h{number}" for number in range(5)]
    serve(database, *names)
    create(database, "a")
    for name in names:
        add(database, "a", name)
        see(database, an_instance("u-" + name), host=name)
    refusal = refused(database, OperationRefused, lambda: change(database, "a", properties=NORTH))
    assert refusal.startswith("5 instances would be")
    assert "h2 (1, from nova to north) and 2 more: move" in refusal


def test_many_hosts_join_and_leave_in_one_operation(database):
    hosts = [f"h{number}" for number in range(1200)]
    serve(database, *hosts)
    create(database, "all", **NORTH)
    before = revision(database)
    asked = [*hosts, " H7", "h7"]
    database.write(lambda c: aggregate_operations.add_hosts(c, "all", asked, STRICT))
    assert sorted(show(database, "all")["hosts"]) == sorted(hosts)
    assert revision(database) == before + 1
    database.write(lambda c: aggregate_operations.remove_hosts(c, "all", hosts[1:], STRICT))
    assert show(database, "all")["hosts"] == ["h0"]


def test_a_host_that_may_not_join_keeps_all_others_out(database):
    serve(database, "h1", "h2", "h3")
    create(database, "north", **NORTH)
    create(database, "south", **SOUTH)
    add(database, "north", "h2")
    hosts = ["h1", "h2", "h3"]

    def order():
        database.write(lambda c: aggregate_operations.add_hosts(c, "south", hosts, STRICT))

    refused(database, InUse, order)
