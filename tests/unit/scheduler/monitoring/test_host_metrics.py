# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.monitoring.host_metrics: states, sums and ages of the hosts in a cache."""

import math
from itertools import product

import pytest
from prometheus_client import CollectorRegistry

from inventory import aggregates
from inventory.queries import host_queries
from inventory.queries.fleet import read_fleet
from scheduler.host_cache.cache import HostCache
from scheduler.monitoring.host_metrics import STATES, HostMetrics
from tests.databases import a_conf, a_node, execute, save, serve

HOSTS = ("ready", "off", "under", "late", "forced", "alone")
MIB, GIB = 2**20, 2**30


@pytest.fixture
def cloud(database):
    """Return a database with a host in each state, of which the first two use something."""
    used = {"vcpus_used": 3, "free_ram_mb": 65024 - 2048, "free_disk_gb": 990}
    save(database, *(a_node(host, **(used if host == "ready" else {})) for host in HOSTS))
    serve(database, *HOSTS[:-1])
    for host, change in {
        "off": "disabled = 1",
        "under": "disabled = 1, maintenance = 'new fans'",
        "late": "last_seen_up = '2001-01-01 00:00:00.000000'",
        "forced": "forced_down = 1, disabled = 1",
    }.items():
        execute(database, f"UPDATE services SET {change} WHERE host = '{host}'")
    return database


@pytest.fixture
def cache(cloud):
    return HostCache(cloud)


def measured(cache, database_time=lambda: None):
    registry = CollectorRegistry()
    registry.register(HostMetrics(cache, a_conf(), database_time))

    def value(name, **labels):
        """Return a sample, of the default zone where there are zones and none is named."""
        zone = {"zone": "nova"} if "state" in labels else {}
        return registry.get_sample_value(f"berthmaster_{name}", zone | labels)

    return value


def read(cache):
    with cache.current():
        return cache


def test_each_host_is_in_one_state(cache):
    value = measured(read(cache))
    assert {state: value("hosts", state=state) for state in STATES} == dict.fromkeys(STATES, 1)


def test_metrics_lists_and_pages_put_each_host_in_the_same_state(database):
    kinds = product((0, 1), ("NULL", "''", "'fans'"), (0, 1), ("2001-01-01", "now"))
    changes = {f"h{number}": each for number, each in enumerate(kinds)}
    save(database, *map(a_node, [*changes, "alone"]))
    serve(database, *changes)
    for host, (disabled, maintenance, forced_down, seen) in changes.items():
        values = f"disabled = {disabled}, maintenance = {maintenance}, forced_down = {forced_down}"
        if seen != "now":
            values += f", last_seen_up = '{seen}'"
        execute(database, f"UPDATE services SET {values} WHERE host = '{host}'")
    for host in (*changes, "alone"):
        zone = {"availability_zone": host}
        database.write(lambda c, h=host, z=zone: aggregates.create(c, h, [h], z))
    value = measured(read(HostCache(database)))
    nodes = database.read(lambda c: read_fleet(c, 60.0, "nova"))
    assert {each.state for each in nodes} == {*STATES}
    for each in nodes:
        assert value("hosts", state=each.state, zone=each.host) == 1, changes.get(each.host)
        wanted = (60.0, "nova", None, each.host, {each.state})
        (row,) = database.read(lambda c, w=wanted: host_queries.listed(c, *w))
        assert row["state"] == each.state


def test_resources_are_summed_by_state(cache):
    value = measured(read(cache))

    def amounts(name, state):
        return tuple(value(name, state=state, kind=kind) for kind in ("total", "used", "limit"))

    assert amounts("vcpus", "up") == (16, 3, 64)
    assert amounts("memory_bytes", "up") == (65536 * MIB, 2560 * MIB, 1.5 * 65536 * MIB)
    assert amounts("disk_bytes", "up") == (1000 * GIB, 10 * GIB, 1000 * GIB)
    assert amounts("vcpus", "disabled") == amounts("vcpus", "unserved") == (16, 0, 64)


def test_hosts_count_in_their_zones(cache, cloud):
    def zone(name, hosts, zones):
        cloud.write(lambda c: aggregates.create(c, name, hosts, {"availability_zone": zones}))

    zone("a", ["ready", "off"], "east")
    zone("b", ["late"], "south , east")
    value = measured(read(cache))

    def hosts(zone):
        return {state for state in STATES if value("hosts", state=state, zone=zone) == 1}

    assert hosts("east") == {"up", "disabled"}
    assert hosts("east,south") == {"down"}
    assert hosts("nova") == {"maintenance", "forced_down", "unserved"}
    assert value("vcpus", state="up", kind="used", zone="east") == 3
    assert value("vcpus", state="up", kind="used", zone="nova") == 0


@pytest.mark.parametrize("ratio", ["NULL", "0.0"])
def test_a_host_without_a_ratio_allocates_nothing(cache, cloud, ratio):
    execute(cloud, f"UPDATE compute_nodes SET cpu_allocation_ratio = {ratio}")
    value = measured(read(cache))
    assert value("vcpus", state="up", kind="limit") == 0


def test_what_hosts_have_gone_is_gone_from_the_sums(cache, cloud):
    read(cache)
    execute(cloud, "UPDATE compute_nodes SET deleted = id, generation = generation + 1")
    cache.refresh()
    cache.refresh()
    value = measured(cache)
    assert sum(value("hosts", state=state) for state in STATES) == 0
    assert value("agents_audit_age_seconds", percentile="100") is None


def test_ages_are_those_of_hosts_with_living_agents(cache, cloud):
    execute(
        cloud,
        "UPDATE compute_nodes SET updated_at = '2001-01-01 00:00:00.000000'"
        " WHERE host IN ('late', 'forced', 'alone')",
    )
    now = cloud.now()
    value = measured(read(cache), lambda: now + 100)
    assert 100 <= value("agents_audit_age_seconds", percentile="50") < 160
    assert 100 <= value("agents_audit_age_seconds", percentile="100") < 160
    execute(
        cloud,
        "UPDATE compute_nodes SET updated_at = '2001-01-01 00:00:00.000000',"
        " generation = generation + 1 WHERE host = 'off'",
    )
    value = measured(read(HostCache(cloud)), lambda: now)
    assert value("agents_audit_age_seconds", percentile="100") > 10**8
    assert value("agents_audit_age_seconds", percentile="50") < 60


def test_without_the_time_of_the_database_there_are_no_ages(cache):
    assert measured(read(cache))("agents_audit_age_seconds", percentile="100") is None


def test_a_cache_that_was_never_read_is_infinitely_old_and_empty(cache):
    value = measured(cache)
    assert value("view_age_seconds") == math.inf
    assert value("hosts", state="up") == 0
