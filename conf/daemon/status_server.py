# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Serve /metrics, /healthz and perhaps pages over HTTP where [status] bind asks for it.

Each client gets a thread for some seconds. Clients beyond the limits are disconnected, so that they
cannot slow down the daemon.
"""

import errno
import json
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from socketserver import TCPServer, ThreadingMixIn
from threading import Event, Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from oslo_config import cfg
from oslo_log import log
from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics, make_wsgi_app

from conf import loading, status
from conf.daemon.health import Health
from conf.daemon.process import PACKAGE

LOG = log.getLogger(__name__)
# Seconds that a client may be silent, and that a connection may last.
IDLE_TIMEOUT = 5.0
CONNECTION_TIMEOUT = 20.0
# More clients at a time are refused.
MAX_CLIENTS = 16
# Seconds between two looks at the health, where nobody else looks.
WATCH_INTERVAL = 15.0
# In the WSGI environment of a page: returns what /healthz says.
HEALTH = "berthmaster.health"
METHODS = {"/metrics": ("GET",), "/healthz": ("GET", "HEAD")}
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


def new_registry() -> CollectorRegistry:
    """Return a registry that has the release, and no creation times, which double what is read."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's is without types
    registry = CollectorRegistry()
    text = "1 for the release that this process was started from."
    release = Gauge("berthmaster_build_info", text, ["version"], registry=registry)
    release.labels(metadata.version(PACKAGE)).set(1)
    return registry


class StatusServer:
    """Serves a registry and the health of a daemon. Make one per process, after any fork.

    It listens on the first free one of as many ports, beginning with that of [status] bind.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        registry: CollectorRegistry,
        health: Health,
        ports: int = 1,
        pages: WSGIApplication | None = None,
    ) -> None:
        self._conf = conf
        self._ports = ports
        self._application = Application(registry, health, pages)
        self._health = health
        self._server: _Server | None = None
        self._stopped = Event()

    def start(self) -> None:
        """Listen and serve; raise ConfigError if no port can be used."""
        self._server = server = self._listen()
        server.set_app(self._application)
        Thread(target=server.serve_forever, name="status", daemon=True).start()
        Thread(target=self._watch, name="health", daemon=True).start()
        host, port = server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        LOG.info("Metrics and health at http://%s:%s/metrics and /healthz", shown, port)
        if self._application.pages is not None:
            LOG.info("Pages at http://%s:%s/", shown, port)

    def stop(self) -> None:
        self._stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _watch(self) -> None:
        """Look at the health now and then, so that it is known since when it is as it is."""
        while not self._stopped.is_set():
            self._health.findings()
            self._stopped.wait(WATCH_INTERVAL)

    def _listen(self) -> "_Server":
        """Return a server on the first free port; raise ConfigError."""
        host, first = status.parsed(self._conf.status.bind)
        ports = range(first, min(first + self._ports, status.LAST_PORT + 1))
        try:
            found = socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)
            for port in ports:
                try:
                    return _Server(found[0][0], str(found[0][4][0]), port)
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
            more = f" and those up to {ports[-1]}" if len(ports) > 1 else ""
            problem = f"port {first}{more} in use"
        except OSError as error:
            problem = error.strerror or str(error)
        where = loading.source(self._conf, "status", "bind")
        raise loading.ConfigError(
            f"option [status] bind = {self._conf.status.bind!r} in {where}: cannot listen:"
            f" {problem}"
        )


class Application:
    """The WSGI application, for the server or for a test; pages has all other addresses."""

    def __init__(
        self, registry: CollectorRegistry, health: Health, pages: WSGIApplication | None = None
    ) -> None:
        self._metrics = make_wsgi_app(registry)
        self._health = health
        self.pages = pages

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path not in METHODS and self.pages is not None:
            return self.pages({**environ, HEALTH: self._report}, start_response)
        if path not in METHODS:
            state, kind, body = "404 Not Found", TEXT, "Only /metrics and /healthz are served.\n"
        elif method not in METHODS[path]:
            state, kind, body = ("405 Method Not Allowed", TEXT, "Only GET is allowed.\n")
        elif path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        else:
            report, kind = self._report(), JSON
            state = "200 OK" if report["healthy"] else "503 Service Unavailable"
            body = json.dumps(report, indent=1) + "\n"
        content = body.encode()
        headers = [("Content-Type", kind), ("Content-Length", str(len(content)))]
        start_response(state, [*headers, ("Cache-Control", "no-store")])
        return [] if method == "HEAD" else [content]

    def _report(self) -> dict[str, Any]:
        findings = self._health.findings()
        healthy = all(each.healthy for each in findings.values())
        report: dict[str, Any] = {"healthy": healthy}
        for name, each in findings.items():
            since = datetime.fromtimestamp(each.since, UTC).isoformat(timespec="seconds")
            report[name] = {"healthy": each.healthy, "since": since}
            if each.problem:
                report[name]["problem"] = each.problem
        return report


class _Handler(WSGIRequestHandler):
    timeout = IDLE_TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:  # name of the standard library
        """Log nothing: clients send requests every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_port = False

    def __init__(self, family: int, host: str, port: int) -> None:
        self.address_family = family
        # Connections and their deadlines.
        self._open: dict[Any, float] = {}
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Listen without a lookup of the name of the address, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return len(self._open) < MAX_CLIENTS

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = time.monotonic() + CONNECTION_TIMEOUT
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a client after disconnecting it."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Disconnect clients after their deadlines; called twice a second."""
        now = time.monotonic()
        for request, until in list(self._open.items()):
            if until < now:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error of a client, which is usually its own fault."""
        LOG.debug("A client of /metrics or /healthz was not answered: %r", sys.exc_info()[1])
