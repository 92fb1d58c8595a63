# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where the time of a process goes: calls of chosen functions, each without what it calls in turn.

Of each stage it is counted how often it was entered, for how long, and for how much of that its
thread was at work: the difference is waiting, for a lock, an answer or the interpreter.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any

# Calls, seconds, seconds of the processor.
Sums = dict[str, tuple[int, float, float]]
# What stages in the present one have taken, as (seconds, seconds of the processor). Each thread has
# its own, and each fiber of a thread.
_inner: ContextVar[list[float] | None] = ContextVar("inner", default=None)


class Stages:
    """Sums for each stage what all threads have spent there."""

    def __init__(self) -> None:
        self._threads: list[dict[str, list[float]]] = []
        self._here = threading.local()

    def sums(self) -> Sums:
        """Return what was spent until now."""
        found: dict[str, list[float]] = {}
        for spent in list(self._threads):
            for name, each in list(spent.items()):
                found.setdefault(name, [0, 0, 0])
                found[name] = [a + b for a, b in zip(found[name], each, strict=True)]
        return {name: (int(calls), wall, cpu) for name, (calls, wall, cpu) in found.items()}

    def add(self, name: str, wall: float, cpu: float = 0.0, calls: int = 1) -> None:
        """Count what was spent in a stage."""
        spent = self._spent().setdefault(name, [0, 0.0, 0.0])
        spent[0] += calls
        spent[1] += wall
        spent[2] += cpu

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what is spent in here; what stages in here count, this one does not."""
        outer, inner = _inner.get(), [0.0, 0.0]
        token = _inner.set(inner)
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
            self.add(name, wall - inner[0], cpu - inner[1])
            if outer is not None:
                outer[0] += wall
                outer[1] += cpu
            _inner.reset(token)

    def watch(self, owner: Any, function: str, name: str) -> None:
        """Let a function of a module or a class be a stage."""
        setattr(owner, function, self.watched(getattr(owner, function), name))

    def watched(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return a function that is a stage."""

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name):
                return function(*args, **kwargs)

        return counted

    def _spent(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] | None = getattr(self._here, "spent", None)
        if found is None:
            found = self._here.spent = {}
            self._threads.append(found)
        return found


def between(earlier: Sums, later: Mapping[str, tuple[int, float, float]]) -> Sums:
    """Return what was spent between two moments."""
    none = (0, 0.0, 0.0)
    return {
        name: (
            calls - earlier.get(name, none)[0],
            wall - earlier.get(name, none)[1],
            cpu - earlier.get(name, none)[2],
        )
        for name, (calls, wall, cpu) in later.items()
    }


def table(spent: Sums, requests: int, processor: float) -> str:
    """Return what each request has cost, stage by stage; processor is what the process has taken.

    The stages that are watched are those of requests; what is left is oslo.messaging, kombu and
    the threads that nobody watches.
    """
    lines = [f"{'stage':40} {'calls':>7} {'ms':>8} {'ms at work':>11} {'share':>6}"]
    watched = 0.0
    for name, (calls, wall, cpu) in sorted(spent.items(), key=lambda each: -each[1][2]):
        watched += cpu
        per = (calls / requests, 1000 * wall / requests, 1000 * cpu / requests)
        lines.append(f"{name:40} {per[0]:7.2f} {per[1]:8.3f} {per[2]:11.3f} {cpu / processor:6.1%}")
    for name, cpu in (("everything else", processor - watched), ("the process", processor)):
        lines.append(f"{name:57} {1000 * cpu / requests:11.3f} {cpu / processor:6.1%}")
    return "\n".join(lines)
