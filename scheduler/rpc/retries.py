# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How often to ask a scheduler again, and what it is told of the hosts tried so far.

Asking again is for a request that was not answered, ``retry`` for an instance that was not built.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.retries import SchedulerRetries, TriedHost
from scheduler.objects.selection import Selection


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The patience of a caller; all times are in seconds.

    A request waits ``attempt_timeout`` for its answer and is sent again after a pause, until the
    ``deadline``, counted from the first. A pause is twice the last one, from ``first_pause`` up to
    ``longest_pause``, of which chance takes off up to a half. ``max_attempts`` is on how many hosts
    an instance may be built, the first included; with ``use_alternates`` the next one is an
    alternate of the last answer, if it has one left, instead of the answer to a new request.
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
            # Not a number fails as well.
            if not seconds > 0:
                raise ValueError(f"{name} is {seconds}, must be more than 0 s")


def pauses(policy: RetryPolicy, chance: Callable[[], float]) -> Iterator[float]:
    """Yield the pauses between attempts, without end; chance returns a number from 0 to 1.

    Callers that failed together must not come back together.
    """
    longest = policy.first_pause
    while True:
        longest = min(longest, policy.longest_pause)
        yield longest * (1 - chance() / 2)
        longest *= 2


def may_reschedule(spec: RequestSpec, max_attempts: int) -> bool:
    """Tell whether there is a second attempt: not with one forced host or node, as in Nova."""
    forced = (spec.force_hosts, spec.force_nodes)
    return max_attempts > 1 and all(len(names or ()) != 1 for names in forced)


def next_attempt(retry: SchedulerRetries | None) -> SchedulerRetries:
    """Return what the scheduler is told with the next attempt."""
    found = retry or SchedulerRetries()
    return replace(found, num_attempts=found.num_attempts + 1)


def with_tried(retry: SchedulerRetries | None, selection: Selection) -> SchedulerRetries:
    """Return it with the host of a selection added to those that were tried."""
    found = retry or SchedulerRetries()
    tried = TriedHost(selection.service_host, selection.nodename)
    return replace(found, hosts=[*found.hosts, tried])


def exhausted(max_attempts: int, instance_uuid: str, last_failure: str | None) -> str:
    """Return the reason that Nova gives when no attempt is left."""
    return (
        f"Exceeded max scheduling attempts {max_attempts} for instance {instance_uuid}."
        f" Last exception: {last_failure}"
    )
