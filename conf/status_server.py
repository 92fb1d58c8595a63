# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The small HTTP server on which a daemon shows /metrics and /healthz.

It is off unless [status] bind says where it listens. Each client has a thread for a few seconds at
most; those that are too many or too slow are cut off, and the service does not notice them.
"""

import errno
import json
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from socketserver import TCPServer, ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from oslo_config import cfg
from oslo_log import log
from prometheus_client import CollectorRegistry, disable_created_metrics, make_wsgi_app

from conf import loading, status
from conf.health import Health

LOG = log.getLogger(__name__)
# Seconds: of a client that says nothing, and of a connection altogether.
SILENCE = 5.0
LONGEST = 20.0
# So many clients at a time; more of them are sent away.
MOST_CLIENTS = 16
METHODS = {"/metrics": ("GET",), "/healthz": ("GET", "HEAD")}
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


def new_registry() -> CollectorRegistry:
    """Return a registry for the measures of a process.

    When each counter was made is left out: it doubles what there is to read.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's is without types
    return CollectorRegistry()


class StatusServer:
    """Serves a registry and the health of a daemon. Make one per process, after any fork.

    ports says from how many ports, beginning with that of [status] bind, the first free one is
    taken.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, registry: CollectorRegistry, health: Health, ports: int = 1
    ) -> None:
        self._conf = conf
        self._ports = ports
        self._application = Application(registry, health)
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen and serve; raises ConfigError where that cannot be."""
        self._server = server = self._bound()
        server.set_app(self._application)
        Thread(target=server.serve_forever, name="status", daemon=True).start()
        host, port = server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        LOG.info("Metrics and health at http://%s:%s/metrics and /healthz", shown, port)

    def stop(self) -> None:
        """Serve no more; safe where it was never started."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _bound(self) -> "_Server":
        host, first = status.parsed(self._conf.status.bind)
        ports = range(first, min(first + self._ports, status.LAST_PORT + 1))
        try:
            found = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)
            for port in ports:
                with suppress(_PortInUse):
                    return _bound(found[0][0], str(found[0][4][0]), port)
        except OSError as error:
            raise self._refusal(error.strerror or str(error)) from error
        more = f" and those up to {ports[-1]}" if len(ports) > 1 else ""
        raise self._refusal(f"port {first}{more} in use")

    def _refusal(self, why: str) -> loading.ConfigError:
        where = loading.source(self._conf, "status", "bind")
        return loading.ConfigError(
            f"option [status] bind = {self._conf.status.bind!r} in {where}: cannot listen: {why}"
        )


class Application:
    """The WSGI application, for the server or for a test."""

    def __init__(self, registry: CollectorRegistry, health: Health) -> None:
        self._metrics = make_wsgi_app(registry)
        self._health = health

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path not in METHODS:
            state, kind, body = "404 Not Found", TEXT, "There are /metrics and /healthz.\n"
        elif method not in METHODS[path]:
            state, kind, body = "405 Method Not Allowed", TEXT, "It can be read and nothing else.\n"
        elif path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        else:
            (state, body), kind = self._healthz(), JSON
        content = body.encode()
        headers = [("Content-Type", kind), ("Content-Length", str(len(content)))]
        start_response(state, [*headers, ("Cache-Control", "no-store")])
        return [] if method == "HEAD" else [content]

    def _healthz(self) -> tuple[str, str]:
        findings = self._health.findings()
        healthy = all(each.healthy for each in findings.values())
        report: dict[str, Any] = {"healthy": healthy}
        for name, each in findings.items():
            since = datetime.fromtimestamp(each.since, UTC).isoformat(timespec="seconds")
            report[name] = {"healthy": each.healthy, "since": since}
            if each.problem:
                report[name]["problem"] = each.problem
        state = "200 OK" if healthy else "503 Service Unavailable"
        return state, json.dumps(report, indent=1) + "\n"


class _PortInUse(Exception):
    """Somebody else listens there."""


def _bound(family: int, host: str, port: int) -> "_Server":
    """Return a server that listens; raises _PortInUse, and OSError for whatever else."""
    try:
        return _Server(family, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _PortInUse from error
        raise


class _Handler(WSGIRequestHandler):
    timeout = SILENCE

    def log_message(self, format: str, *args: Any) -> None:  # name of the standard library
        """Log nothing: somebody asks every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_port = False

    def __init__(self, family: int, host: str, port: int) -> None:
        self.address_family = family
        # Connections, and until when each of them may last.
        self._open: dict[Any, float] = {}
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Listen without asking how the address is called, which may take a while."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take a client if there are not too many."""
        return len(self._open) < MOST_CLIENTS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a client from a thread of its own."""
        self._open[request] = time.monotonic() + LONGEST
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Let a client go."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut off who sends or reads too slowly; called twice a second."""
        now = time.monotonic()
        for request, until in list(self._open.items()):
            if until < now:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong with a client, which is its own affair as a rule."""
        LOG.debug("A client of /metrics or /healthz was not answered: %r", sys.exc_info()[1])
