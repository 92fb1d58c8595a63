# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Make transports from the options transport_url, whose passwords no error text repeats."""

import re
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

import oslo_messaging
from oslo_config import cfg
from oslo_messaging import opts as messaging_options
from stevedore.exception import NoMatches

from conf import loading, opts
from scheduler.messaging import newton_rabbit

NOTIFICATIONS = "oslo_messaging_notifications"
UNREADABLE = "the value cannot be read as a URL; in the password, write # as %23 and / as %2F"
# How often oslo.messaging connects anew in one attempt. A connection that the broker has closed
# meanwhile shows only in its use.
RECONNECTIONS = 1
# Seconds.
STOP_TIMEOUT = 2.0
# Of oslo.messaging: a broker on this machine.
_DEFAULT = "rabbit://"
_SCHEME = re.compile(r"([A-Za-z0-9+.-]+)://")
_NO_SCHEME = "the value does not begin with a scheme, as in rabbit://user:password@host:5672/"
_BAD_QUERY = (
    "the text after the ? is not a list of options of the driver; in the password, write ? as %3F"
)


class UnusableTransport(
    loading.ConfigError,
    oslo_messaging.MessagingException,  # type: ignore[misc]  # it has no types
):
    """No transport can be made; the text is one line, which names the option at fault."""


def rpc_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return the transport of calls, not connected yet; raise UnusableTransport."""
    return _transport(oslo_messaging.get_rpc_transport, conf, "DEFAULT")


def notification_transport(conf: cfg.ConfigOpts) -> oslo_messaging.Transport:
    """Return the transport of notifications: that of calls unless it has its own URL."""
    return _transport(oslo_messaging.get_notification_transport, conf, NOTIFICATIONS)


def disconnect(transport: oslo_messaging.Transport) -> None:
    """Close the connections, but wait no longer than STOP_TIMEOUT.

    To stop listening for replies oslo.messaging waits for a broker that is gone.
    """
    closing = Thread(target=transport.cleanup, name="disconnecting", daemon=True)
    closing.start()
    closing.join(STOP_TIMEOUT)


def _transport(
    make: Callable[[cfg.ConfigOpts], oslo_messaging.Transport], conf: cfg.ConfigOpts, group: str
) -> oslo_messaging.Transport:
    opts.set_transport_defaults()
    group, url = _url(conf, group)
    if loading.is_ambiguous_list(url):
        raise UnusableTransport(f"{option_in_use(conf, group)}: {loading.AMBIGUOUS}")
    try:
        made = make(conf)
    # A driver may fail in any way at all, an import included; its error may quote the URL.
    except Exception as error:
        problem = _problem(conf, error, url, option_in_use(conf, group))
    else:
        if _former_file(conf, group):
            newton_rabbit.set_tls_files(conf)
        return made
    raise UnusableTransport(problem)


def option_in_use(conf: cfg.ConfigOpts, group: str = "DEFAULT") -> str:
    """Return the name of an option transport_url, and where its value comes from."""
    if file := _former_file(conf, group):
        return f"options rabbit_... of [{newton_rabbit.GROUP}] in {file}"
    return f"option [{group}] transport_url in {loading.source(conf, group, 'transport_url')}"


def _former_file(conf: cfg.ConfigOpts, group: str) -> str:
    """Return the file whose options rabbit_... are in use instead of a URL, "" where none are."""
    try:
        is_given = loading.is_given(conf, "DEFAULT", "transport_url")
    # What follows a $ is unknown, in a URL or in one of the options.
    except cfg.NoSuchOptError:
        is_given = loading.setting(conf, [("DEFAULT", "transport_url")]) is not None
    return "" if is_given or group != "DEFAULT" else newton_rabbit.transport_url(conf)[1]


def _url(conf: cfg.ConfigOpts, group: str) -> tuple[str, str]:
    """Return the URL in use and its group, registered before the library looks at it."""
    for name, options in messaging_options.list_opts():
        if (name or "DEFAULT") == group:
            ours = [option for option in options if option.dest == "transport_url"]
            conf.register_opts(ours, group=name)
    with suppress(cfg.NoSuchOptError, cfg.NoSuchGroupError):
        if group == "DEFAULT" and conf.transport_url == _DEFAULT:
            conf.set_default("transport_url", newton_rabbit.transport_url(conf)[0] or _DEFAULT)
        url = conf.transport_url if group == "DEFAULT" else conf[group].transport_url
        return (group, str(url)) if url or group == "DEFAULT" else _url(conf, "DEFAULT")
    # Outside, since these errors quote what follows the $.
    raise UnusableTransport(f"{option_in_use(conf, group)}: {loading.UNKNOWN_NAME}")


def _problem(conf: cfg.ConfigOpts, error: Exception, url: str, option: str) -> str:
    """Return in one line what is wrong, with nothing of the URL but its scheme."""
    scheme = _SCHEME.match(url)
    if isinstance(error, (cfg.Error, ValueError)) and "?" in url:
        return f"{option}: {_BAD_QUERY}"
    if isinstance(error, cfg.Error):
        return loading.explain(error, conf)
    # It quotes what it took for the port: the password, as far as it goes before a # or a /.
    if isinstance(error, ValueError):
        return f"{option}: {UNREADABLE}"
    if not scheme:
        return f"{option}: {_NO_SCHEME}"
    cause = getattr(error, "ex", error)
    if isinstance(cause, NoMatches):
        return f"{option}: there is no driver {scheme[1]!r}, the usual one is 'rabbit'"
    # Of a driver that was given a URL it could read, and does not like the other options.
    return f"{option}: the driver {scheme[1]!r} cannot be used: {' '.join(str(cause).split())}"
