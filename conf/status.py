# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the page on which a daemon shows its measures and its health."""

from typing import NamedTuple

from oslo_config import cfg, types
from oslo_utils import netutils

LAST_PORT = 65535


class Address(NamedTuple):
    """Where to listen: a name or an address without brackets, and a port."""

    host: str
    port: int


class HostPort(types.String):  # type: ignore[misc]  # oslo.config has no types
    """A text that parsed() can read, or an empty one."""

    def __call__(self, value: object) -> str:
        """Return the text; raises ValueError."""
        text = str(super().__call__(value)).strip()
        if text:
            parsed(text)
        return text


def parsed(text: str) -> Address:
    """Return the address that a text stands for; raises ValueError."""
    try:
        host, port = netutils.parse_host_port(text)
    # Its words are about numbers.
    except ValueError:
        host, port = "", None
    if not host or not 0 < int(port or 0) <= LAST_PORT:
        raise ValueError(
            f"{text!r} is not host:port, as in 127.0.0.1:9399; an IPv6 address stands in brackets"
        )
    return Address(host, int(port))


OPTS = [
    cfg.Opt(
        "bind",
        type=HostPort(),
        default="",
        help="""
Where this daemon serves Prometheus metrics (/metrics) and its health (/healthz) over HTTP:
host:port, as in 127.0.0.1:9399 or [::1]:9399. Empty: nowhere.

There is neither TLS nor a login: choose a loopback address or one of a management network. Each
scheduler process serves its own figures: with [scheduler] workers = N each takes the first port
that is free, from this one on, of N ports, and says in its log which. A daemon whose ports are
all in use does not start. Scheduler and agent on one machine need different ports.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group="status")


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("status", OPTS)]
