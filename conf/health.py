# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the parts that a daemon depends on are well: asked when somebody wants to know.

Each part is asked in a thread of its own, at most once in a second and never twice at a time, so a
part that hangs holds up neither the others nor whoever wants to know.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Condition, Thread

from prometheus_client.core import GaugeMetricFamily

# Seconds: for how long an answer is good, and how long to wait for one.
FRESH = 1.0
PATIENCE = 2.0
# How the threads are called, before the name of the part.
THREADS = "health"

# Returns what is wrong, or nothing; may raise instead.
Check = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a part, nothing if it is well, and since when: seconds since 1970."""

    problem: str
    since: float

    @property
    def healthy(self) -> bool:
        """Whether the part is well."""
        return not self.problem


class Health:
    """Keeps what the checks of a daemon's parts have said last."""

    def __init__(
        self, checks: Mapping[str, Check], fresh: float = FRESH, patience: float = PATIENCE
    ) -> None:
        self._parts = {name: _Part(name, check, fresh) for name, check in checks.items()}
        self._patience = patience

    def findings(self) -> dict[str, Finding]:
        """Return what is known of each part now; takes no longer than the patience."""
        for part in self._parts.values():
            part.ask()
        until = time.monotonic() + self._patience
        return {name: part.finding(until, self._patience) for name, part in self._parts.items()}

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield the same as a measure; called by a registry of Prometheus."""
        gauge = GaugeMetricFamily(
            "berthmaster_healthy", "1 where a part that the daemon needs is well.", labels=["part"]
        )
        for name, finding in self.findings().items():
            gauge.add_metric([name], float(finding.healthy))
        yield gauge


class _Part:
    """One part and its check."""

    def __init__(self, name: str, check: Check, fresh: float) -> None:
        self._name = name
        self._check = check
        self._fresh = fresh
        self._condition = Condition()
        self._running = False
        self._began = self._ended = float("-inf")
        self._finding = Finding("it was not asked yet", time.time())

    def ask(self) -> None:
        """Begin to ask unless the last answer is fresh, or still to come."""
        with self._condition:
            if self._running or time.monotonic() - self._ended < self._fresh:
                return
            self._running, self._began = True, time.monotonic()
            thread = Thread(target=self._run, name=f"{THREADS}-{self._name}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                self._end(str(error))

    def finding(self, until: float, patience: float) -> Finding:
        """Return the answer, waiting for it until then, and not after so many seconds of asking."""
        with self._condition:
            left = min(until, self._began + patience) - time.monotonic()
            if not self._condition.wait_for(lambda: not self._running, max(0.0, left)):
                self._note(f"it has not answered for {time.monotonic() - self._began:.0f} s")
            return self._finding

    def _run(self) -> None:
        try:
            problem = self._check() or ""
        # Of whatever library there is below: what cannot be asked is not well.
        except Exception as error:
            problem = _first_line(error)
        with self._condition:
            self._end(problem)

    def _end(self, problem: str) -> None:
        self._running, self._ended = False, time.monotonic()
        self._note(problem)
        self._condition.notify_all()

    def _note(self, problem: str) -> None:
        before = self._finding
        since = before.since if bool(problem) == bool(before.problem) else time.time()
        self._finding = Finding(problem, since)


def _first_line(error: Exception) -> str:
    """Return what an error says, without the statements and links that SQLAlchemy adds."""
    return (str(error).strip() or repr(error)).splitlines()[0]
