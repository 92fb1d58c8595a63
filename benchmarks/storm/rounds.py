# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rounds of a storm: callers ask, perhaps things break, and all is checked until it is empty again.

The leases are ended by hand, by a date in the rows, so that a round takes as long as its requests.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import check_history, history
from benchmarks.storm import figures, wishes
from benchmarks.storm.callers import Callers, Patience
from benchmarks.storm.cloud import Cloud
from benchmarks.storm.faults import Faults
from benchmarks.storm.figures import Figures, Logs
from benchmarks.storm.operators import NAMES, OUTSIDE, Operators
from benchmarks.storm.racks import Racks
from benchmarks.storm.wishes import Wish

# A caller asks again soon: what it asked may be lost. Seconds.
IMPATIENT = Patience(attempt=8.0, deadline=120.0)
# So few callers beside operators that each is answered soon: of what was ordered while a request
# was decided nobody can tell whether it came first.
FEW = 12
# So many where the room is contended for.
CROWD = 40
# For how long the agent may take to give back what was claimed, all its audits included.
AUDITED = 60.0


@dataclass(slots=True)
class Round:
    """What came of one round; violations are those of both checks, before and after the leases."""

    figures: Figures
    summary: str
    violations: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)


def calm(
    cloud: Cloud, log: Path, asked: Iterator[Wish], callers: int = 200, placed: int | None = None
) -> Round:
    """Return what comes of wishes while nothing breaks; placed is how many must have a place."""
    logs = Logs(each.log for each in cloud.schedulers.values())
    with Callers(cloud.broker.transport_url, log) as crowd:
        crowd.run(asked, callers)
        crowd.collect()
    return _checked(cloud, [log], logs, calm=True, placed=placed)


def broken(cloud: Cloud, log: Path, seed: int, faults: int, callers: int = 200) -> Round:
    """Return what comes of requests that go on until so many faults were planned and done."""
    logs = Logs(each.log for each in cloud.schedulers.values())
    breaker = Faults(cloud, seed, faults)
    with Callers(cloud.broker.transport_url, log, IMPATIENT, seed) as crowd:
        breaker.start()
        try:
            asked = wishes.mixed(seed, cloud.fleet.names)
            crowd.run(asked, callers, stop=lambda: not breaker.is_alive())
        finally:
            breaker.stop()
        # What was asked twice may still be decided twice: only when no scheduler is left, nothing
        # changes any more.
        cloud.stop_schedulers()
        crowd.collect()
    found = _checked(cloud, [log], logs)
    found.faults = breaker.done
    return found


def ordered(cloud: Cloud, directory: Path, seed: int, seconds: float, callers: int = FEW) -> Round:
    """Return what comes of requests for zones while operators change these and nothing breaks."""
    logs = Logs(each.log for each in cloud.schedulers.values())
    ends = time.monotonic() + seconds
    with _zoned(cloud, directory, seed, Patience()) as (crowd, written):
        crowd.run(_wishes(cloud, seed), callers, stop=lambda: time.monotonic() > ends)
    return _checked(cloud, written, logs, calm=True)


def ordered_and_broken(
    cloud: Cloud, directory: Path, seed: int, breaker: Faults, callers: int = FEW
) -> Round:
    """Return the same while things break."""
    logs = Logs(each.log for each in cloud.schedulers.values())
    with _zoned(cloud, directory, seed, IMPATIENT) as (crowd, written):
        breaker.start()
        try:
            crowd.run(_wishes(cloud, seed), callers, stop=lambda: not breaker.is_alive())
        finally:
            breaker.stop()
    found = _checked(cloud, written, logs)
    found.faults = breaker.done
    return found


def racked(
    cloud: Cloud, directory: Path, seed: int, racks: Racks, breaker: Faults, callers: int = CROWD
) -> Round:
    """Return what comes of protected instances while things break, whole racks among them."""
    log = directory / "callers.log"
    logs = Logs(each.log for each in cloud.schedulers.values())
    with Callers(cloud.broker.transport_url, log, IMPATIENT, seed, racks.ended) as crowd:
        breaker.start()
        try:
            asked = racks.wishes(crowd.note_left)
            crowd.run(asked, callers, lambda: racks.is_over() and not breaker.is_alive())
        finally:
            breaker.stop()
        racks.come_back()
        cloud.stop_schedulers()
        crowd.collect()
    found = _checked(cloud, [log], logs, empty=racks.empty)
    found.summary += f"; {racks.promised} promised evacuations from {racks.deaths} dead racks"
    found.violations += racks.violations
    found.faults = breaker.done
    return found


@contextmanager
def _zoned(
    cloud: Cloud, directory: Path, seed: int, patience: Patience
) -> Iterator[tuple[Callers, list[Path]]]:
    """Yield callers, with operators at work, and the logs of all; then stop the schedulers."""
    log = directory / "callers.log"
    with Callers(cloud.broker.transport_url, log, patience, seed) as crowd:
        with Operators(cloud, directory) as operators:
            yield crowd, [log, *operators.logs]
        cloud.stop_schedulers()
        crowd.collect()


def _wishes(cloud: Cloud, seed: int) -> Iterator[Wish]:
    return wishes.zoned(seed, cloud.fleet.names, (*NAMES, OUTSIDE))


def _checked(
    cloud: Cloud,
    written: Sequence[Path],
    logs: Logs,
    calm: bool = False,
    placed: int | None = None,
    empty: Callable[[float], bool] | None = None,
) -> Round:
    """Check at once, end the leases, or empty the cloud in another way, and check again."""
    url, reserved = cloud.check_url, cloud.fleet.reserved
    violations, summary = check_history.checked(
        written, url, reserved=reserved, calm=calm, placed=placed
    )
    found = Round(figures.of(history.read(written), logs.texts()), summary, violations)
    if not (empty or cloud.empty)(AUDITED):
        found.violations.append("leaked: not all claims and standbys were given back in time")
    # The answers were looked at already.
    later, _ = check_history.checked([], url, reserved=reserved, after_leases=True)
    found.violations += later
    return found
