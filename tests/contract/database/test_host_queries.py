# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.queries.host_queries: what hosts have and what is taken of it."""

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from inventory import aggregates, audit_log, instances, tables
from inventory.audit_log import Actor
from inventory.errors import NotFound
from inventory.operations import service_operations
from inventory.queries import fleet, host_queries
from inventory.queries.fleet import STATES
from scheduler.filters.core import CoreFilter
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.resources import resources
from tests.builders import a_request
from tests.databases import a_node, an_instance, execute, save, serve

LIMIT = 60
# The worked case of the behaviour reference, 2.4 and 6.1.
EXAMPLE = [
    an_instance("A", vcpus=2, memory_mb=4096, root_gb=20, ephemeral_gb=10, swap_mb=1024),
    an_instance("B", vcpus=1, memory_mb=2048, root_gb=10, vm_state="stopped"),
    an_instance("C", vcpus=2, memory_mb=2048, root_gb=10, vm_state="building", project_id="p2"),
    an_instance("D", vcpus=4, memory_mb=8192, root_gb=40, vm_state="shelved_offloaded"),
    an_instance("E", vcpus=1, memory_mb=512, root_gb=1, vm_state="error"),
    an_instance("F", vcpus=1, memory_mb=1024, root_gb=50, project_id="p2"),
]
EXAMPLE_NODE = {
    "vcpus": 8,
    "memory_mb": 16384,
    "local_gb": 100,
    "vcpus_used": 8,
    "memory_mb_used": 10240,
    "local_gb_used": 54,
}


def described(database, host="h1"):
    rows = database.read(lambda c: host_queries.describe(c, host))
    return {row["project"]: (row["cpu"], row["memory_mb"], row["disk_gb"]) for row in rows}


def own(database, *rows, host="h1", node="h1"):
    values = [{"host": host, "node": node, "managed": True, "ephemeral_gb": 0} | r for r in rows]
    database.write(lambda c: [c.execute(sa.insert(tables.instances), each) for each in values])


@pytest.mark.parametrize("managed", [True, False])
def test_the_worked_example(database, managed):
    save(database, a_node("h1", **EXAMPLE_NODE))
    if managed:
        own(database, *EXAMPLE)
    else:
        database.write(lambda c: instances.replace(c, "h1", "h1", EXAMPLE))
    rows = database.read(lambda c: host_queries.describe(c, "H1 "))
    assert [tuple(row.values()) for row in rows] == [
        ("h1", "(total)", 8, 16384, 100),
        ("h1", "(used_now)", 8, 10240, 54),
        ("h1", "(used_max)", 11, 17920, 141),
        ("h1", "p1", 8, 14848, 81),
        ("h1", "p2", 3, 3072, 60),
    ]
    assert list(rows[0]) == ["host", "project", "cpu", "memory_mb", "disk_gb"]


def test_all_nodes_of_a_host_count(database):
    save(
        database,
        a_node("h1", "n1", vcpus=8, memory_mb=100, local_gb=10, vcpus_used=3),
        a_node("h1", "n2", vcpus=4, memory_mb=50, local_gb=5, vcpus_used=2),
        a_node("h2", "n1", vcpus=99),
    )
    database.write(lambda c: instances.replace(c, "h1", "n2", [an_instance("u1")]))
    database.write(lambda c: instances.replace(c, "h1", "n1", [an_instance("u2")]))
    database.write(lambda c: instances.replace(c, "h2", "n1", [an_instance("u3")]))
    found = described(database)
    assert found["(total)"] == (12, 150, 15)
    assert found["(used_now)"] == (5, 1024, 0)
    assert found["(used_max)"] == found["p1"] == (2, 2048, 20)


def test_an_empty_host_and_one_with_guests_of_nobody_known(database):
    save(database, a_node("h1"), a_node("h2"))
    database.write(lambda c: instances.replace(c, "h2", "h2", [an_instance("u1", project_id=None)]))
    assert list(described(database)) == ["(total)", "(used_now)", "(used_max)"]
    assert described(database, "h2")["(unknown)"] == (1, 1024, 10)


def test_the_dead_do_not_count(database):
    save(database, a_node("h1"))
    database.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    database.write(lambda c: instances.replace(c, "h1", "h1", []))
    assert described(database)["(used_max)"] == (0, 0, 0)


@pytest.mark.parametrize("host", ["nowhere", "", "%", "h_"])
def test_hosts_that_there_are_none_of(database, host):
    save(database, a_node("h1"))
    with pytest.raises(NotFound, match="has no compute node"):
        described(database, host)


SIZES = st.fixed_dictionaries(
    {
        "project_id": st.sampled_from([None, "p1", "p2", "(total)"]),
        "vcpus": st.integers(0, 1000),
        "memory_mb": st.integers(0, 2**31),
        "root_gb": st.integers(0, 10**6),
        "ephemeral_gb": st.integers(0, 10**6),
    }
)


@given(st.lists(SIZES, max_size=20))
def test_the_projects_add_up_to_the_instances(rows):
    total, now, most, *projects = host_queries.described("h", [], rows)
    assert (total["cpu"], now["memory_mb"]) == (0, 0)
    for column in ("cpu", "memory_mb", "disk_gb"):
        assert most[column] == sum(each[column] for each in projects)
    assert most["disk_gb"] == sum(row["root_gb"] + row["ephemeral_gb"] for row in rows)


def test_hosts_are_listed_with_their_figures(database):
    serve(database, "h1", "h2")
    save(database, a_node("h1", running_vms=3, free_ram_mb=-5))
    save(database, a_node("h2"), a_node("h3"))
    database.write(lambda c: aggregates.create(c, "n", ["h2"], {"availability_zone": "north"}))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"]))
    rows = database.read(lambda c: host_queries.listed(c, LIMIT, "nova"))
    assert rows[0] == {
        "host": "h1",
        "node": "h1",
        "zone": "nova",
        "status": "disabled",
        "state": "maintenance",
        "disabled_reason": "in maintenance",
        "last_seen_up": rows[1]["last_seen_up"],
        "vcpus_used": 0,
        "vcpus": 16,
        "free_ram_mb": -5,
        "memory_mb": 65536,
        "free_disk_gb": 1000,
        "local_gb": 1000,
        "running_vms": 3,
        "vcpus_percent": 0,
        "memory_percent": 1,
        "disk_percent": 0,
    }
    assert [(row["zone"], row["status"], row["state"]) for row in rows[1:]] == [
        ("north", "enabled", "up"),
        ("", "", "unserved"),
    ]
    (only,) = database.read(lambda c: host_queries.listed(c, LIMIT, "nova", "north"))
    assert only["host"] == "h2"


def test_hosts_are_listed_with_who_switched_them_off_and_since_when(database):
    serve(database, "up", "off", "fenced", "old")
    save(database, *map(a_node, ["up", "off", "fenced", "old", "alone"]))

    def acting(name, operation, *arguments):
        actor = Actor(name, "console", "host change")
        database.write(lambda c: operation(audit_log.acting(c, actor), *arguments))

    acting("ann", service_operations.disable, ["off"], "disks")
    acting("ben", service_operations.disable, ["off"], "other disks")
    acting("cleo", service_operations.begin_maintenance, ["fenced"], "firmware")
    acting("dan", service_operations.force_down, ["fenced", "up"])
    acting("eve", service_operations.force_down, ["up"], False)
    database.write(lambda c: service_operations.disable(c, ["old"], "before the log"))
    rows = database.read(lambda c: host_queries.listed(c, LIMIT, "nova", by_whom=True))
    by_host = {each["host"]: (each["disabled_by"], each["forced_down_by"]) for each in rows}
    nobody = (None, None)
    assert by_host == {
        "up": nobody,
        "off": ("ann", None),
        "fenced": ("cleo", "dan"),
        "old": nobody,
        "alone": nobody,
    }
    since = {each["host"]: each["disabled_since"] for each in rows}
    assert [host for host, moment in since.items() if moment] == ["off", "fenced"]
    for each in rows:
        shown = database.read(lambda c, h=each["host"]: host_queries.show(c, h, LIMIT))
        assert shown["disabled_since"] == each["disabled_since"]
        assert shown["forced_down_by"] == each["forced_down_by"]


def test_hosts_are_listed_by_aggregate_and_state(database):
    hosts = ["fine", "off", "serviced", "silent", "fenced"]
    serve(database, *hosts)
    save(database, *map(a_node, [*hosts, "alone"]))
    database.write(lambda c: service_operations.disable(c, ["off", "serviced", "silent"], "disks"))
    database.write(lambda c: service_operations.begin_maintenance(c, ["serviced"]))
    database.write(lambda c: service_operations.force_down(c, ["fenced"]))
    old = "UPDATE services SET last_seen_up = '2020-01-01 00:00:00' WHERE host = 'silent'"
    execute(database, old)
    database.write(lambda c: aggregates.create(c, "rack", ["off", "silent", "gone"], {}))

    def listed(*filters):
        rows = database.read(lambda c: host_queries.listed(c, LIMIT, "nova", None, *filters))
        return {row["host"] for row in rows}

    by_state = {state: listed(None, {state}) for state in STATES}
    assert by_state == {
        "up": {"fine"},
        "disabled": {"off"},
        "maintenance": {"serviced"},
        "down": {"silent"},
        "forced_down": {"fenced"},
        "unserved": {"alone"},
    }
    assert listed("RACK") == {"off", "silent"}
    assert listed("rack", {"down", "up"}) == {"silent"}
    with pytest.raises(NotFound, match="did you mean rack"):
        listed("rak")


def test_percentages_are_of_what_may_be_allocated(database):
    used = {"vcpus_used": 16, "memory_mb_used": 49152, "local_gb_used": 1100}
    ratios = {"cpu_allocation_ratio": 4.0, "ram_allocation_ratio": 1.5}
    save(database, a_node("h1", **used, **ratios))
    (row,) = database.read(lambda c: host_queries.listed(c, LIMIT, "nova"))
    shares = [row[f"{each}_percent"] for each in ("vcpus", "memory", "disk")]
    assert shares == [25, 50, 110]


@pytest.mark.parametrize(("ratio", "share", "free"), [(None, 100, 0), (0.0, 100, 0), (2.0, 0, 32)])
def test_without_a_known_ratio_nothing_is_free_and_filters_agree(database, ratio, share, free):
    save(database, a_node("h1"))
    value = "NULL" if ratio is None else ratio
    execute(database, f"UPDATE compute_nodes SET cpu_allocation_ratio = {value}")
    (row,) = database.read(lambda c: host_queries.listed(c, LIMIT, "nova"))
    shown = database.read(lambda c: host_queries.show(c, "h1", LIMIT))
    assert (row["vcpus_percent"], shown["free"]["vcpus"]) == (share, free)
    (square,) = database.read(lambda c: fleet.read_fleet(c, LIMIT, "nova"))
    assert 100 * square.shares[0] == share
    cache = HostCache(database, max_age=0.0)
    with cache.current() as hosts:
        passes = CoreFilter().mask(hosts, a_request(vcpus=1))[hosts.present]
        assert [*passes] == [free > 0]
        assert resources(hosts)[0].free[hosts.present] == [free]


def test_an_absurd_ratio_is_shown_all_the_same(database):
    save(database, a_node("h1", cpu_allocation_ratio=1.7e308))
    shown = database.read(lambda c: host_queries.show(c, "h1", LIMIT))
    assert shown["free"]["vcpus"] > 0
