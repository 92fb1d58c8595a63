# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The scheduler's view of all hosts: a table in memory that follows the database.

Before a decision it is brought up to date with what changed, which concurrent requests share; now
and then it is read anew, which heals whatever was missed. In between agents and schedulers push
what they have written: of two rows of a node the one of the higher generation counts, however they
come. Between two writes of a row, what decisions took from its host is remembered here.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from inventory.engine import Database, DatabaseUnavailable
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.host_view import garbage
from scheduler.host_view.aggregates import HostAggregates
from scheduler.host_view.changes import Changes, Wanted, everything, say_how_long, since
from scheduler.host_view.doubts import Doubts
from scheduler.host_view.drift import Survey, say_healed
from scheduler.host_view.nodes import Nodes
from scheduler.host_view.reservations import Reservations
from scheduler.host_view.rows import seconds
from scheduler.host_view.shared_turn import SharedTurn, TurnTimeout
from scheduler.host_view.whereabouts import Whereabouts
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

# Agents beat every ten seconds; reading the beats more often tells nothing new.
HEARTBEATS_EVERY = 10.0
# How long a decision that could use the view as it is waits for what is disputed to be read.
PATIENCE = 1.0


class HostView:
    """Keeps the table fresh. Times are seconds of the monotonic clock unless said otherwise."""

    def __init__(
        self,
        database: Database,
        max_age: float = 0.0,
        reload_interval: float = 300.0,
        timeout: float = 60.0,
        cell_uuid: str | None = None,
    ) -> None:
        self._database = database
        self._max_age = max_age
        self._reload_interval = reload_interval
        self._lock = RLock()
        self._hosts = HostTable()
        self._aggregates = HostAggregates(self._hosts)
        self._nodes = Nodes(self._hosts, self._aggregates, cell_uuid)
        self._whereabouts = Whereabouts(self._hosts)
        self._reservations = Reservations(self._hosts, self._whereabouts)
        self._doubts = Doubts()
        # What casts told, in the order in which they came.
        self._heard: deque[Callable[[float], None]] = deque()
        self._last: Changes | None = None
        self._read_at = self._loaded_at = float("-inf")
        self._timeout = timeout
        self._turn = SharedTurn(self.refresh, "view")

    @property
    def age(self) -> float:
        """How many seconds ago the last refresh began; infinite before the first one."""
        return time.monotonic() - self._read_at

    def eligibility(self, node_id: int) -> int:
        """Return the eligibility_revision that goes with a node's aggregates and services here.

        It is -1, which no row has, for a node that was pushed and not read yet.
        """
        with self._lock:
            return self._nodes.eligibility.get(node_id, -1)

    @contextmanager
    def current(self, max_age: float | None = None, fresh: bool = False) -> Iterator[HostTable]:
        """Yield the table, locked; copy it before consuming from it.

        max_age in seconds replaces the configured one; whether services are alive is then what was
        known when they were read. fresh asks for all that was committed before. Hosts that tell of
        other instances than are known are read before. Raises DatabaseUnavailable when the table is
        older and cannot be read again.
        """
        if fresh or self.age > (self._max_age if max_age is None else max_age):
            self._catch_up(self._timeout)
        elif max_age is None and self._whereabouts.disputes.open:
            with suppress(DatabaseUnavailable):
                self._catch_up(min(self._timeout, PATIENCE))
        with self._lock:
            self._aggregates.settle()
            # Heartbeats would age with a view that is meant to be old, and living hosts look dead.
            old = max_age is not None and not fresh
            self._hosts.set_moment(self._nodes.services_at if old else time.monotonic())
            yield self._hosts

    def nodenames(self, max_age: float | None = None) -> list[str]:
        """Return the names of all nodes, each once; see current()."""
        with self.current(max_age) as hosts:
            return [name for name in hosts.distinct("nodename") if name is not None]

    def set_max_age(self, seconds: float) -> None:
        """Say up to which age the view is used as it is."""
        self._max_age = seconds

    def set_numa_packing(self, packing: bool) -> None:
        """Say whether guests fill one NUMA cell after the other; see HostTable."""
        with self._lock:
            self._hosts.numa_packing = packing

    def set_trust(self, levels: Mapping[str, str]) -> None:
        """Take over the levels of trust by node; nodes without one are unknown.

        levels must not change any more.
        """
        with self._lock:
            self._nodes.set_trust(levels)

    def refresh(self) -> None:
        """Read what changed and apply it; everything, when the last complete reading is old."""
        began = time.monotonic()
        complete = self._last is None or began - self._loaded_at >= self._reload_interval
        with garbage.left_alone(complete):
            self._refresh(began, complete)

    def _refresh(self, began: float, complete: bool) -> None:
        with self._lock:
            last, doubtful = self._last, self._doubts.open
            disputes = dict(self._whereabouts.disputes.open)
            nodes = self._whereabouts.nodes_of(disputes)
        if last is None or complete:
            changes = self._database.read(everything)
        else:
            heartbeats = began - self._nodes.services_at >= HEARTBEATS_EVERY
            wanted = Wanted(self._nodes.generations, doubtful.keys() | nodes, disputes, heartbeats)
            changes = self._database.read(lambda connection: since(connection, last, wanted))
        with self._lock:
            self._apply(changes, began, doubtful)
            read = disputes if changes.complete else changes.hosts
            self._whereabouts.disputes.close({host: disputes[host] for host in read})
        say_how_long(changes, time.monotonic() - began)

    def distrust(self, node_ids: Collection[int]) -> None:
        """Let the next refresh read these nodes and write them whatever was reserved there."""
        with self._lock:
            self._doubts.add(node_ids)

    def take(
        self, nodes: Sequence[Any], instances: Sequence[Any], claims: Sequence[Any] = ()
    ) -> None:
        """Take rows that an agent or a scheduler has pushed, as far as they are news.

        Rows of instances and claims count with those of their nodes. The view gets no younger by
        that: what else has changed is still to be read.
        """
        with self._lock:
            if self._last is None:
                return
            news = self._nodes.news(nodes, self._last, self._database_time(time.monotonic()))
            self._nodes.take(news)
            places = self._nodes.places(news)
            changes = Changes(complete=False, nodes=news, claims=claims)
            changes.instances = [each for each in instances if (each.host, each.node) in places]
            self._apply_instances(changes)

    def reserve(self, decision: Decision, spec: RequestSpec) -> frozenset[int]:
        """Take what a decision takes, until its hosts are read again; return their nodes' ids.

        Cells and devices stay as they are. To be followed by settled(), and before that by
        distrust() where the claims have not come about.
        """
        with self._lock:
            return self._reservations.begin(decision, spec)

    @property
    def reserved(self) -> Collection[int]:
        """The nodes, by their ids, with reservations that are not settled."""
        with self._lock:
            return self._reservations.nodes

    def settled(self, node_ids: Collection[int]) -> None:
        """Take it that what reserve() took from these nodes is in their rows, or never will be."""
        with self._lock:
            self._reservations.end(node_ids, time.monotonic())

    def reports(self, uuid: str, host: str, node: str) -> bool:
        """Return whether the agent of a node has reported an instance there."""
        with self._lock:
            return self._whereabouts.reports((host, node), uuid)

    def consume(self, decision: Decision, spec: RequestSpec) -> None:
        """Remember what a decision took, without any claims, until its hosts report again."""
        if spec.is_rebuild:
            return
        with self._lock:
            now = time.monotonic()
            for placement in decision.placements:
                chosen = placement.chosen
                row = self._hosts.row_of(chosen.host, chosen.nodename)
                if row is None:
                    continue
                uuid = placement.instance_uuid
                known = self._hosts.residents.on(row).get(uuid or "")
                state = HostState.of(self._hosts, row)
                state.consume_from_request(spec.for_instance(uuid))
                self._nodes.consume(row, self._database_time(now))
                if uuid:
                    self._whereabouts.promise(row, uuid, known, now)
            # The decision has carried the same warnings already.
            self._hosts.warnings.clear()

    def update_aggregates(self, aggregates: Sequence[Aggregate]) -> None:
        """Take aggregates that a service told of, in the place of those that are the same."""
        self._hear(lambda _: self._aggregates.tell(aggregates))

    def delete_aggregate(self, aggregate: Aggregate) -> None:
        """Take it that an aggregate was deleted."""
        self._hear(lambda _: self._aggregates.tell_gone(aggregate))

    def update_instances(self, host: str, instances: Sequence[Instance]) -> None:
        """Take instances that a host told of, besides those that it has already."""
        self._hear(lambda now: self._whereabouts.tell(host, instances, now))

    def delete_instance(self, host: str, uuid: str) -> None:
        """Take it that a host has lost an instance, until its agent looks and sees it."""
        self._hear(lambda now: self._whereabouts.tell_gone(host, uuid, now))

    def sync_instances(self, host: str, uuids: Sequence[str]) -> None:
        """Take the uuids of all instances that a host told of; where it disagrees, it is read."""
        self._hear(lambda now: self._whereabouts.tell_all(host, uuids, now))

    def forget_instances(self) -> None:
        """Forget what hosts told of their instances; agents' rows and decisions stay."""
        with self._lock:
            self._whereabouts.forget_told()

    def _catch_up(self, timeout: float) -> None:
        try:
            self._turn.take(timeout)
        except TurnTimeout as error:
            raise DatabaseUnavailable(str(error)) from error

    def _hear(self, take: Callable[[float], None]) -> None:
        """Take in what was told, and before it what was told earlier and waits for the lock too."""
        self._heard.append(take)
        with self._lock:
            now = self._database_time(time.monotonic())
            while self._heard:
                self._heard.popleft()(now)

    def _apply(self, changes: Changes, began: float, doubtful: Mapping[int, int]) -> None:
        if changes.services is not None:
            self._nodes.read_services(changes.services, began)
        if changes.complete:
            self._apply_nodes_anew(changes, began, doubtful)
            self._loaded_at = began
        else:
            changes.leave_out_outrun(self._nodes.generations)
            read = {node.id for node in changes.nodes}
            self._nodes.forget(doubtful.keys() - read)
            changes.nodes = self._nodes.newer(changes.nodes, doubtful)
            self._nodes.take(changes.nodes)
            # A push was faster than the reading, which says nothing of what was reserved since.
            outrun = read - {node.id for node in changes.nodes}
            doubtful = {each: mark for each, mark in doubtful.items() if each not in outrun}
        self._nodes.eligibility.update(changes.eligibility)
        self._doubts.end(doubtful)
        if changes.aggregates is not None:
            self._aggregates.read(changes.aggregates)
            self._aggregates.settle()
        if changes.services is not None:
            self._nodes.write_services()
        self._apply_instances(changes)
        self._last, self._read_at = changes.without_rows(), began

    def _apply_nodes_anew(self, changes: Changes, began: float, doubtful: Collection[int]) -> None:
        # What is reserved at the time may be in the rows that were read, or not yet.
        busy = self._reservations.since(began) - {*doubtful}
        survey = Survey(self._hosts, {*doubtful, *self._nodes.consumed})
        missed = self._nodes.missed(changes, self._last)
        changes.nodes = self._nodes.keep(changes.nodes, busy)
        self._nodes.take(changes.nodes)
        say_healed(missed, survey.differing())

    def _apply_instances(self, changes: Changes) -> None:
        self._whereabouts.follow(self._nodes.moved)
        self._nodes.moved.clear()
        self._whereabouts.read(changes, time.monotonic())

    def _database_time(self, now: float) -> float:
        """Return a moment as the database's clock shows it, in seconds since 1970."""
        return seconds(self._last.now) + now - self._read_at if self._last else 0.0
