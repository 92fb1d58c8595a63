# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Pushes the rows that an audit or a claim has written to all schedulers.

They read the database anyway, only later: what cannot be pushed within seconds is dropped. Agents
have the rows that they publish. Schedulers know only on which nodes they have claimed: these are
read, many at a time.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import oslo_messaging
from oslo_log import log

from scheduler.messaging.background_publisher import BackgroundPublisher
from scheduler.messaging.broker_check import refusals_explained
from scheduler.messaging.transport import RECONNECTIONS
from scheduler.wire import push_messages

LOG = log.getLogger(__name__)
# How many seconds after a change it is not worth pushing any more.
MAX_AGE = 10.0
# Seconds to collect nodes before they are read: a busy scheduler claims on one all the time.
COLLECTING = 0.1
# A message has no more instances and claims than this, unless they are all of one node.
MAX_INSTANCES = 1_000

# Reads the newest rows of nodes, and the claims on them.
Reader = Callable[[Collection[int]], push_messages.Written]


def _read_nothing(_: Collection[int]) -> push_messages.Written:
    raise NotImplementedError("publish_nodes() needs a reader of nodes")


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """The newest row of a node, its instances that have changed, its claims, and when it was."""

    node: Any
    instances: Mapping[str, Any]
    claims: Sequence[Any]
    at: float


class ChangePublisher(BackgroundPublisher[_Change]):
    """Casts rows from a thread of its own; transport is called when the first are sent.

    sender is the name of this host; read is needed for publish_nodes().
    """

    batch_size = push_messages.MOST_NODES
    first_pause = longest_pause = 2.0
    stop_timeout = 1.0
    # It takes one failure to notice that the exchange has gone with the last scheduler, and it
    # comes back by itself.
    tolerated_failures = 1
    failure_text = "Pushing changes to schedulers failed, they read them from the database: %s"

    def __init__(
        self,
        transport: Callable[[], oslo_messaging.Transport],
        sender: str,
        read: Reader = _read_nothing,
    ) -> None:
        super().__init__("Pushing changes to schedulers")
        self._transport = transport
        self._sender = sender
        self._read = read
        self._client: Any = None
        # Nodes to be read, and since when they have changed.
        self._unread: dict[int, float] = {}

    def publish(self, written: push_messages.Written) -> None:
        """Queue rows for all schedulers, without waiting or failing."""
        instances: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for row in written.instances:
            instances[row.host, row.node][row.uuid] = row
        claims: dict[int, list[Any]] = defaultdict(list)
        for row in written.claims:
            claims[row.compute_node_id].append(row)
        now = time.monotonic()
        with self._condition:
            for node in written.nodes:
                name = node.hypervisor_hostname
                changed: Mapping[str, Any] = instances[node.host, name]
                if older := self._waiting.get(node.id):
                    changed = {**older.instances, **changed}
                if not self.put(_Change(node, changed, claims[node.id], now)):
                    LOG.debug("Publish queue full: schedulers read node %s later", name)

    def publish_nodes(self, node_ids: Iterable[int]) -> None:
        """Queue nodes, whose rows are read and pushed soon, without waiting or failing."""
        now = time.monotonic()
        with self._condition:
            for node_id in node_ids:
                if node_id in self._unread or len(self._unread) < self.max_waiting:
                    self._unread[node_id] = now
            self._condition.notify_all()

    def key_of(self, item: _Change) -> int:
        """Replace the older row of a node."""
        return int(item.node.id)

    def has_work(self) -> bool:
        """Return whether there are rows to send or nodes to read."""
        return bool(self._waiting or self._unread)

    def next_batch(self) -> list[_Change]:
        """Return the changes for one message, none if nodes have to be read first."""
        batch: list[_Change] = []
        size = 0
        for change in super().next_batch():
            size += len(change.instances) + len(change.claims)
            if batch and size > MAX_INSTANCES:
                break
            batch.append(change)
        return batch

    def send(self, batch: list[_Change]) -> None:
        """Send changes or, if none wait, read nodes: none are read while none can be sent."""
        if batch:
            self._cast(batch)
        else:
            self._read_nodes()

    def housekeeping(self) -> None:
        """Forget what is too old, but only if it could not be sent."""
        with self._condition:
            if self._failing:
                oldest = time.monotonic() - MAX_AGE
                self.remove([each for each in self._waiting.values() if each.at < oldest])
                self._unread = {each: at for each, at in self._unread.items() if at >= oldest}

    def _read_nodes(self) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._stopping, COLLECTING)
            unread = dict(self._unread)
        found = self._read(unread)
        with self._condition:
            for node_id, changed_at in unread.items():
                # It may have changed again while it was read.
                if self._unread.get(node_id) == changed_at:
                    del self._unread[node_id]
            self.publish(found)

    def _cast(self, batch: list[_Change]) -> None:
        if self._client is None:
            target = oslo_messaging.Target(
                topic=push_messages.TOPIC,
                namespace=push_messages.NAMESPACE,
                version=push_messages.VERSION,
                fanout=True,
            )
            transport = self._transport()
            self._client = oslo_messaging.get_rpc_client(transport, target, retry=RECONNECTIONS)
        rows = push_messages.Pushed(
            [each.node for each in batch],
            [*chain.from_iterable(each.instances.values() for each in batch)],
            [*chain.from_iterable(each.claims for each in batch)],
        )
        arguments = push_messages.encode(rows)
        with refusals_explained(self._client.conf):
            self._client.cast({}, "nodes_changed", agent=self._sender, **arguments)
