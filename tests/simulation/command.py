# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command line: play one history and print it, or many and print those with violations."""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from tests.simulation import coverage_of
from tests.simulation.kernel import Simulator
from tests.simulation.known_faults import FAULTS
from tests.simulation.plan import Plan
from tests.simulation.playing import Player
from tests.simulation.shrinking import command, shrink, story


def main(
    simulator: Simulator, arguments: Sequence[str], measured: coverage_of.Measured | None = None
) -> int:
    """Do what the arguments say; return 1 if there was a violation."""
    given = _parser().parse_args(arguments)
    player = Player(simulator, FAULTS.get(given.fault, lambda: None))
    if measured is not None:
        player.finish = measured.save
    if given.seed is not None:
        status = _one(player, given)
    else:
        status = _table(player, given) if given.tries else _many(player, given)
    if measured is not None:
        measured.report()
    return status


def _one(player: Player, given: argparse.Namespace) -> int:
    plan = Plan.of(given.seed, given.requests)
    if given.only:
        plan = plan.only(_numbers(given.only))
    plan = replace(plan, schedulers=given.schedulers or plan.schedulers)
    outcome = player.play(plan, recording=True)
    print(*outcome.lines, sep="\n")
    print(outcome.text or "no violation")
    return int(bool(outcome.rule))


def _numbers(text: str) -> set[int]:
    """Return the numbers of events, each said by itself or as FROM:TO."""
    found: set[int] = set()
    for each in text.split(","):
        first, _, until = each.partition(":")
        found |= {*range(int(first), int(until or int(first) + 1))}
    return found


def _many(player: Player, given: argparse.Namespace) -> int:
    first, until = map(int, given.seeds.split(":"))
    plans = _plans(given, first, until)
    played = [*player.play_all(plans, jobs=given.jobs)]
    failed = [each for each in played if each.rule]
    for each in failed:
        print(f"seed {each.seed}: {each.text[:1000]}", flush=True)
    for each in [] if given.no_stories else failed[: given.stories]:
        _tell(player, given, each.seed, each.rule)
    used = os.times()
    seconds = used.children_user + used.children_system
    print(
        f"{len(played)} histories of {given.requests} requests in {seconds:.0f} s of processor:"
        f" {len(failed)} with a violation"
    )
    return int(bool(failed))


def _plans(given: argparse.Namespace, first: int, until: int) -> Iterator[Plan]:
    for seed in range(first, until):
        plan = Plan.of(seed, given.requests)
        if plan.is_nova or not given.nova:
            yield plan


def _tell(player: Player, given: argparse.Namespace, seed: int, rule: str) -> None:
    plan = shrink(player, Plan.of(seed, given.requests), rule)
    print(f"seed {seed}, made small, and its story:")
    again = command(plan, given.requests, given.fault)
    print(*story(player.play(plan, recording=True), again), sep="\n")


def _table(player: Player, given: argparse.Namespace) -> int:
    """Print how many histories it takes to find the fault, several times from other seeds."""
    first, until = map(int, given.seeds.split(":"))
    found: list[int] = []
    rules: dict[str, int] = {}
    begin = first
    for each in player.play_all(_plans(given, first, until)):
        if each.rule:
            found.append(each.seed - begin + 1)
            rules[each.rule] = rules.get(each.rule, 0) + 1
            begin = each.seed + 1
            if len(found) == given.tries:
                break
    needed = f"{median(found):.0f}" if found else "-"
    print(f"{given.fault}: {needed} of {found} by {rules}")
    return int(not found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="play and print this history")
    which.add_argument("--seeds", metavar="FROM:TO", help="play these histories")
    text = "leave out all histories that are not of a Nova cloud"
    parser.add_argument("--nova", action="store_true", help=text)
    text = "leave out all other events; such as 3,7 or 0:30"
    parser.add_argument("--only", metavar="NUMBERS", help=text)
    parser.add_argument("--schedulers", type=int, help="how many there are, if not as drawn")
    parser.add_argument("--requests", type=int, default=12, help="how many requests there are")
    parser.add_argument("--fault", choices=FAULTS, help="put a known fault back")
    parser.add_argument("--tries", type=int, help="say after how many histories it is found")
    text = "print which lines of claims are reached"
    parser.add_argument(coverage_of.OPTION, action="store_true", help=text)
    parser.add_argument("--jobs", type=int, default=2, help="how many histories at a time")
    parser.add_argument("--stories", type=int, default=1, help="how many failures to make small")
    parser.add_argument("--no-stories", action="store_true", help="make none small")
    return parser
