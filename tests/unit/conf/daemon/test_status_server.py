# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.daemon.status_server: addresses, answers, and clients that behave badly."""

import json
import socket
import threading
import time
from threading import Event, Thread

import pytest
from oslo_config import cfg
from prometheus_client import CollectorRegistry, Counter

from conf import opts, status
from conf.daemon import status_server
from conf.daemon.health import Health
from conf.daemon.status_server import StatusServer
from conf.loading import ConfigError
from tests.fixtures.daemons.ports import LOOPBACK, free_ports
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.fixtures.status_page import StatusPage


class Moody:
    """A part whose mood a test sets."""

    problem = ""

    def __call__(self):
        return self.problem


@pytest.fixture
def part():
    return Moody()


@pytest.fixture
def page(part):
    """Return a page that is served, with one counter and one part."""
    found = StatusPage(free_ports(1)[0])
    server = StatusServer(conf_of(found.options["status"]["bind"]), registry(), health(part))
    server.start()
    yield found
    server.stop()


def conf_of(bind):
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    conf.set_override("bind", bind, group="status")
    return conf


def registry():
    found = CollectorRegistry()
    Counter("berthmaster_cats", "Cats.", registry=found).inc(3)
    return found


def health(part):
    return Health({"part": part}, fresh=0.0)


def test_health_is_known_since_it_is_so_and_not_since_the_first_look(monkeypatch, part):
    monkeypatch.setattr(status_server, "WATCH_INTERVAL", 0.05)
    part.problem = "refused"
    watched = health(part)
    page = StatusPage(free_ports(1)[0])
    server = StatusServer(conf_of(page.options["status"]["bind"]), registry(), watched)
    server.start()
    try:
        # Nobody looks but the server.
        assert wait_until(lambda: watched._parts["part"]._finding.problem == "refused")
        part.problem = ""
        assert wait_until(lambda: watched._parts["part"]._finding.healthy)
        before = time.time()
        assert watched.findings()["part"].since <= before
    finally:
        server.stop()
    assert wait_until(lambda: all(each.name != "health" for each in threading.enumerate()))


def test_the_page_has_what_is_in_the_registry(page):
    assert page.measures()("cats_total") == 3


def test_health_follows_the_part_and_names_it(page, part):
    since = page.health()[1]["part"]["since"]
    assert page.health() == (200, {"healthy": True, "part": {"healthy": True, "since": since}})
    part.problem = "it rains"
    code, report = page.health()
    assert (code, report["healthy"], report["part"]["healthy"]) == (503, False, False)
    assert report["part"]["problem"] == "it rains"
    assert report["part"]["since"] >= since
    part.problem = ""
    assert page.is_healthy()


def test_a_head_of_health_has_the_status_and_no_body(page, part):
    part.problem = "it rains"
    code, headers, body = page.get("/healthz", "HEAD")
    assert (code, body) == (503, "")
    assert int(headers["Content-Length"]) > 0


def test_an_unknown_path_answers_with_the_known_ones(page):
    code, _, body = page.get("/")
    assert (code, body) == (404, "Only /metrics and /healthz are served.\n")


def test_other_addresses_are_those_of_pages_which_may_ask_for_the_health(part):
    part.problem = "it rains"
    found = []

    def pages(environ, start_response):
        found.append(environ[status_server.HEALTH]())
        return [environ["PATH_INFO"].encode()]

    application = status_server.Application(registry(), health(part), pages)
    asked = {"PATH_INFO": "/services/", "REQUEST_METHOD": "GET"}
    assert application(asked, lambda *_: None) == [b"/services/"]
    assert (found[0]["healthy"], found[0]["part"]["problem"]) == (False, "it rains")


@pytest.mark.parametrize("path", ["/metrics", "/healthz"])
def test_nothing_can_be_posted(page, path):
    assert page.get(path, "POST")[0] == 405


def test_health_is_json_and_is_not_to_be_kept(page):
    _, headers, body = page.get("/healthz")
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    assert json.loads(body)["healthy"] is True


def test_clients_that_say_nothing_hold_up_nobody(page):
    idle = [socket.create_connection((LOOPBACK, page.port)) for _ in range(5)]
    assert page.is_healthy()
    for each in idle:
        each.close()


def test_too_many_clients_are_sent_away_and_others_are_served_after(page):
    idle = [
        socket.create_connection((LOOPBACK, page.port)) for _ in range(status_server.MAX_CLIENTS)
    ]
    assert wait_until(lambda: page.health()[0] == 0)
    for each in idle:
        each.close()
    assert wait_until(page.is_healthy)


@pytest.mark.parametrize(("silence", "longest"), [(0.05, 60.0), (60.0, 0.05)])
def test_a_client_that_takes_too_long_is_cut_off(page, monkeypatch, silence, longest):
    monkeypatch.setattr(status_server._Handler, "timeout", silence)
    monkeypatch.setattr(status_server, "CONNECTION_TIMEOUT", longest)
    with socket.create_connection((LOOPBACK, page.port), timeout=PATIENCE) as slow:
        slow.sendall(b"GET /heal")
        assert slow.recv(1) == b""


def test_a_port_in_use_stops_the_start_with_one_line(page):
    second = StatusServer(conf_of(page.options["status"]["bind"]), registry(), health(Moody()))
    with pytest.raises(ConfigError) as caught:
        second.start()
    text = str(caught.value)
    assert text.startswith(f"option [status] bind = '{LOOPBACK}:{page.port}' in ")
    assert text.endswith(f"cannot listen: port {page.port} in use")
    second.stop()


def test_each_of_several_processes_takes_the_next_free_port():
    ports = free_ports(3)
    # The numbers may begin again once.
    taken, following = ports[:2] if ports[0] < ports[1] else ports[1:]
    with socket.socket() as first:
        first.bind((LOOPBACK, taken))
        first.listen()
        bind, number = conf_of(f"{LOOPBACK}:{taken}"), following - taken + 1
        server = StatusServer(bind, registry(), health(Moody()), ports=number)
        server.start()
        try:
            assert StatusPage(following).is_healthy()
        finally:
            server.stop()


@pytest.mark.parametrize(
    ("bind", "why"), [("192.0.2.1:9399", "Cannot assign"), ("no.such.invalid:9399", "")]
)
def test_an_address_that_is_not_ours_stops_the_start(bind, why):
    with pytest.raises(ConfigError, match=rf"option \[status\] bind = '{bind}' .*listen: .*{why}"):
        StatusServer(conf_of(bind), registry(), health(Moody())).start()


def test_ipv6_is_served(monkeypatch):
    port = free_ports(1)[0]
    server = StatusServer(conf_of(f"[::1]:{port}"), registry(), health(Moody()))
    server.start()
    try:
        with socket.create_connection(("::1", port), timeout=PATIENCE) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert client.recv(15) == b"HTTP/1.0 200 OK"
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9399", ("127.0.0.1", 9399)),
        ("[::1]:1", ("::1", 1)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_addresses_that_can_be_read(text, address):
    assert status.parsed(text) == address


@pytest.mark.parametrize(
    "text", ["9399", "host", "host:", ":9399", "host:0", "host:65536", "host:http", "::1", "[::1]"]
)
def test_addresses_that_cannot(text, loaded, tmp_path):
    with pytest.raises(ConfigError) as caught:
        loaded(f"[status]\nbind = {text}\n")
    assert str(caught.value) == (
        f"option [status] bind = {text!r} in {tmp_path / 'berthmaster.conf'}: {text!r} is not"
        " host:port, as in 127.0.0.1:9399; an IPv6 address stands in brackets"
    )


def test_no_address_means_off(loaded):
    assert loaded("").status.bind == loaded("[status]\nbind =\n").status.bind == ""


def test_a_part_that_hangs_is_named_and_asked_only_once():
    free, calls = Event(), []

    def hanging():
        calls.append(1)
        free.wait()

    asked = Health({"hanging": hanging, "well": lambda: None}, fresh=0.0, timeout=0.05)
    for _ in range(3):
        found = asked.findings()
        assert found["hanging"].problem.startswith("it has not answered for")
        assert found["well"].healthy
    assert len(calls) == 1
    since = asked.findings()["hanging"].since
    assert found["hanging"].since == since
    free.set()
    assert wait_until(lambda: asked.findings()["hanging"].healthy)


def test_many_who_ask_at_a_time_share_an_answer():
    calls = []

    def counting():
        calls.append(1)

    asked = Health({"part": counting}, fresh=600.0)
    threads = [Thread(target=asked.findings) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(calls) == 1


def test_what_is_raised_is_wrong_in_one_line():
    def raising():
        raise OSError("gone\n[SQL: SELECT 1]")

    asked = Health({"part": raising, "silent": lambda: 1 / 0})
    # Not since the start of the daemon, when nobody had looked.
    before = time.time()
    found = asked.findings()
    assert found["part"].problem == "gone"
    assert found["part"].since >= before
    assert found["silent"].problem == "division by zero"


def test_health_is_a_measure_too():
    family = next(iter(Health({"a": lambda: None, "b": lambda: "no"}).collect()))
    assert {each.labels["part"]: each.value for each in family.samples} == {"a": 1.0, "b": 0.0}
