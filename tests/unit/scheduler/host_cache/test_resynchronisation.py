# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: hosts that list other instances than are known are read again."""

import logging
import time
from threading import Event

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, instances
from scheduler.host_cache import cache as cache_module
from scheduler.host_cache.cache import HostCache
from scheduler.objects.instance import Instance
from tests.databases import a_node, an_instance, execute, save, serve
from tests.unit.scheduler.host_cache.interrupted import Interrupted
from tests.unit.scheduler.host_cache.pushing import deliver, seen, write

LONG_AGO = "'2001-01-01 00:00:00.000000'"


class Watched(Interrupted):
    """A database that counts its readings, and may not answer."""

    def __init__(self, engine):
        super().__init__(engine)
        self.readings = 0
        self.go = Event()
        self.go.set()

    def read(self, work):
        self.readings += 1
        assert self.go.wait(30)
        return super().read(work)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Wait for readings also on a busy machine."""
    monkeypatch.setattr(cache_module, "MISMATCH_TIMEOUT", 30.0)


@pytest.fixture
def cloud(database, caplog):
    """Return a database with two living hosts that have an instance each."""
    caplog.set_level(logging.INFO, "scheduler")
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    report(database, "h1", "u1")
    report(database, "h2", "u2")
    return Watched(database.engine)


@pytest.fixture
def cache(cloud):
    """Return a cache that has been read and is young for long."""
    found = HostCache(cloud, max_age=3600, reload_interval=3600)
    found.refresh()
    cloud.readings = 0
    return found


def report(database, host, *uuids, node=None):
    seen = [an_instance(uuid) for uuid in uuids]
    database.write(lambda c: instances.replace(c, host, node or host, seen))


def unnoticed(database, host, *uuids):
    """Change which instances a host has so that no reading of what has changed finds it."""
    execute(database, "DELETE FROM instances WHERE host = :host", host=host)
    report(database, host, *uuids)
    execute(database, f"UPDATE instances SET updated_at = {LONG_AGO} WHERE host = '{host}'")


def there(cache):
    """Return {host: uuids} as a decision sees it."""
    with cache.current() as hosts:
        return {
            hosts.get(row, "host"): sorted(hosts.instances.on(row)) for row in sorted(hosts.rows())
        }


def test_a_list_that_says_what_is_known_costs_nothing(cloud, cache):
    cache.update_instances("h1", [Instance(uuid="u3")])
    cache.delete_instance("h2", "u2")
    cache.sync_instances("h1", ["u1"])
    cache.sync_instances("h2", [])
    assert there(cache) == {"h1": ["u1"], "h2": []}
    assert cloud.readings == 0


@pytest.mark.parametrize("listed", [["u1", "u7"], ["u7"], []])
@pytest.mark.parametrize("rows", [["u1", "u8"], ["u8"], []])
def test_what_was_missed_is_known_with_the_next_decision(cloud, cache, rows, listed):
    unnoticed(cloud, "h1", *rows)
    cache.refresh()
    assert there(cache)["h1"] == ["u1"]
    cache.sync_instances("h1", listed)
    assert there(cache) == {"h1": sorted({*rows, *listed}), "h2": ["u2"]}
    if "u8" in rows:
        assert seen(cache)["h1"]["instances"]["u8"].vcpus == 1


def test_a_node_that_changed_unnoticed_is_read_too(cloud, cache):
    execute(
        cloud,
        f"UPDATE compute_nodes SET vcpus = 5, generation = 9, updated_at = {LONG_AGO}"
        " WHERE host = 'h1'",
    )
    cache.refresh()
    assert seen(cache)["h1"]["vcpus_total"] == 16
    cache.sync_instances("h1", [])
    assert there(cache)["h1"] == ["u1"]
    assert seen(cache)["h1"]["vcpus_total"] == 5
    assert seen(cache)["h1"]["generation"] == 9


def test_a_node_that_is_gone_unnoticed_is_gone(cloud, cache):
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
    cache.sync_instances("h1", ["u7"])
    assert there(cache) == {"h2": ["u2"]}


def test_what_was_reserved_on_a_host_stays_when_it_is_read_again(cloud, cache):
    before = seen(cache)["h1"]["free_ram_mb"]
    with cache.current() as hosts:
        hosts.set(hosts.row_of("h1", "h1"), "free_ram_mb", before - 1)
    cache.sync_instances("h1", [])
    there(cache)
    assert seen(cache)["h1"]["free_ram_mb"] == before - 1


def test_a_difference_that_lasts_is_read_once_and_said_once(cloud, cache, caplog):
    for expected in (1, 1, 1):
        cache.sync_instances("h1", ["u7"])
        assert there(cache)["h1"] == ["u1", "u7"]
        assert cloud.readings == expected
    assert caplog.messages == [
        "Host h1 and the database disagree about its instances: 1 that only the host lists (u7),"
        " 1 that only the database has (u1)"
    ]
    cache.sync_instances("h1", ["u1"])
    assert there(cache)["h1"] == ["u1"]
    assert cloud.readings == 1
    assert caplog.messages[1:] == ["Host h1 and the database agree about its instances again"]


def test_a_thousand_hosts_that_differ_are_one_reading(cloud, caplog):
    names = [f"n{number:04}" for number in range(1000)]
    save(cloud, *map(a_node, names))
    serve(cloud, *names)
    cache = HostCache(cloud, max_age=3600, reload_interval=3600)
    there(cache)
    cloud.readings = 0
    statements = []
    sa.event.listen(cloud.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    for name in names:
        cache.sync_instances(name, ["u7"])
    found = there(cache)
    assert all(found[name] == ["u7"] for name in names)
    assert cloud.readings == 1
    assert sum("SELECT instances" in each for each in statements) == 1 + 1000 // 500
    there(cache)
    assert cloud.readings == 1


def test_an_instance_that_is_being_built_is_no_difference(cloud, cache):
    with cache.current() as hosts:
        cache._tracker.add_claim(hosts.row_of("h1", "h1"), Instance(uuid="u5"))
    cache.sync_instances("h1", ["u1", "u5"])
    cache.sync_instances("h1", ["u1"])
    assert there(cache)["h1"] == ["u1", "u5"]
    assert cloud.readings == 0


def test_unknown_hosts_are_no_reason_to_ask(cloud, cache, caplog):
    for _ in range(3):
        cache.update_instances("h9", [Instance(uuid="u1")])
        cache.sync_instances("h9", ["u7"])
        cache.sync_instances("H1", ["u7"])
        cache.delete_instance("h9", "u6")
        assert sorted(there(cache)) == ["h1", "h2"]
    assert (cloud.readings, caplog.messages) == (0, [])
    serve(cloud, "h9")
    deliver(cache, write(cloud, "h9", ["u8"]))
    cache.refresh()
    assert there(cache)["h9"] == ["u7", "u8"]
    cache.sync_instances("h9", ["u8"])
    assert there(cache)["h9"] == ["u8"]


def test_the_nodes_of_a_host_are_compared_together(cloud):
    save(cloud, a_node("h3", "n1"), a_node("h3", "n2"))
    serve(cloud, "h3")
    report(cloud, "h3", "u3", node="n1")
    report(cloud, "h3", "u4", node="n2")
    cache = HostCache(cloud, max_age=3600, reload_interval=3600)
    there(cache)
    cloud.readings = 0
    cache.sync_instances("h3", ["u4", "u3"])
    there(cache)
    assert cloud.readings == 0
    execute(cloud, "DELETE FROM instances WHERE node = 'n2'")
    cache.sync_instances("h3", ["u3"])
    with cache.current() as hosts:
        on = {n: sorted(hosts.instances.on(hosts.row_of("h3", n))) for n in ("n1", "n2")}
    assert on == {"n1": ["u3"], "n2": []}


def test_a_complete_reading_ends_disputes_too(cloud, cache):
    unnoticed(cloud, "h1")
    cache.sync_instances("h1", [])
    cache._loaded_at = float("-inf")
    cache.refresh()
    assert there(cache)["h1"] == []
    assert cloud.readings == 1


def test_who_asks_for_an_old_view_does_not_wait(cloud, cache):
    cache.sync_instances("h1", ["u7"])
    seen(cache)
    cache.nodenames(1e9)
    assert cloud.readings == 0


def test_what_is_no_longer_tracked_is_not_disputed(cloud, cache, caplog):
    cache.sync_instances("h1", ["u7"])
    cache.forget_cast_instances()
    assert there(cache)["h1"] == ["u1"]
    assert cloud.readings == 0


def test_a_host_that_is_gone_disputes_nothing(cloud, cache):
    cache.sync_instances("h1", ["u7"])
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    cache.refresh()
    assert there(cache) == {"h2": ["u2"]}
    assert cloud.readings == 1


def test_a_database_that_is_gone_is_in_nobodys_way(cloud, cache):
    unnoticed(cloud, "h1")
    cache.sync_instances("h1", ["u7"])
    cloud.gone = True
    for _ in range(2):
        assert there(cache)["h1"] == ["u1", "u7"]
    cloud.gone = False
    assert there(cache)["h1"] == ["u7"]


def test_a_database_that_hangs_is_waited_for_a_little(cloud, cache, monkeypatch):
    monkeypatch.setattr(cache_module, "MISMATCH_TIMEOUT", 0.05)
    unnoticed(cloud, "h1")
    cache.sync_instances("h1", ["u7"])
    cloud.go.clear()
    began = time.monotonic()
    assert there(cache)["h1"] == ["u1", "u7"]
    assert time.monotonic() - began < 10
    cloud.go.set()
    cache._wait_for_refresh(30)
    assert there(cache)["h1"] == ["u7"]


def test_a_push_that_is_faster_than_the_reading_is_not_lost(cloud, cache):
    cache.sync_instances("h1", ["u1", "u9"])
    cloud.meanwhile = lambda: deliver(cache, write(cloud, "h1", ["u1", "u3"]))
    cache.refresh()
    assert seen(cache)["h1"]["instances"].keys() == {"u1", "u3", "u9"}
    # What was read was old: it is asked for again.
    assert (there(cache)["h1"], cloud.readings) == (["u1", "u3", "u9"], 2)


def test_a_list_that_comes_during_the_reading_is_read_about_next(cloud, cache):
    cache.sync_instances("h1", ["u7"])
    cloud.meanwhile = lambda: cache.sync_instances("h1", ["u8"])
    cache.refresh()
    unnoticed(cloud, "h1")
    assert (there(cache)["h1"], cloud.readings) == (["u8"], 2)


def test_casts_are_taken_in_in_the_order_in_which_they_came(cache, monkeypatch):
    """Whoever has the lock first takes in what others wait to say as well."""
    came = []
    monkeypatch.setattr(cache._tracker, "add_casts", lambda host, *_: came.append(host))
    cache._casts.append(lambda _: came.append("earlier"))
    cache.update_instances("later", [])
    cache.update_instances("last", [])
    assert came == ["earlier", "later", "last"]
