# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Names that libraries keep private, each with the reason to use it and what is lost without it.

They are used here and nowhere else. Where a release has dropped one, one warning is logged and the
daemon goes on without. setup.cfg bounds these libraries to the minor series that were tried;
tests/contract/test_private_names.py asserts every name on the installed ones.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_log import log

LOG = log.getLogger(__name__)
# Loggers, which say more than an operator wants, and one of their messages each.
RABBIT_LOGGER = "oslo.messaging._drivers.impl_rabbit"
AMQP_LOGGER = "oslo_messaging._drivers.amqpdriver"
UNREADABLE_MESSAGE = "Failed to process message ... skipping it."
DUPLICATE_MESSAGE = "ignoring duplicate message %s"
# The driver of the URL fake://, for tests. It has no connections.
_IN_MEMORY = "oslo_messaging._drivers.impl_fake"


class PrivateName(NamedTuple):
    """The path from an object of a library to a private part, and what does not work without it."""

    library: str
    path: str
    loss: str


_MESSAGING = partial(PrivateName, "oslo.messaging")
# Of an RPCServer. The entry points oslo.messaging.executors are no way to have another executor: a
# server picks one of two by their names.
EXECUTOR = _MESSAGING("_executor_cls", "requests in flight are not bounded")
DISPATCH = _MESSAGING("_on_incoming", "a stop may lose the requests received last")
LISTEN_THREAD = _MESSAGING("listener._listen_thread", "a dead server thread is not noticed")
_POLLER = "listener._poll_style_listener"
RECEIVED = _MESSAGING(f"{_POLLER}.incoming", DISPATCH.loss)
CONNECTED = _MESSAGING(
    f"{_POLLER}.conn.connection.connection.connected",
    "a lost connection to the broker is not noticed",
)
CONSUME = _MESSAGING(f"{_POLLER}.conn.consume", "an idle server polls all the time")
CONSUMERS = _MESSAGING(
    f"{_POLLER}.conn._consumers", "unreadable messages make the broker close the connection"
)
# Of a consumer, an incoming message, a transport.
CALLBACK = _MESSAGING("callback", CONSUMERS.loss)
CANCEL = _MESSAGING("cancel", DISPATCH.loss)
REPLY_QUEUE = _MESSAGING("reply_q", "calls are handled although their callers have given up")
PROPERTIES = _MESSAGING("message._raw_message.properties", REPLY_QUEUE.loss)
BODY = _MESSAGING("message._raw_message.body", "requests may be of any size")
DELIVERY = _MESSAGING(
    "_raw_message.delivery_info", "calls that waited while the process was paused are handled"
)
CALL_MONITOR_TIMEOUT = _MESSAGING("client_timeout", "callers get no call-monitor heartbeats")
SEND_NOTIFICATION = _MESSAGING("_send_notification", "no notifications are sent")
# Of the modules, of options, of a group of options, of a parser of argparse, of the class of
# connections.
WORKER_MODULE = "oslo_service.backend._threading.service"
WORKER_SERVICE = PrivateName(
    "oslo.service", "ServiceWrapper", "SIGHUP replaces workers instead of resetting them"
)
OPTIONS = PrivateName("oslo.config", "_opts", "decisions are saved without the options of plug-ins")
GROUPS = PrivateName("oslo.config", "_groups", OPTIONS.loss)
COMMAND_LINE = PrivateName(
    "oslo.config", "_args", "errors may name another file than the one that has the option"
)
ARGUMENTS = PrivateName("Python", "_actions", "shells complete no arguments of commands")
TLS_CONTEXT = PrivateName(
    "PyMySQL", "_create_ssl_ctx", "each connection reads the system's certificates"
)
_warned: set[PrivateName] = set()


def _find(owner: Any, private: PrivateName) -> Any:
    """Return the private part of an object; None where it is unset, or missing with a warning."""
    for name in private.path.split("."):
        if owner is None or type(owner).__module__ == _IN_MEMORY:
            return None
        try:
            owner = getattr(owner, name)
        except AttributeError:
            warn_once(private, name)
            return None
    return owner


def warn_once(private: PrivateName, missing: str = "") -> None:
    """Log once what does not work without a private name; missing is the part that is not there."""
    if private not in _warned:
        _warned.add(private)
        LOG.warning(
            "The installed %s has no %s (%s is missing): %s; install a release that Berthmaster was"
            " tried with",
            *(private.library, private.path, missing or private.path, private.loss),
        )


def replace_executor(server: Any, executor: Callable[..., Any]) -> None:
    """Have a server that has not started handle messages with another executor."""
    if _find(server, EXECUTOR):
        server._executor_cls = executor


def is_listening(server: Any) -> bool:
    """Return whether the thread of a server that receives messages runs, or has not started."""
    thread = _find(server, LISTEN_THREAD)
    return thread is None or bool(thread.is_alive())


def is_connected(server: Any) -> bool:
    """Return whether a server has its connection to the broker: not before its start."""
    return server.listener is not None and _find(server, CONNECTED) is not False


def poll_every(server: Any, seconds: float, polled: Callable[[], None] = lambda: None) -> None:
    """Have a started server wait that long for a message before it looks whether it is to stop.

    polled is called after each wait.

    oslo.messaging looks for acknowledgements to send after 1 ms, 2 ms, 4 ms and so on, which
    messages of RPC have not: while a request is handled it costs about as much as decoding it.
    After a long silence it looks every 5 seconds, and a stop waits for that.
    """
    if consume := _find(server, CONSUME):
        connection = server.listener._poll_style_listener.conn

        def poll(timeout: float | None = None) -> None:
            try:
                consume(timeout=seconds)
            finally:
                polled()

        connection.consume = poll


def wrap_callbacks(server: Any, wrap: Callable[[Any], Any]) -> None:
    """Wrap what a started server calls with each message, before the message is read."""
    for consumer in _find(server, CONSUMERS) or ():
        if callback := _find(consumer, CALLBACK):
            consumer.callback = wrap(callback)


def cancellations(server: Any) -> Iterator[Callable[[], Any]]:
    """Yield what ends each subscription of a server; the broker delivers nothing after that."""
    for consumer, tag in dict(_find(server, CONSUMERS) or {}).items():
        if cancel := _find(consumer, CANCEL):
            yield partial(cancel, tag)


def dispatch_received(server: Any) -> None:
    """Dispatch what a stopped server received between its last poll and its last subscription.

    Closing the connection would acknowledge and drop it.
    """
    received, dispatch = _find(server, RECEIVED), _find(server, DISPATCH)
    while received and dispatch:
        dispatch([received.pop(0)])


def awaits_reply(incoming: Any) -> bool:
    """Return whether a message is a call over a broker, whose caller may have given up."""
    return bool(_find(incoming, REPLY_QUEUE))


def expiration(incoming: Any) -> float:
    """Return after how many seconds the broker drops a message that it has not handed out."""
    return expiration_in(_find(incoming, PROPERTIES))


def expiration_in(properties: Any) -> float:
    """Return the same of the properties that AMQP has of a message."""
    try:
        # Milliseconds, as text.
        return int(properties["expiration"]) / 1000
    except (KeyError, TypeError, ValueError, OverflowError):
        return math.inf


def broker_time(incoming: Any) -> float | None:
    """Return when the broker got a message, in seconds since 1970; None if it stamps none."""
    return broker_time_in(_find(incoming, PROPERTIES))


def broker_time_in(properties: Any) -> float | None:
    """Return the same of the properties that AMQP has of a message."""
    try:
        return int(properties["application_headers"]["timestamp_in_ms"]) / 1000
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def give_back(received: Any) -> bool:
    """Put what was just received back into its queue, once; return whether that was done.

    It keeps its expiration there. What was handed out before is not given back again.
    """
    if (_find(received, DELIVERY) or {}).get("redelivered") is not False:
        return False
    received.requeue()
    return True


def size_of(incoming: Any) -> int:
    return len(_find(incoming, BODY) or "")


def call_monitor_timeout(incoming: Any) -> Any:
    """Return after how many seconds without a heartbeat a caller gives up, as it says itself."""
    return _find(incoming, CALL_MONITOR_TIMEOUT)


def disable_heartbeats(incoming: Any) -> None:
    """Keep the dispatcher of oslo.messaging from sending heartbeats during a call."""
    if call_monitor_timeout(incoming) is not None:
        incoming.client_timeout = None


def send_notification(transport: Any, *arguments: Any, **options: Any) -> None:
    """Send a notification at once; a Notifier can do it only in the thread of its caller."""
    if send := _find(transport, SEND_NOTIFICATION):
        send(*arguments, **options)


def on_worker_reload(reload: Callable[[], None]) -> None:
    """Have the workers of the threading backend do this on SIGHUP.

    oslo.service leaves SIGHUP to cotyledon, which replaces a worker by a new one.
    """
    try:
        module: object = import_module(WORKER_MODULE)
    except ImportError:
        module = object()
    if worker := _find(module, WORKER_SERVICE):
        worker.reload = lambda _: reload()


def registered_options(conf: cfg.ConfigOpts) -> dict[tuple[str, str], cfg.Opt]:
    """Return the options that are registered, by group and name: oslo.config lists values only."""
    groups = {"DEFAULT": conf, **(_find(conf, GROUPS) or {})}
    return {
        (group, name): each["opt"]
        for group, options in groups.items()
        for name, each in (_find(options, OPTIONS) or {}).items()
    }


def command_line(conf: cfg.ConfigOpts) -> list[str]:
    """Return the arguments that conf has parsed: it does not keep the order of the files there."""
    return [*(_find(conf, COMMAND_LINE) or ())]


def arguments_of(parser: Any) -> list[Any]:
    """Return the arguments that a parser of argparse takes."""
    return [*(_find(parser, ARGUMENTS) or ())]


def sharing_tls_context(connection: type) -> type:
    """Return PyMySQL's connection class with one TLS context for all that ask for none.

    Where the URL asks for nothing PyMySQL uses TLS with servers that offer it, looks at no
    certificate, and yet reads those of the system for each connection: 40 ms of CPU time, in which
    green threads wait.
    """
    create = _find(connection, TLS_CONTEXT)
    if create is None:
        return connection
    shared: list[Any] = []

    def create_once(self: Any, parameters: Any) -> Any:
        if parameters:
            return create(self, parameters)
        shared[:] = shared or [create(self, parameters)]
        return shared[0]

    return type("SharingConnection", (connection,), {TLS_CONTEXT.path: create_once})
