# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What it costs a request that its decision is kept, and what is done for that afterwards."""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import comparable
from benchmarks.decisions.sides import Ours
from benchmarks.figures import OURS, Figure
from inventory import decisions
from inventory.engine import Database
from scheduler.decision.pipeline import Request
from scheduler.history.recorder import DecisionRecorder, Origin, Retention, rows_of
from scheduler.hosts.host_state import HostState
from scheduler.request_trace import PLACED, RequestTrace
from scheduler.wire.context import RequestContext
from tests.databases import migrated

HOSTS, QUICK = 10_000, 1_000
DECIDED, AFTERWARDS, SIZE = "decide, kept or not", "keep a decision", "kept decision"
FIRST = "first full snapshot"
# So many decisions are made before the other side has its turn again.
SLICE = 10
# A turn are as many decisions as are written at once.
SLICES, SLICES_OF_A_LOOK = 25, 5
TURNS, TURNS_OF_A_LOOK = 12, 3


class Stream:
    """Requests one after the other for a fleet, each of which takes what it is given."""

    def __init__(self, size: int, recorder: DecisionRecorder | None = None) -> None:
        self._hosts = comparable.fleet(size).table()
        self._ours = Ours(self._hosts, {})
        self._recorder = recorder
        self._numbers = count()

    def slice(self) -> list[float]:
        """Return the seconds of the processor for each of some decisions."""
        took: list[float] = []
        for _ in range(SLICE):
            name = f"{next(self._numbers):036}"
            request = Request(comparable.a_request(comparable.PLAIN), [name])
            began = time.process_time()
            self._decide(request, name)
            took.append(time.process_time() - began)
        return took

    def _decide(self, request: Request, name: str) -> None:
        """Decide as scheduler.select_destinations does, which makes a trace in any case."""
        trace = RequestTrace(
            RequestContext(request_id=name), [name], time.monotonic(), PLACED, request
        )
        trace.driver = self._ours.driver
        trace.decision = self._ours.decided(request)
        if self._recorder is not None:
            trace.snapshot = self._recorder.snapshot_log.take(self._hosts)
            trace.snapshots.append(trace.snapshot)
            self._recorder.on_finished(trace)
        for each in trace.decision.placements:
            HostState.of(self._hosts, each.chosen.row).consume_from_request(request.spec)


def figures(quick: bool) -> Iterator[Figure]:
    """Yield what a decision costs that is kept, and one that is not, by turns; and the rest."""
    size = QUICK if quick else HOSTS
    slices, turns = (SLICES_OF_A_LOOK, TURNS_OF_A_LOOK) if quick else (SLICES, TURNS)
    took: dict[bool, list[float]] = {True: [], False: []}
    later: list[tuple[float, int]] = []
    with TemporaryDirectory(prefix="berthmaster-bench-") as directory:
        database = migrated(Path(directory))
        # Its thread is not started.
        recorder = DecisionRecorder(database, "benchmark", Retention(86_400, 1_000_000))
        sides = {True: Stream(size, recorder), False: Stream(size)}
        sides[True].slice()
        first = _written(database, recorder)
        for _ in range(turns + 1):
            for is_kept, ms in _turn(sides, slices).items():
                took[is_kept].append(ms)
            later.append(_written(database, recorder))
        database.close()
    for is_kept, found in took.items():
        case = {"hosts": size, "kept": is_kept}
        yield Figure(DECIDED, OURS, "ms", found[1:], case)
    yield from _afterwards({"hosts": size}, first, later[1:], SLICE * slices)


def _turn(sides: Mapping[bool, Stream], slices: int) -> dict[bool, float]:
    """Return the median milliseconds of both sides, who decide by turns in small slices."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(slices):
        for is_kept, side in sides.items():
            took[is_kept] += side.slice()
    return {is_kept: 1000 * median(some) for is_kept, some in took.items()}


def _written(database: Database, recorder: DecisionRecorder) -> tuple[float, int]:
    """Write what waits; return the milliseconds of the processor for that, and the bytes."""
    traces = [*recorder.next_batch()]
    recorder.remove(traces)
    began = time.process_time()
    rows, batches = rows_of(traces, Origin("benchmark", "process"), _no_pause, _no_pause)
    database.write(lambda connection: decisions.add(connection, rows, batches))
    ms = 1000 * (time.process_time() - began)
    return ms, sum(len(each.document) for each in rows) + sum(len(each.data) for each in batches)


def _afterwards(
    case: Mapping[str, int], first: tuple[float, int], rest: Sequence[tuple[float, int]], times: int
) -> Iterator[Figure]:
    yield Figure(AFTERWARDS, OURS, "ms", [ms / times for ms, _ in rest], case)
    yield Figure(SIZE, OURS, "kB", [size / times / 1000 for _, size in rest], case)
    yield Figure(FIRST, OURS, "ms", [first[0]], case)
    yield Figure(FIRST, OURS, "kB", [first[1] / 1000], case)


def _no_pause() -> None:
    """Nobody else waits."""
