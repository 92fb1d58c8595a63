# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of what a daemon serves over HTTP: metrics, health, and pages for a browser."""

from oslo_config import cfg, types
from oslo_utils import netutils

LAST_PORT = 65535


class HostPort(types.String):  # type: ignore[misc]  # oslo.config has no types
    """A text for parsed(), or an empty one."""

    def __call__(self, value: object) -> str:
        text = str(super().__call__(value)).strip()
        if text:
            parsed(text)
        return text


def parsed(text: str) -> tuple[str, int]:
    """Return the name or the address without brackets, and the port; raises ValueError."""
    try:
        host, port = netutils.parse_host_port(text)
    # Its message is about numbers.
    except ValueError:
        host, port = "", None
    if not host or not 0 < int(port or 0) <= LAST_PORT:
        raise ValueError(
            f"{text!r} is not host:port, as in 127.0.0.1:9399; an IPv6 address stands in brackets"
        )
    return host, int(port)


OPTS = [
    cfg.Opt(
        "bind",
        type=HostPort(),
        default="",
        help="""
Address on which this daemon serves Prometheus metrics (/metrics) and its health (/healthz) over
HTTP: host:port, such as 127.0.0.1:9399 or [::1]:9399. Empty disables it.

There is neither TLS nor a login: use a loopback address or a management network. With [scheduler]
workers = N, each process serves its own metrics on the first free port among the N ports that begin
with this one, and logs which port it uses. A daemon without a free port does not start. A scheduler
and an agent on one machine need different ports.
""",
    ),
    cfg.BoolOpt(
        "pages",
        default=False,
        help="""
Serve pages for a browser at the same address, too, at / and below: the fleet, hosts, decisions with
their reasons, capacity and claims. Only schedulers serve pages; agents ignore this option.

The pages are read-only. A separate process, which the first request starts, makes them from the
database. They show names of hosts, projects and instances to whoever can reach [status] bind,
without a login: keep [status] bind on a loopback address, behind a proxy that asks for a login.
""",
    ),
]
