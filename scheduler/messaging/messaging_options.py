# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check the options of oslo.messaging before a program connects.

The library checks most of them when it connects, which is after the fork, and answers mistakes with
tracebacks or by retrying without end.
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
from scheduler.messaging.transport import UnusableTransport, option_in_use, rpc_transport

RABBIT = "oslo_messaging_rabbit"
_KOMBU = "kombu+"
_LAST_PORT = 65535


def checked_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return the transport of calls; raise UnusableTransport or ConfigError, in one line."""
    transport = rpc_transport(conf)
    _check_url(conf)
    if RABBIT in conf:
        _check_all(conf)
    return transport


def _check_url(conf: cfg.ConfigOpts) -> None:
    """Check what the driver leaves to the libraries below, which it retries without end."""
    url = oslo_messaging.TransportURL.parse(conf)
    for host in url.hosts:
        if host.port is not None and not 0 < host.port <= _LAST_PORT:
            raise UnusableTransport(
                f"{option_in_use(conf)}: port {host.port} of host {host.hostname!r} is not a"
                f" number from 1 to {_LAST_PORT}"
            )
    if url.transport.startswith(_KOMBU):
        try:
            resolve_transport(url.transport.removeprefix(_KOMBU))
        # Whatever a module raises that is imported.
        except Exception as error:
            raise UnusableTransport(
                f"{option_in_use(conf)}: kombu cannot use {url.transport!r}:"
                f" {' '.join(str(error).split())}"
            ) from None


def _check_all(conf: cfg.ConfigOpts) -> None:
    loading.check_values(conf, _listed(conf))
    for group, name, complaint in _RULES:
        options = conf if group == "DEFAULT" else conf[group]
        # Which options there are depends on the release of oslo.messaging.
        if name in options and (why := complaint(options, name)):
            where = loading.source(conf, group, name)
            raise ConfigError(f"option [{group}] {name} = {options[name]} in {where}: {why}")


def _listed(conf: cfg.ConfigOpts) -> Iterator[tuple[str, list[cfg.Opt]]]:
    """Yield the options of the library and of the driver in use, by group."""
    for name, options in opts.list_opts():
        group = name or "DEFAULT"
        if group == "DEFAULT":
            # Servers and clients register theirs when they are made.
            conf.register_opts([option for option in options if option.dest not in conf])
            yield group, options
        elif group in conf:
            yield group, [option for option in options if option.dest in conf[group]]


def _at_least_one(options: Any, name: str) -> str | None:
    return None if options[name] >= 1 else "must be at least 1"


def _readable(options: Any, name: str) -> str | None:
    if not options.ssl or not options[name]:
        return None
    try:
        with Path(options[name]).open("rb"):
            return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _known(options: Any, name: str) -> str | None:
    try:
        if options[name]:
            get_encoder(options[name])
    except KeyError:
        return "kombu has no compression of this name; gzip is one"
    return None


_RULES: tuple[tuple[str, str, Callable[[Any, str], str | None]], ...] = (
    ("DEFAULT", "executor_thread_pool_size", _at_least_one),
    (RABBIT, "heartbeat_rate", _at_least_one),
    *((RABBIT, name, _readable) for name in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file")),
    (RABBIT, "kombu_compression", _known),
)
