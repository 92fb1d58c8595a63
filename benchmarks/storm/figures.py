# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The figures of a storm, from what its callers and its schedulers wrote."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.history import PLACED, REFUSED, Request

# What a scheduler says of a request that lost races.
CONFLICTS = re.compile(r"after (\d+) conflicts?")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one storm; latencies in milliseconds from the first attempt to the last answer."""

    seconds: float
    requests: int
    attempts: int
    placed: int
    refused: int
    conflicts: int
    most_conflicts: int
    p50: float
    p99: float
    worst: float

    def line(self) -> str:
        """Return the figures as a line."""
        return (
            f"{self.requests} requests in {self.seconds:.1f} s"
            f" ({self.requests / self.seconds:.0f}/s, {self.attempts} attempts):"
            f" {self.placed} instances claimed ({self.placed / self.seconds:.0f}/s),"
            f" {self.refused} requests refused,"
            f" {self.conflicts} conflicts (at most {self.most_conflicts} of one request),"
            f" p50 {self.p50:.0f} ms, p99 {self.p99:.0f} ms, worst {self.worst:.0f} ms"
        )


def of(requests: Sequence[Request], logs: Iterable[str]) -> Figures:
    """Return the figures of requests and of what schedulers have logged meanwhile."""
    ended = [(each, each.ended) for each in requests if each.ended]
    times = sorted(1000 * (answer.at - request.began) for request, answer in ended) or [0.0]
    began = min((each.began for each in requests), default=0.0)
    last = max((answer.at for _, answer in ended), default=began)
    conflicts = [int(each) for text in logs for each in CONFLICTS.findall(text)]
    return Figures(
        seconds=max(last - began, 0.001),
        requests=len(requests),
        attempts=sum(each.attempts for each in requests),
        placed=sum(len(answer.places) for _, answer in ended if answer.outcome == PLACED),
        refused=sum(answer.outcome == REFUSED for _, answer in ended),
        conflicts=sum(conflicts),
        most_conflicts=max(conflicts, default=0),
        p50=quantile(times, 0.5),
        p99=quantile(times, 0.99),
        worst=times[-1],
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of ordered values that so large a share of them does not exceed."""
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


class Logs:
    """What processes have logged since this was made."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._began = {each: each.stat().st_size for each in paths}

    def texts(self) -> list[str]:
        """Return it, one text for each file."""
        found = []
        for path, size in self._began.items():
            with path.open("rb") as log:
                log.seek(size)
                found.append(log.read().decode(errors="replace"))
        return found
