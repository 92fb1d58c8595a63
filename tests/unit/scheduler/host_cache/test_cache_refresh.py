# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache: how it follows the database."""

import logging
import shutil
import time
from itertools import count
from threading import Barrier, Event, Lock, Thread

import pytest
import sqlalchemy as sa

from inventory import aggregates, compute_nodes, instances, services
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.host_state import HostState
from tests.databases import a_node, an_instance, execute, save, serve
from tests.fixtures.daemons.process import PATIENCE

LONG_AGO = "'2001-01-01 00:00:00.000000'"


@pytest.fixture
def reads(cloud):
    """Return a list to which every statement that reads whole nodes adds the number of ids."""
    seen = []

    def note(_connection, _cursor, statement, parameters, *_):
        if "compute_nodes.cpu_info" in statement:
            one_by_one = "compute_nodes.id IN" in statement
            seen.append(len(parameters) if one_by_one else "all")

    sa.event.listen(cloud.engine, "before_cursor_execute", note)
    return seen


def names(cache):
    with cache.current() as hosts:
        return sorted(hosts.get(row, "host") for row in hosts.rows())


def look(cache, host, *attributes):
    """Return attributes of a host as they are in a fresh cache."""
    with cache.current() as hosts:
        state = HostState.of(hosts, hosts.row_of(host, host))
        found = tuple(getattr(state, name) for name in attributes)
    return found[0] if len(found) == 1 else found


def test_the_first_look_loads_everything(cloud):
    def work(connection):
        aggregates.create(connection, "a", ["h2"], {"availability_zone": "z"})
        instances.replace(connection, "h2", "h2", [an_instance("u1")])

    cloud.write(work)
    cache = HostCache(cloud, cell_uuid="c1")
    assert names(cache) == ["h1", "h2"]
    assert look(cache, "h1", "free_ram_mb", "cell_uuid", "unserved") == (65024, "c1", False)
    assert look(cache, "h1", "aggregates") == []
    (aggregate,) = look(cache, "h2", "aggregates")
    assert (aggregate.name, aggregate.metadata) == ("a", {"availability_zone": "z"})
    instance = look(cache, "h2", "instances")["u1"]
    assert (instance.host, instance.memory_mb, instance.vm_state) == ("h2", 1024, "active")


def test_a_host_is_in_the_cell_of_its_service(cloud):
    execute(cloud, "UPDATE services SET cell_uuid = 'c2' WHERE host = 'h2'")
    cache = HostCache(cloud, cell_uuid="c1")
    assert [look(cache, host, "cell_uuid") for host in ("h1", "h2")] == ["c1", "c2"]


def test_later_looks_read_only_the_nodes_that_changed(cloud, reads):
    cache = HostCache(cloud)
    names(cache)
    names(cache)
    assert reads == ["all"]
    save(cloud, a_node("h2", free_ram_mb=77))
    assert look(cache, "h2", "free_ram_mb") == 77
    names(cache)
    assert reads == ["all", 1]


def test_a_young_view_asks_the_database_nothing(cloud):
    cache = HostCache(cloud, max_age=1000.0)
    names(cache)
    cloud.engine.dispose()
    statements = []
    sa.event.listen(cloud.engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    assert names(cache) == ["h1", "h2"]
    assert statements == []


def test_an_old_view_is_read_anew(cloud, reads):
    cache = HostCache(cloud, reload_interval=0)
    names(cache)
    names(cache)
    assert reads == ["all", "all"]


def test_nodes_come_and_go(cloud):
    cache = HostCache(cloud)
    assert names(cache) == ["h1", "h2"]
    serve(cloud, "h3")
    save(cloud, a_node("h3"))
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    assert names(cache) == ["h2", "h3"]
    assert look(cache, "h3", "unserved") is False
    save(cloud, a_node("h1", vcpus=5))
    assert names(cache) == ["h1", "h2", "h3"]
    assert look(cache, "h1", "vcpus_total") == 5


def test_a_node_that_was_replaced_between_two_looks(cloud):
    cache = HostCache(cloud)
    names(cache)
    cloud.write(lambda c: compute_nodes.delete(c, "h1", ["h1"]))
    save(cloud, a_node("h1", uuid=None, vcpus=5))
    assert names(cache) == ["h1", "h2"]
    assert look(cache, "h1", "vcpus_total") == 5


def test_a_row_that_is_gone_altogether_is_noticed_by_a_reload(cloud):
    cache = HostCache(cloud, reload_interval=0)
    names(cache)
    execute(cloud, "DELETE FROM compute_nodes WHERE host = 'h1'")
    assert names(cache) == ["h2"]


def test_switches_of_services_are_seen_at_once(cloud):
    cache = HostCache(cloud)
    look(cache, "h1", "service_disabled")
    (first, _) = serve(cloud, "h1", "h2")
    cloud.write(lambda c: services.disable_automatically(c, [first], "libvirt is gone"))
    seen = look(cache, "h1", "service_disabled", "disabled_reason")
    assert seen == (True, "AUTO: libvirt is gone")
    assert look(cache, "h2", "service_disabled") is False
    cloud.write(lambda c: services.enable_automatically(c, [first]))
    assert look(cache, "h1", "service_disabled", "disabled_reason") == (False, None)


def test_an_earlier_state_is_not_taken_for_a_change(cloud):
    cache = HostCache(cloud)
    (first, _) = serve(cloud, "h1", "h2")
    cloud.write(lambda c: services.disable_automatically(c, [first], "libvirt is gone"))
    assert look(cache, "h1", "service_disabled") is True
    # As at a member of a cluster that is late, and goes on to be so.
    execute(cloud, "UPDATE services SET disabled = 0")
    execute(cloud, "UPDATE revisions SET revision = revision - 2")
    assert look(cache, "h1", "service_disabled") is True
    execute(cloud, "UPDATE revisions SET revision = revision + 1")
    assert look(cache, "h1", "service_disabled") is True
    # Once it has caught up, what comes next is read.
    execute(cloud, "UPDATE revisions SET revision = revision + 2")
    assert look(cache, "h1", "service_disabled") is False


def test_heartbeats_age_with_the_clock_of_this_process(cloud):
    execute(
        cloud,
        "UPDATE services SET last_seen_up = strftime('%Y-%m-%d %H:%M:%S.000000', 'now', :by)",
        by="-75 seconds",
    )
    cache = HostCache(cloud, max_age=1000.0)
    first = look(cache, "h1", "heartbeat_age")
    assert first == pytest.approx(75, abs=5)
    assert look(cache, "h1", "heartbeat_age") > first


@pytest.mark.parametrize(("interval", "seconds"), [(10.0, 11.0), (1.0, 2.0)])
def test_a_host_that_ceases_to_beat_is_noticed_beside_others(cloud, monkeypatch, interval, seconds):
    cache, real = HostCache(cloud), time.monotonic
    cache.heartbeat_interval = interval
    names(cache)
    execute(
        cloud, "UPDATE services SET last_seen_up = datetime('now', '-75 seconds') WHERE host = 'h1'"
    )
    assert look(cache, "h1", "heartbeat_age") == pytest.approx(0, abs=1.5)
    monkeypatch.setattr("scheduler.host_cache.cache.time.monotonic", lambda: real() + seconds)
    assert look(cache, "h1", "heartbeat_age") == pytest.approx(75, abs=5)
    assert look(cache, "h2", "heartbeat_age") < 60


def test_heartbeats_do_not_age_in_a_view_that_is_meant_to_be_old(cloud):
    cache = HostCache(cloud)
    ages = []
    for _ in range(2):
        with cache.current(1000.0) as hosts:
            ages.append(hosts.heartbeat_age.tolist())
    assert ages[0] == ages[1]


def test_a_host_without_compute_service_is_known_and_not_served(database):
    save(database, a_node("h1"))
    cache = HostCache(database)
    assert look(cache, "h1", "unserved", "heartbeat_age") == (True, None)
    serve(database, "h1")
    assert look(cache, "h1", "unserved") is False
    assert look(cache, "h1", "heartbeat_age") == pytest.approx(0, abs=5)


def test_a_host_without_a_service_is_reported_once(database, caplog):
    save(database, a_node("h1"))
    cache = HostCache(database, reload_interval=0)
    for _ in range(3):
        names(cache)
    assert caplog.text.count("Host h1 has a compute node but no compute service") == 1


def test_aggregates_are_seen_at_once(cloud):
    cache = HostCache(cloud)
    assert look(cache, "h1", "aggregates") == look(cache, "h2", "aggregates") == []
    cloud.write(lambda c: aggregates.create(c, "a", ["h1", "h9"], {"k": "1"}))
    cloud.write(lambda c: aggregates.create(c, "b", ["h1"], {}))
    assert [each.name for each in look(cache, "h1", "aggregates")] == ["a", "b"]
    assert look(cache, "h2", "aggregates") == []
    cloud.write(lambda c: aggregates.create(c, "c", ["H2"], {}))
    # Letter case counts.
    assert look(cache, "h2", "aggregates") == []
    with cache.current() as hosts:
        # Equal sets of aggregates are one value to filters.
        assert len(set(hosts.codes("aggregates").tolist())) == 2


def test_instances_come_and_go(cloud):
    cache = HostCache(cloud)
    assert look(cache, "h1", "instances") == {}
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1"), an_instance("u2")]))
    assert sorted(look(cache, "h1", "instances")) == ["u1", "u2"]
    cloud.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u2")]))
    cloud.write(lambda c: instances.replace(c, "gone", "gone", [an_instance("u9")]))
    assert sorted(look(cache, "h1", "instances")) == ["u2"]
    execute(cloud, "DELETE FROM instances")
    assert sorted(look(HostCache(cloud, reload_interval=0), "h1", "instances")) == []


def test_changes_that_were_missed_are_healed_by_a_reload_which_says_so(cloud, caplog):
    execute(cloud, f"UPDATE compute_nodes SET updated_at = {LONG_AGO}")
    cache = HostCache(cloud, reload_interval=3600)
    assert look(cache, "h1", "vcpus_total") == 16
    execute(cloud, "UPDATE compute_nodes SET vcpus = 5, generation = 9 WHERE host = 'h1'")
    assert look(cache, "h1", "vcpus_total") == 16
    cache._reload_interval = 0
    with caplog.at_level(logging.WARNING):
        assert look(cache, "h1", "vcpus_total") == 5
    assert "had missed changes of 1 node and had wrong figures of 0 others: h1" in caplog.text


def test_a_row_without_a_time_is_read_like_others(cloud):
    cache = HostCache(cloud, reload_interval=0)
    names(cache)
    execute(cloud, "UPDATE compute_nodes SET updated_at = NULL, created_at = NULL, generation = 9")
    assert names(cache) == ["h1", "h2"]
    execute(cloud, "UPDATE compute_nodes SET generation = 10")
    assert names(cache) == ["h1", "h2"]


class Hanging(Database):
    """A database that answers when it is told to."""

    def __init__(self, engine):
        super().__init__(engine)
        self.go = Event()
        self.go.set()

    def read(self, work):
        assert self.go.wait(PATIENCE)
        return super().read(work)


def test_a_database_that_hangs_costs_a_caller_no_more_than_the_timeout(cloud):
    hanging = Hanging(cloud.engine)
    cache = HostCache(hanging, timeout=PATIENCE)
    assert names(cache) == ["h1", "h2"]
    cache._timeout = 0.2
    hanging.go.clear()
    with pytest.raises(DatabaseUnavailable, match=r"no answer within 0\.2 s"):
        names(cache)
    hanging.go.set()
    assert names(HostCache(hanging, timeout=PATIENCE)) == ["h1", "h2"]


def test_a_database_that_is_gone_is_an_error_at_once(cloud, tmp_path):
    cache = HostCache(cloud)
    names(cache)
    cloud.close()
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(DatabaseUnavailable, match="unable to open database file"):
        names(cache)


class Timed(Database):
    """A database that notes when each reading begins, and when it has ended."""

    def __init__(self, engine):
        super().__init__(engine)
        self._numbers, self._lock = count(), Lock()
        self.readings = []

    def tick(self):
        with self._lock:
            return next(self._numbers)

    def read(self, work):
        began = self.tick()
        found = super().read(work)
        self.readings.append((began, self.tick()))
        return found


def test_many_callers_share_refreshes_and_none_gets_one_that_began_before_he_asked(cloud):
    database, callers, times = Timed(cloud.engine), 16, 20
    cache, barrier, asked_and_served = HostCache(database), Barrier(callers), []

    def ask():
        barrier.wait(PATIENCE)
        for _ in range(times):
            asked = database.tick()
            assert names(cache) == ["h1", "h2"]
            asked_and_served.append((asked, database.tick()))

    threads = [Thread(target=ask) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked_and_served) == callers * times
    for asked, served in asked_and_served:
        assert any(asked < began and ended < served for began, ended in database.readings)
    assert len(database.readings) < callers * times
