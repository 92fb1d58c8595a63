# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Pushes the rows that an audit has written, and what claims have changed, to all schedulers.

They read the database anyway, only later: what cannot be pushed within seconds is dropped.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

import oslo_messaging
from oslo_log import log

from inventory.claims.types import Changes, NodeChange
from scheduler.messaging.background_publisher import BackgroundPublisher
from scheduler.messaging.broker_check import refusals_explained
from scheduler.messaging.transport import RECONNECTIONS
from scheduler.wire import claim_messages, push_messages

LOG = log.getLogger(__name__)
# How many seconds after a change it is not worth pushing any more.
MAX_AGE = 10.0
# Seconds in which a scheduler collects changes for one message.
COLLECTING = 0.1
# A message has no more instances and claims than this, unless they are all of one node.
MAX_INSTANCES = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """The newest row of a node, its instances that have changed, its claims, and when it was."""

    node: Any
    instances: Mapping[str, Any]
    claims: Sequence[Any]
    at: float

    @property
    def key(self) -> Hashable:
        """The newest row of a node replaces older ones."""
        return int(self.node.id)

    @property
    def size(self) -> int:
        return len(self.instances) + len(self.claims)

    @staticmethod
    def encode(batch: Sequence[Any]) -> dict[str, Any]:
        rows = push_messages.Pushed(
            [each.node for each in batch],
            [*chain.from_iterable(each.instances.values() for each in batch)],
            [*chain.from_iterable(each.claims for each in batch)],
        )
        return push_messages.encode(rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Claimed:
    """What claims have changed of a node, and when it was."""

    change: NodeChange
    at: float

    @property
    def key(self) -> Hashable:
        """Each change counts."""
        return self

    @property
    def size(self) -> int:
        return len(self.change.added) + len(self.change.ended)

    @staticmethod
    def encode(batch: Sequence[Any]) -> dict[str, Any]:
        return claim_messages.encode([each.change for each in batch])


_Item = _Row | _Claimed


class ChangePublisher(BackgroundPublisher[_Item]):
    """Casts changes from a thread of its own; transport is called when the first are sent.

    sender is the name of this host. Changes are collected for some seconds before they are sent.
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
        collecting: float = 0.0,
    ) -> None:
        super().__init__("Pushing changes to schedulers")
        self._transport = transport
        self._sender = sender
        self.collect_seconds = collecting
        self._client: Any = None

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
                older = self._waiting.get(node.id)
                if isinstance(older, _Row):
                    changed = {**older.instances, **changed}
                if not self.put(_Row(node, changed, claims[node.id], now)):
                    LOG.debug("Publish queue full: schedulers read node %s later", name)

    def publish_claims(self, changes: Changes) -> None:
        """Queue what claims have changed for all schedulers, without waiting or failing."""
        now = time.monotonic()
        for each in changes:
            if not self.put(_Claimed(each, now)):
                LOG.debug("Publish queue full: schedulers read node id %s later", each.node_id)

    def key_of(self, item: _Item) -> Hashable:
        """Replace the older row of a node."""
        return item.key

    def next_batch(self) -> list[_Item]:
        """Return the changes for one message, which are of one kind."""
        first, *others = super().next_batch()
        batch, size = [first], first.size
        for each in takewhile(lambda other: type(other) is type(first), others):
            size += each.size
            if size > MAX_INSTANCES:
                break
            batch.append(each)
        return batch

    def housekeeping(self) -> None:
        """Forget what is too old, but only if it could not be sent."""
        with self._condition:
            if self._failing:
                oldest = time.monotonic() - MAX_AGE
                self.remove([each for each in self._waiting.values() if each.at < oldest])

    def send(self, batch: list[_Item]) -> None:
        """Cast changes of one kind."""
        if self._client is None:
            target = oslo_messaging.Target(
                topic=push_messages.TOPIC,
                namespace=push_messages.NAMESPACE,
                version=push_messages.VERSION,
                fanout=True,
            )
            transport = self._transport()
            self._client = oslo_messaging.get_rpc_client(transport, target, retry=RECONNECTIONS)
        arguments = batch[0].encode(batch)
        with refusals_explained(self._client.conf):
            self._client.cast({}, "nodes_changed", agent=self._sender, **arguments)
