# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The options of oslo.messaging, looked at before a program connects.

The library looks at most of them when it makes a connection, which is after the fork, and answers
mistakes with tracebacks or by trying again for ever.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
from kombu.compression import get_encoder
from kombu.transport import resolve_transport
from oslo_config import cfg
from oslo_messaging import opts

from conf import loading
from conf.loading import ConfigError
from scheduler.rpc.transport import UnusableTransport, rpc_transport

RABBIT = "oslo_messaging_rabbit"
_KOMBU = "kombu+"
_MOST_PORTS = 65535
Complaint = Callable[[Any], str | None]


def checked_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return the transport of calls; raises UnusableTransport or ConfigError, in one line."""
    transport = rpc_transport(conf)
    _check_url(conf)
    if RABBIT in conf:
        _check_all(conf)
    return transport


def _check_url(conf: cfg.ConfigOpts) -> None:
    """Look at what the driver leaves to the libraries below, which it asks for ever."""
    url = oslo_messaging.TransportURL.parse(conf)
    option = f"option [DEFAULT] transport_url in {loading.source(conf, 'DEFAULT', 'transport_url')}"
    for host in url.hosts:
        if host.port is not None and not 0 < host.port <= _MOST_PORTS:
            raise UnusableTransport(
                f"{option}: port {host.port} of host {host.hostname!r} is none from 1 to"
                f" {_MOST_PORTS}"
            )
    if url.transport.startswith(_KOMBU):
        try:
            resolve_transport(url.transport.removeprefix(_KOMBU))
        # Whatever a module raises that is imported.
        except Exception as error:
            raise UnusableTransport(
                f"{option}: kombu cannot use {url.transport!r}: {' '.join(str(error).split())}"
            ) from None


def _check_all(conf: cfg.ConfigOpts) -> None:
    loading.check_values(conf, _listed(conf))
    for group, rules in _RULES.items():
        options = conf if group == "DEFAULT" else conf[group]
        for name, complaint in rules.items():
            # Which options there are depends on the release of oslo.messaging.
            if name in options and (why := complaint(options)):
                where = loading.source(conf, group, name)
                raise ConfigError(f"option [{group}] {name} = {options[name]} in {where}: {why}")


def _listed(conf: cfg.ConfigOpts) -> Iterator[tuple[str, list[cfg.Opt]]]:
    """Yield by group what the library has, and the driver in use."""
    for name, options in opts.list_opts():
        group = name or "DEFAULT"
        if group == "DEFAULT":
            # Servers and clients register theirs when they are made.
            conf.register_opts([option for option in options if option.dest not in conf])
            yield group, options
        elif group in conf:
            yield group, [option for option in options if option.dest in conf[group]]


def _at_least_one(name: str) -> Complaint:
    return lambda options: None if options[name] >= 1 else "must be at least 1"


def _readable(name: str) -> Complaint:
    def complaint(options: Any) -> str | None:
        if not options.ssl or not options[name]:
            return None
        try:
            with Path(options[name]).open("rb"):
                return None
        except OSError as error:
            return f"cannot be read: {error.strerror}"

    return complaint


def _known(options: Any) -> str | None:
    try:
        if options.kombu_compression:
            get_encoder(options.kombu_compression)
    except KeyError:
        return "kombu knows no compression of this name; gzip is one"
    return None


_RULES: dict[str, dict[str, Complaint]] = {
    "DEFAULT": {"executor_thread_pool_size": _at_least_one("executor_thread_pool_size")},
    RABBIT: {
        "heartbeat_rate": _at_least_one("heartbeat_rate"),
        **{name: _readable(name) for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file")},
        "kombu_compression": _known,
    },
}
