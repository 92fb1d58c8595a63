# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Writes decisions into the database in the background, many at a time and in small steps.

A request only leaves its trace here, which takes microseconds.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from random import Random
from uuid import uuid4

from oslo_db.exception import DBDuplicateEntry
from oslo_log import log

from conf.daemon.state_logger import StateLogger, one_line
from inventory import decisions
from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.decisions import DecisionRow, SnapshotBatch
from inventory.engine import Database
from inventory.errors import counted
from scheduler.history.serialization import (
    DecisionBatch,
    Pause,
    TooLarge,
    batch_to_bytes,
    document_of,
    snapshots_to_bytes,
)
from scheduler.hosts.flavor_mix import MAX_SIZE
from scheduler.hosts.snapshots import Snapshot, SnapshotLog
from scheduler.messaging.background_publisher import BackgroundPublisher
from scheduler.objects.request_spec import RequestSpec
from scheduler.request_trace import REPEATED, RequestTrace

LOG = log.getLogger(__name__)
# Seconds of sleep between two steps of work, for the threads that answer requests.
YIELD_SECONDS = 0.001
# Seconds between two prunings, half as much more at most, since all schedulers do it.
PRUNE_INTERVAL = 60.0
# Seconds without a decision after which another snapshot log begins: this one may be deleted with
# the last of its decisions, after decisions.UNUSED_AGE.
IDLE_SECONDS = 100.0
# A snapshot log ends when what follows its first snapshot is larger than this, in bytes, and than
# this multiple of that one: all of it has to be read for its last decision.
MAX_DELTA_BYTES = 1_000_000
MAX_DELTA_RATIO = 4
DOCUMENTS_PER_PAUSE = 8


@dataclass(frozen=True, slots=True)
class Retention:
    """How long decisions are kept, in seconds, and how many."""

    max_age: float
    max_number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The scheduler that decided, by the name of its host, and a unique name of its process."""

    scheduler: str
    process: str

    def log_name(self, log_id: int) -> str:
        """Return the name of a snapshot log in the database."""
        return f"{self.process}-{log_id}"


class DecisionRecorder(BackgroundPublisher[RequestTrace]):
    """Observes requests and saves those that were decided on a snapshot of its snapshot log.

    retention may be changed. prune_more is called whenever old decisions are deleted, to delete
    other rows that are not needed any more: again and again until it returns False.
    """

    # Decisions and their instances: what takes some seconds to write when all is well, since each
    # trace holds much in memory, the first one of a snapshot log all hosts.
    max_waiting = 5_000
    batch_size = 250
    collect_seconds = 1.0
    first_pause = longest_pause = 5.0
    failure_text = "Writing decisions failed, trying again: %s"

    def __init__(
        self,
        database: Database,
        scheduler: str,
        retention: Retention,
        prune_more: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__("Writing decisions")
        self.snapshot_log = SnapshotLog()
        self.retention = retention
        self._database = database
        self._prune_more = prune_more
        self._origin = Origin(scheduler, uuid4().hex)
        # What is written now: the same until it succeeds, as a commit without an answer may have
        # taken place.
        self._traces: list[RequestTrace] = []
        self._rows: tuple[list[DecisionRow], list[SnapshotBatch]] | None = None
        # In bytes: the first snapshot of the log, with what was written at once, and the rest.
        self._first_bytes = self._delta_bytes = 0
        # Logs up to this one have lost a snapshot, and the next was begun after that one.
        self._broken_log = self._ended_log = 0
        self._random = Random()
        self._prune_at = time.monotonic() + PRUNE_INTERVAL * self._random.random()
        self._written_at = time.monotonic()
        self._prunings = (
            (StateLogger(LOG, "Deleting old decisions"), self._prune_decisions),
            (StateLogger(LOG, "Deleting other unneeded rows"), self._prune_more),
        )

    def on_finished(self, trace: RequestTrace) -> None:
        """Queue a finished request, or drop it if the queue is full; returns at once.

        The later snapshots of a log that has lost one cannot be restored: decisions are dropped
        until another log has begun, which is only when the queue has room for it.
        """
        if not trace.snapshots:
            return
        log_id = trace.snapshots[-1].log_id
        with self._condition:
            if self._size >= self.max_waiting:
                self._broken_log = max(self._broken_log, log_id)
            elif log_id > self._broken_log:
                self.put(trace)
                return
            elif self._ended_log < self._broken_log:
                self._ended_log = self._broken_log
                self.snapshot_log.restart()
            self.drop(1, "the database does not store the decisions in time")

    def size_of(self, item: RequestTrace) -> int:
        """Count a decision and its instances."""
        return 1 + len(item.instance_uuids)

    def next_batch(self) -> list[RequestTrace]:
        """Return what could not be written before, or all that waits."""
        return self._traces or [*self._waiting.values()]

    def send(self, batch: list[RequestTrace]) -> None:
        """Write decisions and snapshots."""
        if self._rows is None:
            self._traces = batch
            self._rows = rows_of(batch, self._origin, _yield_cpu, self._note_unsaved)
            self._end_long_log(self._rows[1])
        rows, batches = self._rows
        try:
            self._database.write(lambda connection: decisions.add(connection, rows, batches))
        except DBDuplicateEntry:
            LOG.debug("An earlier attempt to write decisions had succeeded")
        self._traces, self._rows = [], None
        self._written_at = time.monotonic()

    def gives_up(self, item: RequestTrace, error: Exception) -> bool:
        """Drop what fails for another reason than an outage of the database."""
        if isinstance(error, DatabaseUnavailable) and not isinstance(error, StatementRefused):
            return False
        self._traces, self._rows = [], None
        self._broken_log = max(self._broken_log, item.snapshots[-1].log_id)
        return True

    def seconds_until_due(self) -> float:
        """Return the seconds until the next pruning."""
        return max(0.0, self._prune_at - time.monotonic())

    def housekeeping(self) -> None:
        """Begin another snapshot log if this one is idle, and delete old decisions."""
        now = time.monotonic()
        if not self._waiting and now - self._written_at > IDLE_SECONDS:
            self.snapshot_log.restart()
        if now < self._prune_at or self._failing:
            return
        self._prune_at = now + PRUNE_INTERVAL * (1 + self._random.random() / 2)
        text = "%s failed, trying again later: %s"
        for state, work in self._prunings:
            state.attempt(partial(self._in_steps, work), text, state.activity)

    def _note_unsaved(self) -> None:
        with self._condition:
            self.dropped += 1

    def _end_long_log(self, batches: Sequence[SnapshotBatch]) -> None:
        for each in batches:
            if each.first == 0:
                self._first_bytes, self._delta_bytes = len(each.data), 0
            else:
                self._delta_bytes += len(each.data)
        if self._delta_bytes > max(MAX_DELTA_BYTES, MAX_DELTA_RATIO * self._first_bytes):
            self.snapshot_log.restart()
            self._delta_bytes = 0

    def _prune_decisions(self) -> bool:
        """Delete some old decisions; return whether there may be more."""
        limits = self.retention
        return self._database.write(
            lambda connection: decisions.prune(connection, limits.max_age, limits.max_number)
        )

    def _in_steps(self, work: Callable[[], bool]) -> None:
        """Do work again and again until it returns False, or the recorder is stopped."""
        while not self._stopping and work():
            _yield_cpu()


def _yield_cpu() -> None:
    time.sleep(YIELD_SECONDS)


def rows_of(
    traces: Sequence[RequestTrace], origin: Origin, pause: Pause, failed: Callable[[], None]
) -> tuple[list[DecisionRow], list[SnapshotBatch]]:
    """Return the decisions and snapshots of requests; pause is called again and again.

    failed is called for each decision that cannot be saved.
    """
    by_log: dict[int, list[Snapshot]] = defaultdict(list)
    for trace in traces:
        for snapshot in trace.snapshots:
            by_log[snapshot.log_id].append(snapshot)
    firsts = {log_id: min(each.number for each in some) for log_id, some in by_log.items()}
    in_batch = {log_id: batch_to_bytes(first) for log_id, first in firsts.items()}
    decided: dict[int, DecisionBatch] = defaultdict(DecisionBatch)
    rows = []
    for number, trace in enumerate(traces, 1):
        if not number % DOCUMENTS_PER_PAUSE:
            pause()
        try:
            if row := _decision_row(trace, origin, decided, in_batch):
                rows.append(row)
        # A plug-in of a third party may put anything into a request; others are still saved.
        except Exception as error:
            failure = f"{type(error).__name__}: {one_line(error)}"
            request_id = trace.caller.request_id
            LOG.warning("Cannot save the decision for request %s: %s", request_id, failure)
            failed()
    batches = []
    for log_id, snapshots in sorted(by_log.items()):
        snapshots.sort(key=attrgetter("number"))
        batches.append(
            SnapshotBatch(
                origin.log_name(log_id),
                firsts[log_id],
                snapshots_to_bytes(snapshots, pause),
                decided[log_id].to_bytes(pause),
            )
        )
    return rows, batches


def _decision_row(
    trace: RequestTrace,
    origin: Origin,
    decided: Mapping[int, DecisionBatch],
    in_batch: Mapping[int, bytes],
) -> DecisionRow | None:
    """Return the row of a decision, and add it to its batch; None if there is nothing to save."""
    saved, snapshot = document_of(trace), trace.snapshot
    # The first answer to a request is what counts, and is saved already.
    if trace.outcome == REPEATED or saved is None or snapshot is None:
        return None
    try:
        decided[snapshot.log_id].add(snapshot.number, saved)
    except TooLarge:
        many = counted(len(trace.instance_uuids), "instance")
        raise ValueError(f"with {many}, the decision is too large") from None
    return DecisionRow(
        snapshot_log=origin.log_name(snapshot.log_id),
        snapshot_number=snapshot.number,
        ended=trace.began + trace.total,
        scheduler=origin.scheduler,
        outcome=trace.outcome,
        milliseconds=1000 * trace.total,
        conflicts=trace.conflicts,
        document=in_batch[snapshot.log_id],
        request_id=trace.caller.request_id,
        project_id=saved.request.spec.project_id or trace.caller.project_id,
        instance_uuids=saved.request.instance_uuids,
        hosts=[each.chosen.host for each in saved.decision.placements],
        **_sizes(saved.request.spec),
    )


def _sizes(spec: RequestSpec) -> dict[str, int]:
    """Return what each instance takes, unless that is nothing more, or more than anything has."""
    sizes = {"vcpus": spec.vcpus, "memory_mb": spec.memory_mb, "disk_mb": spec.disk_mb}
    is_odd = spec.is_rebuild or not all(0 <= each <= MAX_SIZE for each in sizes.values())
    return {} if is_odd else sizes
