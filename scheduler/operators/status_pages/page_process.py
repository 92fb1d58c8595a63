# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side of the pages: hands requests to the page process, and starts that.

A page of 10,000 hosts is work for the processor, and explaining a decision changes settings of the
process. So pages are made elsewhere, with less priority, and the scheduler only passes bytes on.
"""

import ipaddress
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from threading import Lock
from wsgiref.types import StartResponse, WSGIEnvironment

from oslo_config import cfg
from oslo_log import log

from conf import config_files, loading, status
from conf.daemon.process import end_child
from conf.daemon.status_server import HEALTH
from scheduler.operators.status_pages.messages import (
    HEADERS,
    HTML,
    LONGEST_ANSWER,
    LONGEST_REQUEST,
    RETRY_AFTER,
    InvalidMessage,
    PageAnswer,
    PageRequest,
)

LOG = log.getLogger(__name__)
# Seconds that a page may take, the start of the process included: less than the status server lets
# a connection last.
DEADLINE = 15.0
# More pages at a time are refused, so that metrics and health have clients left.
MAX_PAGES = 8
METHODS = ("GET", "HEAD")
SHOWS_HEALTH = "/services"
# The number of the socket on which the process gets its requests.
FD_OPTION = "requests"
_STOP_TIMEOUT = 5.0
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport"
content="width=device-width, initial-scale=1"><title>{title} - Berthmaster</title></head>
<body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""


class NoAnswer(Exception):
    """The page process gave no answer; the text says why."""


def check_pages(conf: cfg.ConfigOpts) -> None:
    """Raise ConfigError where pages are asked for and nothing would serve them."""
    if conf.status.pages and not conf.status.bind:
        where = loading.source(conf, "status", "pages")
        raise loading.ConfigError(
            f"option [status] pages = True in {where}: [status] bind is empty, so that nothing is"
            " served; set it, for example to 127.0.0.1:9399"
        )


class PageProcess:
    """A WSGI application whose answers come from a process that the first request starts."""

    def __init__(self, command: Sequence[str], is_local: bool, deadline: float = DEADLINE) -> None:
        self._command = command
        self._is_local = is_local
        self._deadline = deadline
        self._lock = Lock()
        self._waiting = 0
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> "PageProcess | None":
        """Return the pages of a scheduler, None where its configuration does not ask for them."""
        if not conf.status.pages:
            return None
        command = [sys.executable, "-m", "scheduler.operators.status_pages"]
        # Those that are found by themselves are found again.
        command += config_files.given(conf)
        return cls(command, _is_loopback(status.parsed(conf.status.bind)[0]))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = self._answer(environ)
        length = ("Content-Length", str(len(answer.body)))
        start_response(answer.status, [*answer.headers, length, *HEADERS])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [answer.body]

    def stop(self) -> None:
        """End the process, if there is one; the next request starts another."""
        with self._lock:
            running, self._running = self._running, None
        if running is None:
            return
        process, control = running
        # It ends when nobody can ask it any more.
        control.close()
        end_child(process, _STOP_TIMEOUT)

    def _answer(self, environ: WSGIEnvironment) -> PageAnswer:
        if environ["REQUEST_METHOD"] not in METHODS:
            text = "Pages can be read, and nothing else."
            return error_page("405 Method Not Allowed", text, ("Allow", ", ".join(METHODS)))
        if self._is_local and not _is_loopback(_host_of(environ)):
            return error_page(
                "421 Misdirected Request",
                "Pages on a loopback address are shown under the name localhost or its address"
                " only. A proxy in front of them has to send that as the Host.",
            )
        # A browser gets the text in the encoding that it has sent.
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        accepted = environ.get("HTTP_ACCEPT_ENCODING", "")
        until = time.monotonic() + self._deadline
        query = environ.get("QUERY_STRING", "")
        # Checks take up to two seconds where something is wrong.
        health = environ[HEALTH]() if path.startswith(SHOWS_HEALTH) and HEALTH in environ else None
        request = PageRequest(path, query, "gzip" in accepted, until, health)
        with self._lock:
            is_busy = self._waiting >= MAX_PAGES
            self._waiting += not is_busy
        if is_busy:
            return _unavailable(f"{MAX_PAGES} pages are being made already; try again.")
        try:
            return self._asked(request)
        except NoAnswer as error:
            LOG.warning("No page for %s: %s", path, error)
            return _unavailable(f"{error} Try again; the log of the scheduler says more.")
        finally:
            with self._lock:
                self._waiting -= 1

    def _asked(self, request: PageRequest) -> PageAnswer:
        """Return the answer of the process; raises NoAnswer."""
        message = request.to_bytes()
        if len(message) > LONGEST_REQUEST:
            return error_page("414 URI Too Long", "No page has such a long address.")
        ours, theirs = socket.socketpair()
        with closing(ours):
            try:
                with closing(theirs):
                    self._send(message, theirs.fileno())
                return PageAnswer.from_bytes(_received(ours, request.until))
            except TimeoutError:
                raise NoAnswer(f"The page was not ready within {self._deadline:g} s.") from None
            except (OSError, InvalidMessage) as error:
                raise NoAnswer(f"The process that makes pages gave no answer ({error}).") from None

    def _send(self, message: bytes, number: int) -> None:
        try:
            socket.send_fds(self._control(), [message], [number])
        except ConnectionError:
            # The process is ending; the next one has heard nothing of it.
            self.stop()
            socket.send_fds(self._control(), [message], [number])

    def _control(self) -> socket.socket:
        """Return the socket that the process listens to; start one if there is none."""
        with self._lock:
            if self._running is not None and self._running[0].poll() is None:
                return self._running[1]
            if self._running is not None:
                self._running[1].close()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with closing(theirs):
                number = theirs.fileno()
                command = [*self._command, f"--{FD_OPTION}={number}"]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])
            # A full queue is no reason to wait.
            ours.settimeout(1.0)
            self._running = process, ours
        LOG.info("Process %s makes the pages", process.pid)
        return ours


def error_page(status: str, text: str, *headers: tuple[str, str]) -> PageAnswer:
    """Return a plain page that needs no process."""
    body = _PAGE.format(title=status.partition(" ")[2], text=text)
    return PageAnswer(status, [("Content-Type", HTML), *headers], body.encode())


def _unavailable(text: str) -> PageAnswer:
    return error_page("503 Service Unavailable", text, RETRY_AFTER)


def _received(connection: socket.socket, until: float) -> bytes:
    """Return all that comes; raises TimeoutError, and InvalidMessage for too much."""
    pieces: list[bytes] = []
    size = 0
    while True:
        connection.settimeout(max(0.001, until - time.monotonic()))
        piece = connection.recv(2**18)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST_ANSWER:
            raise InvalidMessage(f"more than {LONGEST_ANSWER} bytes")


def _host_of(environ: WSGIEnvironment) -> str:
    host = str(environ.get("HTTP_HOST", ""))
    with suppress(ValueError):
        return status.parsed(host if host.rpartition(":")[2].isdecimal() else f"{host}:80")[0]
    return host


def _is_loopback(host: str) -> bool:
    """Return whether it names this machine to itself: others may let a browser read the pages."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host.casefold() == "localhost"
