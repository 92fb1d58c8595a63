# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's side of the pages: hands requests to processes that make pages, and starts those.

A page of 10,000 hosts is work for the processor, and explaining a decision changes settings of the
process. So pages are made elsewhere, with less priority, and the scheduler only passes bytes on.
Pages for which plug-ins decide have a process to themselves, since an operator's own plug-in may
take any time. A process is killed when it has not ended a page at its deadline.
"""

import ipaddress
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
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
# a connection last. A page that looks at its time ends itself after this part of it.
DEADLINE = 15.0
OWN_DEADLINE = 0.8
# More pages at a time are refused, so that metrics and health have clients left: all of a process,
# those of one kind, and all for which plug-ins decide.
MAX_PAGES = 8
MAX_ALIKE = 4
MAX_DECIDING = 4
# Pages for which plug-ins decide.
_DECIDING = re.compile(r"/+(capacity|decisions/+[^/])")
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
            f"option [status] pages = True in {where}: [status] bind is empty, so that no pages"
            " are served; set [status] bind, for example to 127.0.0.1:9399"
        )


class PageProcess:
    """A WSGI application whose answers come from processes that the first requests start."""

    def __init__(self, command: Sequence[str], is_local: bool, deadline: float = DEADLINE) -> None:
        self._is_local = is_local
        self._deadline = deadline
        self._reading = _Worker(command, MAX_PAGES)
        self._deciding = _Worker(command, MAX_DECIDING)

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
        """End the processes, if there are any; the next requests start others."""
        self._reading.stop()
        self._deciding.stop()

    def _answer(self, environ: WSGIEnvironment) -> PageAnswer:
        if environ["REQUEST_METHOD"] not in METHODS:
            text = "Pages can only be read."
            return error_page("405 Method Not Allowed", text, ("Allow", ", ".join(METHODS)))
        if self._is_local and not _is_loopback(_host_of(environ)):
            return error_page(
                "421 Misdirected Request",
                "Pages on a loopback address are shown under the name localhost or its address"
                " only. A proxy in front of them must send this name or address as the Host"
                " header.",
            )
        # A browser gets the text in the encoding that it has sent.
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        accepted = environ.get("HTTP_ACCEPT_ENCODING", "")
        began = time.monotonic()
        query = environ.get("QUERY_STRING", "")
        # Checks take up to two seconds where something is wrong.
        health = environ[HEALTH]() if path.startswith(SHOWS_HEALTH) and HEALTH in environ else None
        until = began + OWN_DEADLINE * self._deadline
        request = PageRequest(path, query, "gzip" in accepted, until, health)
        worker = self._deciding if _DECIDING.match(path) else self._reading
        try:
            return worker.answer(request, began + self._deadline)
        except TimeoutError:
            return _unavailable(f"The page was not ready within {self._deadline:g} s. Try again.")
        except NoAnswer as error:
            LOG.warning("No page for %s: %s", path, error)
            return _unavailable(f"{error} Try again; the log of the scheduler says more.")


@dataclass(slots=True, eq=False)
class _Running:
    """A process that makes pages, and the socket on which it gets its requests."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    # By the scheduler, or before it had heard of a request: not by what it was asked.
    is_ended: bool = False


class _Worker:
    """Starts a process for pages, asks it, and kills it when it is late."""

    def __init__(self, command: Sequence[str], most: int) -> None:
        self._command = command
        self._most = most
        self._lock = Lock()
        # By the first part of the address.
        self._waiting: Counter[str] = Counter()
        self._running: _Running | None = None

    def answer(self, request: PageRequest, until: float) -> PageAnswer:
        """Return the answer of the process; raises TimeoutError and NoAnswer."""
        message = request.to_bytes()
        if len(message) > LONGEST_REQUEST:
            return error_page("414 URI Too Long", "No page has such a long address.")
        with self._turn(request.path) as problem:
            if problem:
                return _unavailable(problem)
            while True:
                running = self._started()
                try:
                    with closing(self._asked(running, message)) as answer:
                        return PageAnswer.from_bytes(_received(answer, until))
                except TimeoutError:
                    self._kill(running, request.path)
                    raise
                except (OSError, InvalidMessage) as error:
                    # It was not the fault of this page, and there is time to begin anew.
                    if running.is_ended and time.monotonic() < request.until:
                        continue
                    text = f"The process that makes pages gave no answer ({error})."
                    raise NoAnswer(text) from None

    def stop(self) -> None:
        if (running := self._running) is not None:
            self._end(running)

    def _asked(self, running: _Running, message: bytes) -> socket.socket:
        """Send a request; return the socket on which the answer comes, or raise OSError."""
        ours, theirs = socket.socketpair()
        try:
            with closing(theirs):
                socket.send_fds(running.control, [message], [theirs.fileno()])
        except BaseException as error:
            ours.close()
            if isinstance(error, TimeoutError):
                raise NoAnswer("The process that makes pages takes no requests.") from None
            if isinstance(error, ConnectionError):
                # It is ending by itself.
                running.is_ended = True
                self._end(running)
            raise
        return ours

    @contextmanager
    def _turn(self, path: str) -> Iterator[str]:
        """Count a page while it is made; yield why it is not, if there are too many."""
        kind = path.strip("/").partition("/")[0]
        with self._lock:
            total, alike = self._waiting.total(), self._waiting[kind]
            is_free = total < self._most and alike < MAX_ALIKE
            self._waiting[kind] += is_free
        try:
            number = alike if total < self._most else total
            yield "" if is_free else f"{number} such pages are being made already; try again."
        finally:
            with self._lock:
                self._waiting[kind] -= is_free
                self._waiting = +self._waiting

    def _started(self) -> _Running:
        """Return the running page process; start one if none runs."""
        with self._lock:
            if self._running is not None and self._running.process.poll() is None:
                return self._running
            if self._running is not None:
                self._running.control.close()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with closing(theirs):
                number = theirs.fileno()
                command = [*self._command, f"--{FD_OPTION}={number}"]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])
            # A full queue is no reason to wait.
            ours.settimeout(1.0)
            self._running = _Running(process, ours)
            LOG.info("Process %s makes pages", process.pid)
            return self._running

    def _kill(self, running: _Running, path: str) -> None:
        """Kill a process that did not end a page in time, unless another page has done so."""
        running.is_ended = True
        if self._forget(running):
            LOG.warning(
                "Process %s is killed, since it had not finished the page %s at its deadline. A"
                " plug-in of your own, or the database, may be slow",
                running.process.pid,
                path,
            )
            running.process.kill()
            running.process.wait()

    def _end(self, running: _Running) -> None:
        """Close the request socket of a page process, upon which it ends."""
        if self._forget(running):
            end_child(running.process, _STOP_TIMEOUT)

    def _forget(self, running: _Running) -> bool:
        """Let the next request start another process; return whether this one was still asked."""
        with self._lock:
            is_current = self._running is running
            if is_current:
                self._running = None
                running.control.close()
            return is_current


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
