# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.queries.hypervisor_queries: compute nodes as operators know them."""

import json

import pytest

from inventory import compute_nodes, instances, services
from inventory.errors import Malformed, NotFound, NotReported
from inventory.operations import service_operations
from inventory.queries import hypervisor_queries
from tests.databases import a_node, a_uuid, an_instance, save, serve

LIMIT = 60
BOOTED = 1_790_000_000


def listed(database, matching=None):
    rows = database.read(lambda c: hypervisor_queries.listed(c, LIMIT, matching))
    return [row["hypervisor_hostname"] for row in rows]


def show(database, name):
    return database.read(lambda c: hypervisor_queries.show(c, LIMIT, name))


def node_id(database, node):
    rows = database.read(compute_nodes.all_live)
    return next(row.id for row in rows if row.hypervisor_hostname == node)


def test_hypervisors_are_listed_with_the_state_of_their_service(database):
    serve(database, "h1", "h2", "h3")
    save(database, a_node("h1", "n1"), a_node("h2", "n2"), a_node("h3", "n3"), a_node("h4"))
    database.write(lambda c: service_operations.disable(c, ["h1"]))
    database.write(lambda c: service_operations.force_down(c, ["h2"]))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h3"]))
    rows = database.read(lambda c: hypervisor_queries.listed(c, LIMIT))
    # h4 has no service and is left out.
    assert [(row["hypervisor_hostname"], row["state"], row["status"]) for row in rows] == [
        ("n1", "up", "disabled"),
        ("n2", "down", "enabled"),
        ("n3", "up", "disabled"),
    ]
    assert rows[0]["id"] == node_id(database, "n1")
    assert rows[0]["uuid"] == a_uuid("h1 n1")


@pytest.mark.parametrize(
    ("matching", "found"),
    [
        (None, ["rack1-a", "rack2%a", "RACK_3"]),
        ("rack", ["rack1-a", "rack2%a", "RACK_3"]),
        ("-A", ["rack1-a"]),
        ("%", ["rack2%a"]),
        ("k_3", ["RACK_3"]),
        ("_", ["RACK_3"]),
    ],
)
def test_a_text_in_the_name(database, matching, found):
    names = ["rack1-a", "rack2%a", "RACK_3"]
    serve(database, *names)
    save(database, *map(a_node, names))
    assert listed(database, matching) == found


@pytest.mark.parametrize("matching", ["/", "\\", "' OR ''='"])
def test_a_text_in_no_name_is_refused(database, matching):
    serve(database, "rack1-a")
    save(database, a_node("rack1-a"))
    with pytest.raises(NotFound, match="there is no hypervisor with"):
        listed(database, matching)


def test_one_is_shown_with_all_its_figures(database):
    (service_id,) = serve(database, "h1")
    info = {"arch": "x86_64", "features": ["aes"]}
    save(database, a_node("h1", "n1", cpu_info=json.dumps(info), free_disk_gb=-3, running_vms=2))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"], "lamp"))
    row = show(database, "N1")
    assert row == {
        "id": node_id(database, "n1"),
        "uuid": a_uuid("h1 n1"),
        "hypervisor_hostname": "n1",
        "state": "up",
        "status": "disabled",
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8002000,
        "host_ip": "192.0.2.1",
        "service": {"id": service_id, "host": "h1", "disabled_reason": "in maintenance: lamp"},
        "vcpus": 16,
        "memory_mb": 65536,
        "local_gb": 1000,
        "vcpus_used": 0,
        "memory_mb_used": 512,
        "local_gb_used": 0,
        "free_ram_mb": 65024,
        "free_disk_gb": -3,
        "current_workload": None,
        "running_vms": 2,
        "disk_available_least": None,
        "cpu_info": info,
    }
    json.dumps(row)


@pytest.mark.parametrize(("text", "shown"), [("", {}), ("{}", {}), ("no json", "no json")])
def test_any_cpu_info_can_be_shown(database, text, shown):
    serve(database, "h1")
    save(database, a_node("h1", cpu_info=text))
    assert show(database, "h1")["cpu_info"] == shown


def test_the_names_of_one(database):
    serve(database, "h1", "h2")
    save(database, a_node("h1", "n1"), a_node("h2", "h1"), a_node("h2", "n2"))
    # A node's own name goes before that of a host.
    assert show(database, "h1")["hypervisor_hostname"] == "h1"
    assert show(database, " n2 ")["hypervisor_hostname"] == "n2"
    assert show(database, a_uuid("h1 n1").upper())["hypervisor_hostname"] == "n1"
    assert show(database, str(node_id(database, "n1")))["hypervisor_hostname"] == "n1"
    with pytest.raises(Malformed, match=r"'h2' is the name of several hypervisors: h1 \(\d+\), n2"):
        show(database, "h2")


@pytest.mark.parametrize("name", ["nowhere", "", "n%", "0", "999999"])
def test_names_that_there_are_none_of(database, name):
    serve(database, "h1")
    save(database, a_node("h1", "n1"))
    for question in (hypervisor_queries.servers, hypervisor_queries.find):
        with pytest.raises(NotFound, match="there is no hypervisor"):
            database.read(lambda c, question=question: question(c, name))


def test_one_without_a_service_is_not_shown(database):
    save(database, a_node("h1"))
    for question in (
        hypervisor_queries.show,
        lambda c, *a: hypervisor_queries.uptime(c, *a, BOOTED),
    ):
        with pytest.raises(NotFound, match="has lost its compute service: start berthmaster-agent"):
            database.read(lambda c, question=question: question(c, LIMIT, "h1"))


def test_stats_add_up_what_is_enabled(database):
    serve(database, "h1", "h2", "h3", "h4")
    save(
        database,
        a_node("h1", vcpus=4, free_disk_gb=10, running_vms=2),
        a_node("h2", vcpus=8, free_disk_gb=-3, running_vms=None),
    )
    save(database, a_node("h3", vcpus=16), a_node("h4", vcpus=32), a_node("unserved", vcpus=64))
    # Down, but not disabled.
    database.write(lambda c: service_operations.force_down(c, ["h2"]))
    database.write(lambda c: service_operations.disable(c, ["h3"]))
    database.write(lambda c: service_operations.begin_maintenance(c, ["h4"]))
    database.write(lambda c: services.register(c, ["h1"], services.SCHEDULER, 1))
    stats = database.read(hypervisor_queries.stats)
    assert stats == {
        "count": 2,
        "vcpus": 12,
        "memory_mb": 2 * 65536,
        "local_gb": 2000,
        "vcpus_used": 0,
        "memory_mb_used": 1024,
        "local_gb_used": 0,
        "free_ram_mb": 2 * 65024,
        "free_disk_gb": 7,
        "current_workload": 0,
        "running_vms": 2,
        "disk_available_least": 0,
    }
    json.dumps(stats)


def test_stats_of_no_hypervisors_are_zeros(database):
    assert set(database.read(hypervisor_queries.stats).values()) == {0}


def test_stats_leave_out_the_dead(database):
    serve(database, "h1")
    save(database, a_node("h1"))
    database.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    assert database.read(hypervisor_queries.stats)["count"] == 0


def test_servers_of_a_hypervisor_and_of_all_those_of_a_host(database):
    save(database, a_node("h1", "n1"), a_node("h1", "n2"), a_node("h2"))
    for host, node, uuid in (("h1", "n1", "u1"), ("h1", "n2", "u2"), ("h2", "h2", "u3")):
        see = [an_instance(uuid)]
        database.write(lambda c, h=host, n=node, s=see: instances.replace(c, h, n, s))
    assert database.read(lambda c: hypervisor_queries.servers(c, "n2")) == [
        {"uuid": "u2", "name": "name of u2", "hypervisor_hostname": "n2"}
    ]
    rows = database.read(lambda c: hypervisor_queries.servers(c, "h1"))
    assert [row["uuid"] for row in rows] == ["u1", "u2"]
    database.write(lambda c: instances.replace(c, "h2", "h2", []))
    assert database.read(lambda c: hypervisor_queries.servers(c, "h2")) == []


def uptime(database, now):
    return database.read(lambda c: hypervisor_queries.uptime(c, LIMIT, "h1", now))


def test_uptime_counts_from_the_moment_that_the_agent_noted(database):
    serve(database, "h1")
    save(database, a_node("h1", stats=json.dumps({"booted": str(BOOTED)})))
    row = uptime(database, BOOTED + 3 * 86400 + 3723.9)
    assert (row["hypervisor_hostname"], row["state"], row["status"]) == ("h1", "up", "enabled")
    assert row["booted_at"] == "2026-09-21T14:13:20Z"
    assert (row["uptime_seconds"], row["uptime"]) == (262923, "3 days, 1:02:03")
    # A clock that is behind makes nobody younger than born.
    assert uptime(database, BOOTED - 5)["uptime_seconds"] == 0


@pytest.mark.parametrize(
    "stats",
    [
        *("{}", None, "no json", "[1]", '{"booted": "long ago"}'),
        *('{"booted": 1e999}', '{"booted": 99999999999999999}', "[" * 10_000),
    ],
    ids=lambda each: str(each)[:30],
)
def test_uptime_that_nobody_noted(database, stats):
    serve(database, "h1")
    save(database, a_node("h1", stats=stats))
    with pytest.raises(NotReported, match="does not report the boot time of its host"):
        uptime(database, BOOTED)
