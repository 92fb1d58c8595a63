# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Make the plan of a failing history small, and tell it as a story."""

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.history import Outcome
from tests.simulation.plan import Plan
from tests.simulation.playing import Player

MOST_LINES = 40
# How a line of a log begins that is about a statement of SQL.
_STATEMENTS = ("SELECT", "UPDATE", "INSERT", "DELETE", "SAVEPOINT", "RELEASE", "COMMIT")
_WORDS_BEFORE = 3


def shrink(player: Player, plan: Plan, rule: str) -> Plan:
    """Return the plan with as few schedulers and events as still break the same rule."""

    def breaks(candidate: Plan) -> bool:
        return player.play(candidate).rule == rule

    for number in range(1, plan.schedulers):
        if breaks(fewer := replace(plan, schedulers=number)):
            plan = fewer
            break
    size = len(plan.events)
    while size > 1:
        size = (size + 1) // 2
        start = 0
        while start < len(plan.events):
            left = plan.events[:start] + plan.events[start + size :]
            if breaks(fewer := replace(plan, events=left)):
                plan = fewer
            else:
                start += size
    return plan


def command(plan: Plan, requests: int, fault: str | None = None) -> str:
    """Return the command that plays a plan of so many requests, of which this is what is left."""
    events = ",".join(str(each.number) for each in plan.events)
    more = f" --fault {fault}" if fault else ""
    return (
        f"python -m tests.simulation --seed {plan.seed} --requests {requests}"
        f" --schedulers {plan.schedulers} --only {events}{more}"
    )


def story(outcome: Outcome, play_again: str) -> Iterator[str]:
    """Yield what happened, in a few lines."""
    told = [each for each in outcome.lines if not _is_statement(each)]
    most = MOST_LINES - 3
    if len(told) > most:
        told = [*told[: most // 3], "      ...", *told[len(told) - most + most // 3 + 1 :]]
    yield from (each[:200] for each in told)
    yield outcome.text[:400]
    yield play_again


def _is_statement(line: str) -> bool:
    words = line.split(maxsplit=_WORDS_BEFORE)
    return len(words) > _WORDS_BEFORE and words[_WORDS_BEFORE].startswith(_STATEMENTS)
