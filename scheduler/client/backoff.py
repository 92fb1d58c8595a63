# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""When to repeat an unanswered request, and whether to build again after a failed build."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.objects.request_spec import RequestSpec


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeouts and limits of a caller; all times are in seconds.

    A request waits ``attempt_timeout`` for its answer and is repeated after a pause, until the
    ``deadline``, counted from the first. A pause is twice the last one, from ``first_pause`` up to
    ``longest_pause``, less a random part of up to a half. ``max_attempts`` is on how many hosts an
    instance may be built; with ``use_alternates`` the next host is an alternate of the last answer
    as long as there is one.
    """

    max_attempts: int = 3
    attempt_timeout: float = 60.0
    deadline: float = 300.0
    first_pause: float = 0.5
    longest_pause: float = 10.0
    use_alternates: bool = False

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts is {self.max_attempts}, must be at least 1")
        for name in ("attempt_timeout", "deadline", "first_pause", "longest_pause"):
            seconds = getattr(self, name)
            # True for NaN, too.
            if not seconds > 0:
                raise ValueError(f"{name} is {seconds}, must be more than 0 s")


def pauses(policy: RetryPolicy, chance: Callable[[], float]) -> Iterator[float]:
    """Yield the pauses between attempts; chance returns a number from 0 to 1.

    It keeps callers that failed together from repeating their requests together.
    """
    longest = policy.first_pause
    while True:
        longest = min(longest, policy.longest_pause)
        yield longest * (1 - chance() / 2)
        longest *= 2


def may_reschedule(spec: RequestSpec, max_attempts: int) -> bool:
    """Return whether another host may be tried: not with one forced host or node, as in Nova."""
    forced = (spec.force_hosts, spec.force_nodes)
    return max_attempts > 1 and all(len(names or ()) != 1 for names in forced)
