# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check the parts that a daemon depends on, when its health is read.

Each check runs in a thread of its own, at most once in a second and never twice at a time, so one
that hangs delays neither the others nor the reader.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Condition, Thread

from prometheus_client.core import GaugeMetricFamily

# Seconds: how long a result is used again, and how long to wait for one.
FRESH = 1.0
TIMEOUT = 2.0
# Prefix of the threads' names, before that of the part.
THREADS = "health"
# The problem of a part before its first check.
_UNCHECKED = "it was not checked yet"

# Returns the problem, or nothing; may raise instead.
Check = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """The problem of a part, empty if it is healthy, and since when in seconds since 1970."""

    problem: str
    since: float

    @property
    def healthy(self) -> bool:
        return not self.problem


class Health:
    """Runs the checks of a daemon's parts and keeps their last results."""

    def __init__(
        self, checks: Mapping[str, Check], fresh: float = FRESH, timeout: float = TIMEOUT
    ) -> None:
        self._parts = {name: _Part(name, check, fresh) for name, check in checks.items()}
        self._timeout = timeout

    def findings(self) -> dict[str, Finding]:
        """Return the result of each part, a timeout for a check that takes longer."""
        for part in self._parts.values():
            part.start_check()
        until = time.monotonic() + self._timeout
        return {name: part.finding(until, self._timeout) for name, part in self._parts.items()}

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the results as a metric of Prometheus."""
        gauge = GaugeMetricFamily(
            "berthmaster_healthy",
            "1 if this part of the daemon, or a service that the daemon needs, is healthy.",
            labels=["part"],
        )
        for name, finding in self.findings().items():
            gauge.add_metric([name], float(finding.healthy))
        yield gauge


class _Part:
    def __init__(self, name: str, check: Check, fresh: float) -> None:
        self._name = name
        self._check = check
        self._fresh = fresh
        self._condition = Condition()
        self._running = False
        self._began = self._ended = float("-inf")
        self._finding = Finding(_UNCHECKED, time.time())

    def start_check(self) -> None:
        """Start a check unless one is running or the last result is fresh."""
        with self._condition:
            if self._running or time.monotonic() - self._ended < self._fresh:
                return
            self._running, self._began = True, time.monotonic()
            thread = Thread(target=self._run, name=f"{THREADS}-{self._name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._end(str(error))

    def finding(self, until: float, timeout: float) -> Finding:
        """Return the result, waited for until then and as long as its check is within timeout."""
        with self._condition:
            left = min(until, self._began + timeout) - time.monotonic()
            if not self._condition.wait_for(lambda: not self._running, max(0.0, left)):
                self._note(f"it has not answered for {time.monotonic() - self._began:.0f} s")
            return self._finding

    def _run(self) -> None:
        try:
            problem = self._check() or ""
        # Of any library below: a part that cannot be checked is not healthy.
        except Exception as error:
            # Without the statements and links that SQLAlchemy adds.
            problem = (str(error).strip() or repr(error)).splitlines()[0]
        with self._condition:
            self._end(problem)

    def _end(self, problem: str) -> None:
        self._running, self._ended = False, time.monotonic()
        self._note(problem)
        self._condition.notify_all()

    def _note(self, problem: str) -> None:
        before = self._finding
        is_news = before.problem == _UNCHECKED or bool(problem) != bool(before.problem)
        self._finding = Finding(problem, time.time() if is_news else before.since)
