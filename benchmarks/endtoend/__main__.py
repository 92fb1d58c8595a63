# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""select_destinations over RabbitMQ and MariaDB, beside an echo of the same bodies.

Ten thousand hosts are rows of a private MariaDB that writes durably; schedulers are processes as
operators run them, and so is the echo: a server of a few lines on oslo.messaging. One caller at a
time calls as conductors do, scheduler and echo by turns. Many callers share one cheap connection:
on a machine with all of them oslo.messaging's client would be what is measured.

With --profile it reports instead where the time of a scheduler goes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from conf.daemon import process

# Before anything imports oslo.messaging, which would choose green threads.
process.refuse_import("eventlet")
process.start_backend("threading")

from benchmarks import program  # noqa: E402
from benchmarks.endtoend import calls, echo, measures, profile  # noqa: E402
from benchmarks.endtoend.callers import Crowd, OneCaller  # noqa: E402
from benchmarks.endtoend.ground import Ground, Serving, a_ground, processor_seconds, seconds_by_name  # noqa: E402
from benchmarks.figures import ECHO, OURS, Case, Figure, ratios  # noqa: E402
from benchmarks.storm.figures import CONFLICTS, Logs  # noqa: E402
from scheduler.api.scheduler_endpoint import TOPIC  # noqa: E402
from tests.fixtures.daemons.process import Process  # noqa: E402
from tests.fixtures.deployment import Deployment  # noqa: E402

HOSTS, FEWER_HOSTS = 10_000, 5_000
CALLERS = 32
SEVERAL = 10
# Workers, or schedulers.
MANY = 4
TOPICS = {OURS: TOPIC, ECHO: echo.TOPIC}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to look: calls of one caller, and slices of many callers' time, in seconds."""

    calls: int = 250
    warm_up: int = 25
    slices: int = 5
    slice_seconds: float = 1.0
    # Until all threads have their connections to broker and database.
    crowd_warm_up: float = 0.7


WHOLE = Plan()
QUICK = Plan(calls=50, warm_up=10, slices=2, slice_seconds=0.3, crowd_warm_up=0.3)


@dataclass(frozen=True, slots=True)
class Scene:
    """Schedulers that serve a fleet, and echoes beside them."""

    ground: Ground
    plan: Plan
    serving: Serving
    processes: dict[str, list[Process]]

    def one_caller(self, hosts: int) -> Iterator[Figure]:
        """Yield what one caller at a time sees."""
        serving = self.serving
        case = {"hosts": hosts, "claims": serving.claims, "callers": 1, "backend": serving.backend}
        caller = OneCaller(self.ground.url)
        plan = self.plan
        times = caller.by_turns([*TOPICS.values()], calls.plain(1), plan.calls, plan.warm_up)
        caller.close()
        for who, topic in TOPICS.items():
            yield from measures.of_calls(who, times[topic], case)

    def crowd(self, hosts: int, instances: int) -> Iterator[Figure]:
        """Yield what many callers see."""
        serving = self.serving
        case = {
            "hosts": hosts,
            "claims": serving.claims,
            "callers": CALLERS,
            "backend": serving.backend,
            "workers": serving.workers,
            "schedulers": serving.schedulers,
            "instances": instances,
        }
        for who in TOPICS:
            yield from self.load(who, calls.plain(instances), case)

    def load(self, who: str, asked: Iterator[calls.Call], case: Case) -> Iterator[Figure]:
        """Yield what many callers see of calls to a topic."""
        plan, processes, shared = self.plan, self.processes[who], self.ground.shared
        logs = Logs(each.log for each in processes)
        before, began = processor_seconds(processes), seconds_by_name(shared)
        crowd = Crowd(self.ground.url, TOPICS[who], asked)
        load = crowd.run(CALLERS, plan.crowd_warm_up, plan.slices, plan.slice_seconds)
        yield from measures.of_load(who, load, case, processor_seconds(processes) - before)
        if who == OURS:
            worked = {name: each - began[name] for name, each in seconds_by_name(shared).items()}
            lost = sum(int(each) for text in logs.texts() for each in CONFLICTS.findall(text))
            yield from measures.of_shared(load, worked, lost, case)


def measure(asked: argparse.Namespace) -> Sequence[Figure]:
    """Return all figures; those of a quick look are of one way to serve."""
    with (
        TemporaryDirectory(prefix="berthmaster-endtoend-") as temporary,
        a_ground(Path(temporary)) as ground,
    ):
        if asked.profile:
            profile.write(asked.profile, ground, HOSTS)
            return []
        found = [*(_quick(ground) if asked.quick else _whole(ground))]
    return [*found, *claimed(found)]


def claimed(found: Sequence[Figure]) -> Iterator[Figure]:
    """Yield placements with claims by themselves."""
    for each in found:
        if each.what == "placements" and each.who == OURS and each.case["claims"]:
            case = {name: value for name, value in each.case.items() if name != "claims"}
            yield replace(each, what="claimed placements", case=case)


def _quick(ground: Ground) -> Iterator[Figure]:
    for scene in _scenes(ground, ground.deployment(HOSTS), QUICK, [Serving()]):
        yield from scene.one_caller(HOSTS)
        yield from scene.crowd(HOSTS, 1)


def _whole(ground: Ground) -> Iterator[Figure]:
    deployment = ground.deployment(HOSTS)
    alone = [
        Serving(backend, claims)
        for backend in ("threading", "eventlet")
        for claims in (False, True)
    ]
    for scene in _scenes(ground, deployment, WHOLE, alone):
        yield from scene.one_caller(HOSTS)
        yield from scene.crowd(HOSTS, 1)
        if scene.serving.backend == "threading":
            yield from scene.crowd(HOSTS, SEVERAL)
    several = [
        Serving(claims=claims, workers=workers, schedulers=3 - workers)
        for workers in (2, 1)
        for claims in (False, True)
    ]
    for scene in _scenes(ground, deployment, WHOLE, several):
        yield from scene.crowd(HOSTS, 1)
        if scene.serving.claims:
            yield from scene.crowd(HOSTS, SEVERAL)
    many = [Serving(workers=MANY), Serving(schedulers=MANY)]
    patient = replace(WHOLE, crowd_warm_up=4.0)
    for scene in _scenes(ground, deployment, patient, many):
        yield from scene.crowd(HOSTS, 1)
    yield from _groups(ground)


def _groups(ground: Ground) -> Iterator[Figure]:
    """Yield the rates of requests for members of server groups, and of plain ones beside."""
    for scene in _scenes(ground, ground.deployment(FEWER_HOSTS), WHOLE, [Serving()]):
        for grouped in (False, True):
            case = {"hosts": FEWER_HOSTS, "grouped": grouped, "claims": True}
            asked = calls.grouped() if grouped else calls.plain(1)
            found = scene.load(OURS, asked, case)
            yield from (each for each in found if each.what == "select, rate")


def _scenes(
    ground: Ground, deployment: Deployment, plan: Plan, servings: Sequence[Serving]
) -> Iterator[Scene]:
    """Yield each way to serve; what runs for it ends before the next."""
    for serving in servings:
        with ground.schedulers(deployment, serving) as schedulers:
            caller = OneCaller(ground.url)
            answers = {
                number: caller.ask(TOPIC, next(calls.plain(number))) for number in (1, SEVERAL)
            }
            caller.close()
            with ground.echoes(deployment, serving, answers) as echoes:
                yield Scene(ground, plan, serving, {OURS: schedulers, ECHO: echoes})


def report(found: Sequence[Figure]) -> str:
    """Return the figures as lines, and what the echo's are of ours."""
    beside = {(each.what, str(each.case)): each.median for each in ratios(found)}
    lines = []
    for each in found:
        ratio = beside.get((each.what, str(each.case))) if each.who == OURS else None
        said = "" if ratio is None else f"   echo / ours {ratio:.2f}"
        case = ", ".join(f"{name} {value}" for name, value in each.case.items())
        lines.append(f"{each.what:18} {each.who:5} {each.median:9.2f} {each.unit:3}{said}   {case}")
    return "\n".join(lines)


def main() -> None:
    options = program.parser(__doc__)
    options.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="Write there where the time of a scheduler goes, and measure nothing else.",
    )
    program.run(options, measure, report)


if __name__ == "__main__":
    sys.exit(main())
