# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the scheduler's side of pages, with processes that behave well and badly."""

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from conf.daemon.status_server import HEALTH
from conf.loading import ConfigError
from scheduler.operators.status_pages.messages import CONTENT_SECURITY_POLICY
from scheduler.operators.status_pages.page_process import (
    MAX_ALIKE,
    MAX_DECIDING,
    PageProcess,
    check_pages,
)
from tests.databases import a_conf
from tests.fixtures.daemons.process import PATIENCE, wait_until

# By its path, a request is answered, not answered, half answered, or the end of the process.
STUB = """
import json, os, socket, sys
control = socket.socket(fileno=int(sys.argv[-1].partition("=")[2]))
control.setblocking(True)
kept = []
NAMES = "path", "query", "health", "until"
while True:
    data, (fd,), _, _ = socket.recv_fds(control, 65536, 1)
    connection, request = socket.socket(fileno=fd), json.loads(data)
    match request["path"]:
        case "/silent" | "/capacity/": kept.append(connection)
        case "/once" if not os.path.getsize(request["query"]):
            open(request["query"], "w").write("asked")
            kept.append(connection)
        case "/half": connection.sendall(b'{"status"'); connection.close()
        case "/end": os._exit(1)
        case _:
            head = {"status": "200 OK", "headers": [["Content-Type", "text/plain"]]}
            body = json.dumps([os.getpid(), *map(request.get, NAMES)])
            connection.sendall(json.dumps(head).encode() + b"\\n" + body.encode())
            connection.close()
"""


@pytest.fixture
def pages():
    """The pages of a stub."""
    found = PageProcess([sys.executable, "-c", STUB], is_local=True, deadline=PATIENCE)
    yield found
    found.stop()


def pid_of(pages, path):
    return json.loads(ask(pages, path)[2])[0]


def ask(pages, path="/x", method="GET", host="127.0.0.1:9399", **environ):
    """Return status, headers and body of an answer."""
    seen = []
    given = {"PATH_INFO": path, "REQUEST_METHOD": method, "HTTP_HOST": host} | environ
    body = b"".join(pages(given, lambda status, headers: seen.append((status, dict(headers)))))
    ((status, headers),) = seen
    return status[:3], headers, body


def test_an_answer_is_passed_on_with_the_headers_that_protect_it(pages):
    status, headers, body = ask(pages, "/caf\u00c3\u00a9", QUERY_STRING="a=1")
    assert (status, json.loads(body)[1:4]) == ("200", ["/caf\u00e9", "a=1", None])
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert headers["Content-Length"] == str(len(body))
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_of_services_alone_waits_for_the_checks_of_health(pages):
    asked = []
    health = {HEALTH: lambda: asked.append(1) or {"healthy": True}}
    assert json.loads(ask(pages, "/services/", **health)[2])[3] == {"healthy": True}
    assert json.loads(ask(pages, "/hosts/", **health)[2])[3] is None
    assert asked == [1]


def test_one_process_answers_until_it_is_stopped(pages):
    first, second = (json.loads(ask(pages)[2])[0] for _ in range(2))
    assert first == second
    pages.stop()
    assert json.loads(ask(pages)[2])[0] != first


def test_a_head_has_no_body(pages):
    status, headers, body = ask(pages, method="HEAD")
    assert (status, body) == ("200", b"")
    assert int(headers["Content-Length"]) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_allowed(pages, method):
    status, headers, _ = ask(pages, method=method)
    assert (status, headers["Allow"]) == ("405", "GET, HEAD")


@pytest.mark.parametrize("host", ["127.0.0.1:9399", "localhost", "LOCALHOST:80", "[::1]:9399"])
def test_a_loopback_address_answers_to_its_own_names(pages, host):
    assert ask(pages, host=host)[0] == "200"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9399", "127.0.0.1.evil", "", "["])
def test_a_loopback_address_answers_to_no_other_name(pages, host):
    assert ask(pages, host=host)[0] == "421"


def test_another_address_answers_to_any_name():
    pages = PageProcess([sys.executable, "-c", STUB], is_local=False)
    try:
        assert ask(pages, host="pages.example")[0] == "200"
    finally:
        pages.stop()


@pytest.mark.parametrize("path", ["/half", "/end"])
def test_a_process_that_fails_is_a_page_with_503_and_the_next_request_is_answered(pages, path):
    status, headers, body = ask(pages, path)
    assert (status, headers["Retry-After"]) == ("503", "5")
    assert b"gave no answer" in body
    assert ask(pages)[0] == "200"


def test_a_process_that_is_late_is_killed_and_the_next_request_is_answered():
    pages = PageProcess([sys.executable, "-c", STUB], is_local=True, deadline=1.0)
    try:
        # By the processes that were started before: the deadline is for the pages.
        first = pid_of(pages, "/x")
        status, _, body = ask(pages, "/silent")
        assert status == "503"
        assert b"not ready within 1 s" in body
        assert not os.path.exists(f"/proc/{first}")
        assert pid_of(pages, "/x") != first
    finally:
        pages.stop()


def test_a_page_ends_itself_before_its_process_is_killed(pages):
    began = time.monotonic()
    until = json.loads(ask(pages, "/x")[2])[4]
    assert began + PATIENCE / 2 < until < time.monotonic() + 0.9 * PATIENCE


def test_pages_for_which_plugins_decide_have_a_process_of_their_own(pages):
    reading, deciding = pid_of(pages, "/decisions/"), pid_of(pages, "/decisions/1")
    assert reading != deciding
    assert {pid_of(pages, path) for path in ("/hosts/", "/favicon.ico", "/services/")} == {reading}
    assert {pid_of(pages, path) for path in ("//capacity//x", "/decisions//2")} == {deciding}


def test_who_waits_for_a_process_that_is_killed_for_another_page_is_answered(pages):
    old = pid_of(pages, "/x")
    # Silent once: the stub of the next process finds its file.
    with tempfile.NamedTemporaryFile() as file:
        waiting = ThreadPoolExecutor(1)
        answer = waiting.submit(ask, pages, "/once", QUERY_STRING=file.name)
        assert wait_until(lambda: os.path.getsize(file.name))
        pages._reading._kill(pages._reading._running, "/other")
        status, _, body = answer.result()
    assert status == "200"
    assert json.loads(body)[0] != old


def test_too_long_an_address_is_refused(pages):
    assert ask(pages, "/" + "x" * 20_000)[0] == "414"


def test_looks_at_one_page_leave_room_for_others(pages):
    waiting = [Thread(target=ask, args=(pages, "/silent")) for _ in range(MAX_ALIKE)]
    waiting += [Thread(target=ask, args=(pages, "/capacity/")) for _ in range(MAX_DECIDING)]
    for each in waiting:
        each.start()
    workers = (pages._reading, pages._deciding)
    assert wait_until(lambda: sum(each._waiting.total() for each in workers) == len(waiting))
    for path in ("/silent", "/capacity/", "/decisions/1"):
        status, _, body = ask(pages, path)
        assert (status, b"4 such pages are being made already" in body) == ("503", True)
    assert ask(pages, "/services/")[0] == ask(pages, "/favicon.ico")[0] == "200"
    # With the process ends who waits for it.
    assert wait_until(lambda: pages.stop() or not any(each.is_alive() for each in waiting))
    assert ask(pages, "/silentx")[0] == ask(pages, "/decisions/1")[0] == "200"


def test_more_pages_at_a_time_than_allowed_are_refused(pages, monkeypatch):
    monkeypatch.setattr(pages._reading, "_most", 1)
    waiting = Thread(target=ask, args=(pages, "/silent"))
    waiting.start()
    assert wait_until(lambda: pages._reading._waiting)
    assert ask(pages)[0] == "503"
    assert wait_until(lambda: pages.stop() or not waiting.is_alive())
    assert ask(pages)[0] == "200"


def test_pages_without_an_address_stop_the_start():
    conf = a_conf()
    check_pages(conf)
    assert PageProcess.of(conf) is None
    conf.set_override("pages", True, group="status")
    with pytest.raises(ConfigError, match=r"\[status\] pages = True .*\[status\] bind is empty"):
        check_pages(conf)
    conf.set_override("bind", "127.0.0.1:9399", group="status")
    check_pages(conf)
