# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Telling all schedulers at once what an audit or a claim has written.

They read the database anyway; this is for those that would look later. So nobody waits for it, and
what cannot be told within seconds is not told at all. Agents have the rows that they tell of.
Schedulers know only which nodes they have claimed on: these are read, many at a time.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any

import oslo_messaging
from oslo_log import log

from scheduler.rpc import changes

LOG = log.getLogger(__name__)
# Seconds: how long a row is news, between two attempts, and of a stop that waits for an attempt.
KEPT = 10.0
PAUSE = 2.0
PATIENCE = 1.0
# For how long to collect nodes before they are read: a busy scheduler claims on one all the time.
COLLECTING = 0.1
# So many nodes may wait at a time. Only a fake has more: those beyond are left to be read.
MOST_WAITING = 1_000
# A message has no more instances and claims than this, unless they are all of one node.
MANY_INSTANCES = 1_000
# How often oslo.messaging looks for the broker anew in one attempt. A connection that the broker
# has closed meanwhile shows only in its use.
RETRIES = 1

# Reads the newest rows of nodes, and the claims on them.
Reader = Callable[[Collection[int]], changes.Written]


def _unable(_: Collection[int]) -> changes.Written:
    raise NotImplementedError("nodes are told of by their ids and nobody reads them")


@dataclass(frozen=True, slots=True)
class _News:
    """The newest row of a node, the rows of its instances that have changed, and when it was."""

    node: Any
    instances: Mapping[str, Any]
    claims: Sequence[Any]
    at: float

    @property
    def size(self) -> int:
        return len(self.instances) + len(self.claims)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What makes one message."""

    news: list[_News]

    @property
    def nodes(self) -> list[Any]:
        return [each.node for each in self.news]

    @property
    def instances(self) -> list[Any]:
        return [row for each in self.news for row in each.instances.values()]

    @property
    def claims(self) -> list[Any]:
        return [row for each in self.news for row in each.claims]


class Announcements:
    """Casts rows from a thread of its own. transport is not asked for before there are any.

    sender is the name of the host; read is for those who tell of nodes by their ids.
    """

    def __init__(
        self,
        transport: Callable[[], oslo_messaging.Transport],
        sender: str,
        read: Reader = _unable,
    ) -> None:
        self._transport = transport
        self._sender = sender
        self._read = read
        self._client: Any = None
        self._waiting: dict[int, _News] = {}
        # Nodes to be read, and since when they are news.
        self._unread: dict[int, float] = {}
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

    def tell(self, written: changes.Written) -> None:
        """Let the schedulers know of these rows soon; returns at once and never fails."""
        with self._condition:
            self._put(written, time.monotonic())
            self._condition.notify_all()

    def tell_of(self, node_ids: Iterable[int]) -> None:
        """Let the schedulers know of these nodes soon; returns at once and never fails."""
        now = time.monotonic()
        with self._condition:
            for node_id in node_ids:
                if node_id in self._unread or len(self._unread) < MOST_WAITING:
                    self._unread[node_id] = now
            self._condition.notify_all()

    def _put(self, written: changes.Written, now: float) -> None:
        changed: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for row in written.instances:
            changed[row.host, row.node][row.uuid] = row
        claims: dict[int, list[Any]] = defaultdict(list)
        for row in written.claims:
            claims[row.compute_node_id].append(row)
        for node in written.nodes:
            instances: Mapping[str, Any] = changed[node.host, node.hypervisor_hostname]
            older = self._waiting.get(node.id)
            if older is not None:
                instances = {**older.instances, **instances}
            elif len(self._waiting) >= MOST_WAITING:
                name = node.hypervisor_hostname
                LOG.debug("Schedulers have to read node %s: too many wait", name)
                continue
            self._waiting[node.id] = _News(node, instances, claims[node.id], now)

    def _run(self) -> None:
        while self._wait():
            batch = self._next()
            failure = self._cast(batch) if batch.news else self._read_nodes()
            # What was read is not told yet.
            if failure or batch.news:
                self._say(failure)
            with self._condition:
                if failure:
                    self._drop_outdated()
                    self._condition.wait_for(lambda: self._stopped, PAUSE)
                else:
                    self._drop(batch.news)

    def _wait(self) -> bool:
        """Wait for news; False after stop()."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._unread or self._stopped)
            return not self._stopped

    def _next(self) -> _Batch:
        """Return what makes the next message; nothing where nodes are to be read first."""
        with self._condition:
            news: list[_News] = []
            size = 0
            for each in self._waiting.values():
                size += each.size
                if news and (len(news) == changes.MOST_NODES or size > MANY_INSTANCES):
                    break
                news.append(each)
            return _Batch(news)

    def _read_nodes(self) -> str:
        """Read the nodes that are to be told of; return what went wrong, or nothing.

        What is read waits like that of an agent: nothing is read as long as nothing can be told.
        """
        with self._condition:
            if self._condition.wait_for(lambda: self._stopped, COLLECTING):
                return ""
            unread = dict(self._unread)
        try:
            found = self._read(unread)
        # As with casts.
        except Exception as error:
            return _said_by(error)
        with self._condition:
            for node_id, moment in unread.items():
                if self._unread.get(node_id) == moment:
                    del self._unread[node_id]
            self._put(found, time.monotonic())
        return ""

    def _cast(self, batch: _Batch) -> str:
        """Tell of some nodes; return what went wrong, or nothing."""
        try:
            if self._client is None:
                self._client = _client(self._transport())
            arguments = changes.encode(batch)
            self._client.cast({}, "nodes_changed", agent=self._sender, **arguments)
        # A thread that ends would leave the schedulers untold for good.
        except Exception as error:
            return _said_by(error)
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

    def _drop_outdated(self) -> None:
        oldest = time.monotonic() - KEPT
        self._drop([each for each in self._waiting.values() if each.at < oldest])
        self._unread = {each: at for each, at in self._unread.items() if at >= oldest}

    def _drop(self, news: Iterable[_News]) -> None:
        """Forget news, unless there are newer ones of the same node by now."""
        for each in news:
            if self._waiting.get(each.node.id) is each:
                del self._waiting[each.node.id]


def _said_by(error: Exception) -> str:
    return " ".join(str(error).split()) or repr(error)


def _client(transport: oslo_messaging.Transport) -> Any:
    target = oslo_messaging.Target(
        topic=changes.TOPIC, namespace=changes.NAMESPACE, version=changes.VERSION, fanout=True
    )
    return oslo_messaging.get_rpc_client(transport, target, retry=RETRIES)
