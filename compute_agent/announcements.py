# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Telling all schedulers at once what an audit has written.

They read the database anyway; this is for those that would look later. So no audit waits for it,
and what cannot be told within seconds is not told at all.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any

import oslo_messaging
from oslo_log import log

from compute_agent.storing import Stored
from scheduler.rpc import changes

LOG = log.getLogger(__name__)
# Seconds: how long a row is news, between two attempts, and of a stop that waits for an attempt.
KEPT = 10.0
PAUSE = 2.0
PATIENCE = 1.0
# So many nodes may wait at a time. Only a fake has more: those beyond are left to be read.
MOST_WAITING = 1_000
# A message has no more instances than this, unless they are all of one node.
MANY_INSTANCES = 1_000
# How often oslo.messaging looks for the broker anew in one attempt. A connection that the broker
# has closed meanwhile shows only in its use.
RETRIES = 1


@dataclass(frozen=True, slots=True)
class _News:
    """The newest row of a node, the rows of its instances that have changed, and when it was."""

    node: Any
    instances: Mapping[str, Any]
    at: float


class Announcements:
    """Casts rows from a thread of its own. transport is not asked for before there are any."""

    def __init__(self, transport: Callable[[], oslo_messaging.Transport], host: str) -> None:
        self._transport = transport
        self._host = host
        self._client: Any = None
        self._waiting: dict[int, _News] = {}
        self._condition = Condition()
        self._stopped = False
        self._failures = 0
        self._thread = Thread(target=self._run, name="announcements", daemon=True)

    def start(self) -> None:
        """Begin to cast; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; an attempt that takes too long is left to end with the process."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
        if self._thread.ident:
            self._thread.join(PATIENCE)

    def tell(self, stored: Stored) -> None:
        """Let the schedulers know of these rows soon; returns at once and never fails."""
        now = time.monotonic()
        changed: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for row in stored.instances:
            changed[row.host, row.node][row.uuid] = row
        with self._condition:
            for node in stored.nodes:
                self._put(node, changed[node.host, node.hypervisor_hostname], now)
            self._condition.notify_all()

    def _put(self, node: Any, instances: Mapping[str, Any], now: float) -> None:
        older = self._waiting.get(node.id)
        if older is not None:
            instances = {**older.instances, **instances}
        elif len(self._waiting) >= MOST_WAITING:
            LOG.debug("Schedulers have to read node %s: too many wait", node.hypervisor_hostname)
            return
        self._waiting[node.id] = _News(node, instances, now)

    def _run(self) -> None:
        while batch := self._next():
            failure = self._cast(batch)
            self._say(failure)
            with self._condition:
                if failure:
                    self._drop(self._outdated())
                    self._condition.wait_for(lambda: self._stopped, PAUSE)
                else:
                    self._drop(batch)

    def _next(self) -> list[_News]:
        """Wait for news and return those that make the next message; nothing after stop()."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._stopped)
            batch: list[_News] = []
            instances = 0
            for news in [] if self._stopped else self._waiting.values():
                instances += len(news.instances)
                if batch and (len(batch) == changes.MOST_NODES or instances > MANY_INSTANCES):
                    break
                batch.append(news)
            return batch

    def _cast(self, batch: list[_News]) -> str:
        """Tell of some nodes; return what went wrong, or nothing."""
        nodes = [each.node for each in batch]
        instances = [row for each in batch for row in each.instances.values()]
        try:
            if self._client is None:
                self._client = _client(self._transport())
            arguments = changes.encode(nodes, instances)
            self._client.cast({}, "nodes_changed", agent=self._host, **arguments)
        # A thread that ends would leave the schedulers untold for good.
        except Exception as error:
            return " ".join(str(error).split()) or repr(error)
        return ""

    def _say(self, failure: str) -> None:
        """Log when it begins to fail and when that is over.

        One failure is nothing: it takes one to notice that the exchange has gone with the last
        scheduler, and it comes back by itself.
        """
        if not failure:
            if self._failures > 1:
                LOG.info("Schedulers are told of changes at once again")
            self._failures = 0
            return
        self._failures += 1
        if self._failures == 2:
            LOG.warning(
                "Schedulers cannot be told of changes at once, and see them when they read the"
                " database: %s",
                failure,
            )

    def _outdated(self) -> list[_News]:
        oldest = time.monotonic() - KEPT
        return [each for each in self._waiting.values() if each.at < oldest]

    def _drop(self, batch: Iterable[_News]) -> None:
        """Forget news, unless there are newer ones of the same node by now."""
        for each in batch:
            if self._waiting.get(each.node.id) is each:
                del self._waiting[each.node.id]


def _client(transport: oslo_messaging.Transport) -> Any:
    target = oslo_messaging.Target(
        topic=changes.TOPIC, namespace=changes.NAMESPACE, version=changes.VERSION, fanout=True
    )
    return oslo_messaging.get_rpc_client(transport, target, retry=RETRIES)
