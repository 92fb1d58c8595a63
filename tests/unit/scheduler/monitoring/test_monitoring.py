# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.monitoring: the parts together, over a broker in memory."""

from importlib import metadata

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_reports.guru_meditation_report import TextGuruMeditation

from conf import opts
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.host_cache.cache import HostCache
from scheduler.messaging.server import RpcServer
from scheduler.monitoring import LAST, REFRESH_AFTER, Monitoring, Report, SchedulerChecks
from scheduler.request_trace import PLACED, RequestTrace
from scheduler.wire.context import RequestContext
from tests.databases import a_node, save, serve
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.status_page import StatusPage
from tests.status_tables import documented, served

DROPPED = {"decisions": lambda: 3, "notifications": lambda: 0}


class Endpoint:
    """Does nothing."""


@pytest.fixture
def conf(monkeypatch):
    """The process-wide options, which oslo.messaging insists on."""
    monkeypatch.setattr(TextGuruMeditation, "persistent_sections", [], raising=False)
    opts.register(cfg.CONF)
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    oslo_messaging.TransportURL.parse(cfg.CONF, "rabbit://")
    cfg.CONF.set_override("transport_url", "kombu+memory:///")
    yield cfg.CONF
    cfg.CONF.clear_override("transport_url")
    cfg.CONF.clear_override("bind", group="status")
    cfg.CONF.reset()


@pytest.fixture
def server(conf):
    transport = oslo_messaging.get_rpc_transport(conf)
    found = RpcServer(transport, "watched", "server", [Endpoint()], 1)
    yield found
    transport.cleanup()


@pytest.fixture
def page(conf):
    found = StatusPage(free_ports(1)[0])
    conf.set_override("bind", found.options["status"]["bind"], group="status")
    return found


@pytest.fixture
def cache(database):
    save(database, a_node("h1"))
    serve(database, "h1")
    return HostCache(database)


def test_without_an_address_there_is_the_report_alone(conf, database, cache, server):
    watching = Monitoring(conf)
    watching.start(database, cache, server, DROPPED)
    watching.stop()
    assert [type(each).__name__ for each in watching.observers] == ["Report"]
    assert [title for title, _ in TextGuruMeditation.persistent_sections] == ["Scheduler"]


def test_it_is_well_once_it_is_subscribed_and_reads_the_cache_by_itself(
    conf, database, cache, server, page
):
    watching = Monitoring(conf)
    watching.start(database, cache, server, DROPPED)
    try:
        code, report = page.health()
        assert code == 503
        assert report["broker"]["problem"] == "requests are not received: not subscribed yet"
        assert report["database"]["healthy"]
        assert report["view"]["healthy"]
        server.start()
        measures = page.measures()
        assert measures("hosts", zone="nova", state="up") == 1
        assert measures("decisions_dropped_total") == 3
        assert measures("notifications_dropped_total") == 0
        assert measures("pending_claims") == 0
        assert measures("build_info", version=metadata.version("berthmaster")) == 1
        assert measures("view_age_seconds") < 60
        assert measures("requests_in_flight") == 0
        assert measures("agents_audit_age_seconds", percentile="100") < 60
        server.drain()
    finally:
        watching.stop()
    assert page.health() == (0, {})


def test_an_old_cache_is_read_again_and_a_young_one_is_not(conf, database, cache, server):
    ask = SchedulerChecks(conf, database, cache, server).all["view"]
    ask()
    read = cache._read_at
    ask()
    assert cache._read_at == read
    cache._read_at -= REFRESH_AFTER
    ask()
    assert cache.age < REFRESH_AFTER


def test_a_cache_that_cannot_be_read_is_not_well(conf, database, cache, server, monkeypatch):
    def failing(*_):
        raise DatabaseUnavailable("gone")

    ask = SchedulerChecks(conf, database, cache, server).all["view"]
    monkeypatch.setattr(Database, "read", failing)
    with pytest.raises(DatabaseUnavailable, match="gone"):
        ask()


def test_the_page_of_the_documentation_has_all_measures(conf, database, cache, server, page):
    watching = Monitoring(conf)
    watching.start(database, cache, server, DROPPED)
    try:
        assert served(page.measures().families) == documented("scheduler")
    finally:
        watching.stop()


class Requests:
    """A server that handles two."""

    in_flight = 2


def a_trace(*uuids):
    return RequestTrace(RequestContext(), uuids, 0.0, PLACED, total=0.0025)


def test_the_report_has_the_cache_the_queue_and_the_last_requests(conf, database):
    monitoring, cache = Monitoring(conf), HostCache(database)
    monitoring.start(database, cache, Requests(), {})
    (report,) = monitoring.observers
    report.on_finished(a_trace("u1", "u2"))
    report.on_finished(a_trace())
    ((title, section),) = TextGuruMeditation.persistent_sections
    model = section()
    model.set_current_view_type("text")
    text = str(model)
    assert title == "Scheduler"
    assert "seconds since the host cache was read = inf" in text
    assert "requests in flight = 2" in text
    assert "u1 placed in 2.5 ms" in text
    assert "(no uuid) placed in 2.5 ms" in text
    with cache.current():
        pass
    assert float(report.facts(cache, Requests())["seconds since the host cache was read"]) < 60


def test_only_the_last_requests_are_kept(database):
    report = Report()
    for number in range(LAST + 5):
        report.on_finished(a_trace(f"u{number}"))
    lines = report.facts(HostCache(database), Requests())["last requests"]
    assert [line.split()[1] for line in lines] == [f"u{number}" for number in range(5, LAST + 5)]
