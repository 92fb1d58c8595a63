# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""In one line: the broker has a queue or exchange that was made with other options than ours."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.rpc.transport import UnusableTransport

_TALKATIVE = "oslo.messaging._drivers.impl_rabbit"
_REFUSAL = re.compile(
    r"PRECONDITION_FAILED - (?:inequivalent arg|invalid property) '(?P<property>[^']+)'"
    r" for (?P<kind>\w+) '(?P<name>[^']*)' in vhost '(?P<vhost>[^']*)'(?:: (?P<values>.*))?",
    re.DOTALL,
)
# What the broker compares, and the options that decide it: of what lasts, of what is transient.
_TYPE = ("rabbit_quorum_queue", "rabbit_transient_quorum_queue and rabbit_stream_fanout")
_DURABLE = ("rabbit_quorum_queue and amqp_durable_queues", "rabbit_transient_quorum_queue")
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
    """What is there has another kind; the text names it, the options and the cure."""


def mismatch(error: Exception, control_exchange: str) -> QueueMismatch | None:
    """Return what an error of oslo.messaging or below says of a mismatch; None if nothing."""
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
        " delete it if nobody else uses it, or use a new virtual host"
    )


@contextmanager
def told_once() -> Iterator[None]:
    """Keep oslo.messaging from telling of a refusal that is raised as well."""
    logger = logging.getLogger(_TALKATIVE)
    logger.addFilter(_is_news)
    try:
        yield
    finally:
        logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR or not _REFUSAL.search(record.getMessage())
