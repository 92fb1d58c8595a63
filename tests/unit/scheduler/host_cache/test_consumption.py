# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: what decisions took is remembered until agents report."""

import pytest

from inventory import compute_nodes, instances
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache import assumed
from scheduler.host_cache.cache import HostCache
from tests.builders import a_request
from tests.databases import an_instance, execute

LATER = "strftime('%Y-%m-%d %H:%M:%S.000000', 'now', '+9 seconds')"
REBUILD = {"_nova_check_type": ["rebuild"]}
FREE = 65024


def take(cache, host, *uuids, **changes):
    """Decide for instances of 2048 MB on a host, and remember it."""
    spec = a_request(memory_mb=2048, force_hosts=[host], **changes)
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, uuids), Plan())
    cache.consume(decision, spec)
    return decision


def free(cache, host):
    with cache.current() as hosts:
        return hosts.get(hosts.row_of(host, host), "free_ram_mb")


def there(cache, host):
    with cache.current() as hosts:
        return sorted(hosts.instances.on(hosts.row_of(host, host)))


def report(database, host, free_ram_mb):
    """Write a node as its agent will in a few seconds."""
    execute(
        database,
        f"UPDATE compute_nodes SET free_ram_mb = :free, updated_at = {LATER},"
        " generation = generation + 1 WHERE host = :host",
        host=host,
        free=free_ram_mb,
    )


@pytest.mark.parametrize("reload_interval", [0, 3600])
def test_what_was_taken_stays_taken_until_the_node_is_written(cloud, reload_interval):
    cache = HostCache(cloud, reload_interval=reload_interval)
    take(cache, "h1", "u1", "u2")
    for _ in range(2):
        assert free(cache, "h1") == FREE - 2 * 2048
        assert there(cache, "h1") == ["u1", "u2"]
        assert free(cache, "h2") == FREE
    report(cloud, "h1", 100)
    assert free(cache, "h1") == 100
    # The instances have not been seen yet.
    assert there(cache, "h1") == ["u1", "u2"]


def test_a_node_that_was_written_before_changes_nothing(cloud):
    cache = HostCache(cloud)
    take(cache, "h1", "u1")
    execute(cloud, "UPDATE compute_nodes SET free_ram_mb = 1, generation = generation + 1")
    assert free(cache, "h1") == FREE - 2048
    assert free(cache, "h2") == 1


def test_a_shortage_and_a_rebuild_take_nothing(cloud):
    cache = HostCache(cloud)
    assert take(cache, "h9", "u1").shortage
    assert take(cache, "h1", "u1", scheduler_hints=REBUILD).placements
    assert free(cache, "h1") == FREE
    assert there(cache, "h1") == []


def test_a_host_that_is_gone_by_now_is_passed_over(cloud):
    cache = HostCache(cloud)
    spec = a_request(force_hosts=["h1"])
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, ["u1"]), Plan())
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    with cache.current() as hosts:
        assert hosts.row_of("h1", "h1") is None
    cache.consume(decision, spec)
    assert there(cache, "h2") == []


def test_an_instance_without_uuid_takes_its_room(cloud):
    cache = HostCache(cloud)
    take(cache, "h1", None)
    assert free(cache, "h1") == FREE - 2048
    assert there(cache, "h1") == []


def test_an_instance_that_is_sent_elsewhere_is_no_longer_expected(cloud):
    cache = HostCache(cloud)
    take(cache, "h1", "u1")
    take(cache, "h2", "u1")
    assert (there(cache, "h1"), there(cache, "h2")) == ([], ["u1"])
    take(cache, "h2", "u1")
    assert there(cache, "h2") == ["u1"]


@pytest.mark.parametrize("reload_interval", [0, 3600])
def test_an_instance_that_was_reported_is_no_promise_any_more(cloud, monkeypatch, reload_interval):
    cache = HostCache(cloud, reload_interval=reload_interval)
    monkeypatch.setattr(assumed, "LIFETIME", 0.0)
    take(cache, "h1", "u1")
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    # Reported by the time that it is assumed no longer: it stays.
    assert there(cache, "h1") == ["u1"]
    cloud.write(lambda c: instances.replace(c, "h1", "h1", []))
    assert there(cache, "h1") == []


@pytest.mark.parametrize("reload_interval", [0, 3600])
def test_an_instance_that_moves_is_expected_while_its_old_host_reports_it(cloud, reload_interval):
    cache = HostCache(cloud, reload_interval=reload_interval)
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))
    assert there(cache, "h1") == ["u1"]
    take(cache, "h2", "u1")
    for vcpus in (1, 2):
        seen = [an_instance("u1", vcpus=vcpus)]
        cloud.write(lambda c, seen=seen: instances.replace(c, "h1", "h1", seen))
        assert (there(cache, "h1"), there(cache, "h2")) == (["u1"], ["u1"])
    cloud.write(lambda c: instances.replace(c, "h2", "h2", [an_instance("u1")]))
    cloud.write(lambda c: instances.replace(c, "h1", "h1", []))
    assert (there(cache, "h1"), there(cache, "h2")) == ([], ["u1"])
    assert there(HostCache(cloud), "h2") == ["u1"]


@pytest.mark.parametrize("reload_interval", [0, 3600])
def test_an_alternate_host_ends_the_wait_of_the_first(cloud, reload_interval):
    cache = HostCache(cloud, reload_interval=reload_interval)
    take(cache, "h1", "u1")
    cloud.write(lambda c: instances.replace(c, "h2", "h2", [an_instance("u1")]))
    assert there(cache, "h2") == ["u1"]
    assert there(HostCache(cloud), "h1") == []


def test_promises_on_a_node_that_is_deleted_are_gone_with_it(cloud, monkeypatch):
    cache = HostCache(cloud, reload_interval=0)
    take(cache, "h1", "u1")
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    assert there(cache, "h2") == []
    monkeypatch.setattr(assumed, "LIFETIME", 0.0)
    take(cache, "h2", "u1")
    assert there(cache, "h2") == []


@pytest.mark.parametrize("reload_interval", [0, 3600])
def test_a_promise_that_is_never_kept_runs_out(cloud, monkeypatch, reload_interval):
    cache = HostCache(cloud, reload_interval=reload_interval)
    monkeypatch.setattr(assumed, "LIFETIME", 0.0)
    take(cache, "h1", "u1", "u2")
    assert there(cache, "h1") == []
    # What they took is given back only by their host's next report.
    assert free(cache, "h1") == FREE - 2 * 2048


def test_deciding_on_a_working_copy_leaves_the_view_alone(cloud):
    cache = HostCache(cloud)
    spec = a_request(memory_mb=2048)
    with cache.current() as hosts:
        decide(hosts.working_copy(), Request(spec, ["u1", "u2"]), Plan())
    assert free(cache, "h1") + free(cache, "h2") == 2 * FREE
