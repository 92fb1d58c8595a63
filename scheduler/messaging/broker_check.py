# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Probe the broker, and explain errors about its queues in terms of options."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import oslo_messaging
from oslo_config import cfg

from conf.daemon.health import THREADS
from conf.private_apis import RABBIT_LOGGER
from scheduler.messaging.transport import UnusableTransport, option_in_use, rpc_transport

_REFUSAL = re.compile(
    r"PRECONDITION_FAILED - (?:inequivalent arg|invalid property) '(?P<property>[^']+)'"
    r" for (?P<kind>\w+) '(?P<name>[^']*)' in vhost '(?P<vhost>[^']*)'(?:: (?P<values>.*))?",
    re.DOTALL,
)
# Property that the broker compares: the options for it, of durable and of transient queues.
_TYPE = ("rabbit_quorum_queue", "rabbit_transient_quorum_queue and rabbit_stream_fanout")
_DURABLE = ("rabbit_quorum_queue and amqp_durable_queues", "rabbit_transient_quorum_queue")
# RabbitMQ says by whom and to what it refuses access, amqp of which method; never the password.
_ACCESS = re.compile(r"\((?:403|530)\) (?:ACCESS_REFUSED|NOT_ALLOWED) - (?P<why>[^\n]*)")
_OPTIONS = {
    "x-queue-type": _TYPE,
    "durable": _DURABLE,
    "non-durable": _DURABLE,
    "auto_delete": ("amqp_auto_delete",) * 2,
    "x-expires": ("rabbit_transient_queues_ttl",) * 2,
    "x-max-age": ("rabbit_transient_queues_ttl",) * 2,
    "x-delivery-limit": ("rabbit_quorum_delivery_limit",) * 2,
    "x-max-in-memory-length": ("rabbit_quorum_max_memory_length",) * 2,
    "x-max-in-memory-bytes": ("rabbit_quorum_max_memory_bytes",) * 2,
    "x-ha-policy": ("rabbit_ha_queues",) * 2,
}
_UNKNOWN = ("the options that decide it",) * 2


class QueueMismatch(UnusableTransport):
    """The broker has a queue or exchange with other properties; the text says what to set."""


def mismatch(error: Exception, control_exchange: str) -> QueueMismatch | None:
    """Return the mismatch that an error of oslo.messaging or below is about, None for others."""
    found = _REFUSAL.search(str(error))
    if found is None:
        return None
    kind, name, what = found["kind"], found["name"], found["property"]
    transient = "_fanout" in name or name.startswith("reply_")
    if what == "non-durable":
        # oslo.messaging met an exchange that is not durable, and took the queue for the same.
        topic, fanout, _ = name.partition("_fanout")
        kind, name, what = "exchange", topic + fanout if fanout else control_exchange, "durable"
    options = _OPTIONS.get(what, _UNKNOWN)[transient]
    values = f" ({' '.join(found['values'].split())})" if found["values"] else ""
    return QueueMismatch(
        f"the broker has the {kind} {name!r} of virtual host {found['vhost']!r} with another"
        f" {what!r}{values}: set [oslo_messaging_rabbit] {options} as the services that made it,"
        " delete it if no other service uses it, or use a new virtual host"
    )


class AccessRefused(UnusableTransport):
    """The broker refuses an account, a virtual host or a right; the text names account and host."""


def access_refusal(error: Exception, conf: cfg.ConfigOpts) -> AccessRefused | None:
    """Return the refusal that an error of oslo.messaging or below is about, None for others."""
    found = _ACCESS.search(str(error))
    if found is None:
        return None
    hosts = oslo_messaging.TransportURL.parse(conf).hosts
    accounts = [f"account {each.username!r} at {each.hostname}:{each.port}" for each in hosts]
    return AccessRefused(
        f"the broker refuses the {' or the '.join(accounts)}: {found['why'].rstrip(' .')}; check"
        f" user name, password and virtual host in {option_in_use(conf)}"
    )


@contextmanager
def refusals_explained(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Raise errors about queues and accounts as UnusableTransport, which oslo.messaging does not.

    They are not logged besides, unlike there.
    """
    try:
        with mismatch_not_logged():
            yield
    # Of oslo.messaging, kombu or amqp.
    except Exception as error:
        # A transport registers it, unless it is one of a test.
        exchange = conf.control_exchange if "control_exchange" in conf else ""
        found = mismatch(error, exchange) or access_refusal(error, conf)
        if found is None:
            raise
        raise found from error


@contextmanager
def start_explained(conf: cfg.ConfigOpts) -> Iterator[None]:
    """Raise as UnusableTransport also that options contradict each other.

    The driver finds that out only when a server starts.
    """
    try:
        with refusals_explained(conf):
            yield
    except RuntimeError as error:
        raise UnusableTransport(f"options of [oslo_messaging_rabbit]: {error}") from error


@contextmanager
def mismatch_not_logged() -> Iterator[None]:
    """Keep oslo.messaging from logging a mismatch, which is raised as well."""
    logger = logging.getLogger(RABBIT_LOGGER)
    logger.addFilter(_is_no_mismatch)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_mismatch)


def _is_no_mismatch(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR or not _REFUSAL.search(record.getMessage())


def probe_broker(conf: cfg.ConfigOpts, transport: oslo_messaging.Transport) -> None:
    """Try each broker of transport_url once; raise the error of the last if none can be used.

    Listening for requests or replies would retry for as long as it takes.
    """
    brokers = oslo_messaging.TransportURL.parse(conf).hosts
    # No server has this name; the broker drops what is sent to it.
    unused = oslo_messaging.Target(topic="compute", server="berthmaster-nobody", version="1.0")
    client = oslo_messaging.get_rpc_client(transport, unused, retry=max(len(brokers) - 1, 0))
    with refusals_explained(conf):
        client.cast({}, "ping")


class BrokerCheck:
    """Probes the broker over a connection of its own; used by one thread at a time.

    conf must be the process-wide oslo_config.cfg.CONF, see AgentClient. Nothing connects before the
    first probe.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        # The transport of the last probe that succeeded. One that has failed once would fail again.
        self._transport: oslo_messaging.Transport | None = None
        logging.getLogger(RABBIT_LOGGER).addFilter(_is_not_of_health)

    def probe(self) -> None:
        """Raise the error of a broker that cannot be used."""
        used, self._transport = self._transport, None
        if used is not None:
            # That the broker has closed the connection meanwhile shows only in its use.
            with suppress(Exception):
                self._probe(used)
                return
        self._probe(rpc_transport(self._conf))

    def close(self) -> None:
        """Close the connection."""
        logging.getLogger(RABBIT_LOGGER).removeFilter(_is_not_of_health)
        if self._transport is not None:
            self._transport.cleanup()

    def _probe(self, transport: oslo_messaging.Transport) -> None:
        try:
            probe_broker(self._conf, transport)
        except Exception:
            transport.cleanup()
            raise
        self._transport = transport


def _is_not_of_health(record: logging.LogRecord) -> bool:
    """Keep what health checks find every few seconds from the log: /healthz shows it."""
    return not (record.threadName or "").startswith(f"{THREADS}-")
