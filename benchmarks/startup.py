# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How long schedulers take to start, and what their first callers see.

A private RabbitMQ and MariaDB with the rows of a fleet, on which schedulers start together, one or
four. Measured are the seconds until the last of them tells systemd that it is ready, the slowest
first answer, one call to each scheduler, and then a stream of calls from one caller at a time. The
fleet sends heartbeats meanwhile, all of them in one statement.

--beside DIR starts the schedulers of another source tree by turns with those of this one, and the
report divides theirs by ours.
"""

import argparse
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

from benchmarks import program  # noqa: E402
from benchmarks.endtoend import calls, measures  # noqa: E402
from benchmarks.endtoend.callers import OneCaller  # noqa: E402
from benchmarks.endtoend.ground import STOP, Ground, Serving, a_ground  # noqa: E402
from benchmarks.figures import OURS, Case, Figure, in_words, ratios  # noqa: E402
from benchmarks.nova import ROOT  # noqa: E402
from inventory.tables import services  # noqa: E402
from scheduler.api.scheduler_endpoint import TOPIC  # noqa: E402
from tests.fixtures.deployment import Deployment  # noqa: E402

OTHERS = "others"
SIZES, QUICK = (10_000, 100_000), (1_000,)
SCHEDULERS = (1, 4)
TURNS, QUICK_TURNS = 2, 1
STREAM = 100
# Seconds between two heartbeats of the fleet, as agents have them.
HEARTBEAT = 10.0
# Seconds that schedulers may take to be ready.
LATEST = 300.0
READY, FIRST, STREAM_P50, STREAM_P99 = (
    "start, ready",
    "start, slowest first answer",
    "start, p50 of the stream",
    "start, p99 through p50 of the stream",
)


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return all figures, turn by turn."""
    trees = {OURS: ROOT, **({OTHERS: asked.beside.resolve()} if asked.beside else {})}
    sizes = asked.hosts or (QUICK if asked.quick else SIZES)
    turns = asked.turns or (QUICK_TURNS if asked.quick else TURNS)
    found: list[Figure] = []
    with (
        TemporaryDirectory(prefix="berthmaster-startup-") as temporary,
        a_ground(Path(temporary)) as ground,
    ):
        for hosts in sizes:
            deployment = ground.deployment(hosts)
            for schedulers in SCHEDULERS:
                case = {"hosts": hosts, "schedulers": schedulers, "backend": asked.backend}
                found += _by_turns(ground, deployment, case, trees, turns)
    return found


def _by_turns(
    ground: Ground, deployment: Deployment, case: Case, trees: Mapping[str, Path], turns: int
) -> Iterator[Figure]:
    looks: dict[str, list[dict[str, float]]] = {who: [] for who in trees}
    for _ in range(turns):
        for who, tree in trees.items():
            looks[who].append(_look(ground, deployment, case, tree))
            print(who, in_words(case), looks[who][-1], file=sys.stderr, flush=True)
    units = {READY: "s", FIRST: "ms", STREAM_P50: "ms", STREAM_P99: "x"}
    for who, each in looks.items():
        for what, unit in units.items():
            yield Figure(what, who, unit, [look[what] for look in each], case)


def _look(ground: Ground, deployment: Deployment, case: Case, tree: Path) -> dict[str, float]:
    """Return what one start is like, by the names of the figures."""
    asked, caller = calls.plain(1), OneCaller(ground.url)
    caller.connect()
    ask = caller.asker(TOPIC)
    try:
        with _beating(deployment), _started(ground, deployment, case, tree) as seconds:
            first = max(_timed(ask, next(asked)) for _ in range(case["schedulers"]))
            times = [_timed(ask, next(asked)) for _ in range(STREAM)]
    finally:
        caller.close()
    p50, p99 = measures.percentiles(times, 50, 99)
    return {READY: seconds, FIRST: 1000 * first, STREAM_P50: 1000 * p50, STREAM_P99: p99 / p50}


@contextmanager
def _beating(deployment: Deployment) -> Iterator[None]:
    """Send the heartbeats of the fleet now, and again until the block ends."""
    beat = sa.update(services).values(last_seen_up=sa.func.utc_timestamp())
    is_over = threading.Event()
    with closing(deployment.open_database()) as database, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            while not is_over.wait(HEARTBEAT):
                database.write(lambda connection: connection.execute(beat))

        database.write(lambda connection: connection.execute(beat))
        sending = pool.submit(send)
        try:
            yield
        finally:
            is_over.set()
            sending.result()


@contextmanager
def _started(ground: Ground, deployment: Deployment, case: Case, tree: Path) -> Iterator[float]:
    """Yield the seconds until all schedulers were ready; they end with the block."""
    serving = Serving(case["backend"], schedulers=case["schedulers"])
    with ExitStack() as stack:
        began, waiting = time.monotonic(), []
        for _ in range(case["schedulers"]):
            name = ground.name("scheduler")
            listener = stack.enter_context(_notified(deployment.directory / f"{name}.notify"))
            variables = {"NOTIFY_SOCKET": listener.getsockname(), "PYTHONPATH": str(tree)}
            scheduler = deployment.start_scheduler(
                name, serving.backend, serving.options, variables
            )
            stack.callback(scheduler.stop, STOP)
            waiting.append(listener)
        for each in waiting:
            while b"READY=1" not in each.recv(4096):
                pass
        yield time.monotonic() - began


@contextmanager
def _notified(path: Path) -> Iterator[socket.socket]:
    """Yield a socket for what a daemon tells systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(LATEST)
        yield listener


def _timed(ask: calls.Ask, call: calls.Call) -> float:
    began = time.perf_counter()
    ask(call)
    return time.perf_counter() - began


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines, and what those of the other tree are of ours."""
    beside = {(each.what, str(each.case)): each.median for each in ratios(found)}
    lines = []
    for each in found:
        ratio = beside.get((each.what, str(each.case))) if each.who == OURS else None
        said = "" if ratio is None else f"   {OTHERS} / ours {ratio:.2f}"
        lines.append(
            f"{each.what:36} {each.who:6} {each.median:9.2f} {each.unit:2}{said}"
            f"   {in_words(each.case)}"
        )
    return "\n".join(lines)


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument("--beside", type=Path, metavar="DIR", help="Another source tree.")
    options.add_argument("--hosts", type=int, nargs="+", help="Sizes of the fleet.")
    options.add_argument("--turns", type=int, help="How often each is started.")
    options.add_argument("--backend", default="threading", choices=("threading", "eventlet"))
    program.run(options, measure, report)


if __name__ == "__main__":
    sys.exit(main())
