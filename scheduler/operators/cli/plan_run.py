# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that carries out a plan: the only one that has instances moved."""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from threading import Event
from typing import Any

from inventory.claims.types import PENDING
from inventory.engine import Database
from inventory.errors import NotFound, counted
from inventory.queries import instance_queries
from scheduler.operators.cli.arguments import check_combination, positive, seconds
from scheduler.operators.cli.base import BaseCommand
from scheduler.operators.cli.live_fleet import read_fleet
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.plan_check import add_plan, read_moves
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.cli.plan_journal import DONE, FAILED, STARTED, Journal, journal_of
from scheduler.operators.cli.plan_report import API_VERSION, CALLS, NAMES, words
from scheduler.operators.cli.terminal import progress
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning import check as checks
from scheduler.operators.planning.check import CheckedMove
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import EVACUATION, Place, PlannedMove
from scheduler.select_destinations.destination_builder import load_allocator

MOVE_TIMEOUT = 3600.0
# Seconds between two looks at an instance on the move.
LOOK_INTERVAL = 1.0


class MoveFailed(Exception):
    """A move that was not made; the text says why."""


class PlanRun(BaseCommand):
    """Carry out a plan: have its instances moved, one after the other, in the order of the plan.

    The plan is a file that another command of 'plan' has written with -f json. Each move is checked
    again when its turn comes, and is done when the instance is seen on its host. Moves are made by
    the client of OpenStack, with the account of its environment (OS_CLOUD and so on), or by
    --command. Room is claimed for the moves of each step, but where claims are allocations in
    Placement, which Nova moves itself. FILE.journal says what was done; the same command goes on
    after a failure, a kill or Ctrl-C, which lets the move under way end. The exit status is 0 if
    all moves are done, else 1.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_plan(parser)
        parser.add_argument(
            "--command",
            type=_call,
            metavar="CALL",
            help="Program with its arguments that makes a move, waits until it is over, and ends"
            " with status 0; {server}, {host}, {node} and {source} stand for the instance, where it"
            " goes, and the host it leaves. No shell is used.",
        )
        parser.add_argument(
            "--at-most",
            type=positive,
            default=1,
            metavar="N",
            help="Number of failed moves after which the run stops (default: 1).",
        )
        parser.add_argument(
            "--timeout",
            type=seconds,
            default=MOVE_TIMEOUT,
            metavar="S",
            help=f"Seconds that a move may take (default: {MOVE_TIMEOUT:.0f}).",
        )
        check_combination(parser, _missing_program)

    def take_action(self, args: Any) -> int:
        moves = read_moves(args.file)
        with journal_of(args.file) as journal, _until_interrupted() as interrupted:
            run = _Run(self, args, moves, journal, interrupted)
            for step in run.steps():
                run.make(step)
        done = sum(journal.state(number) == DONE for number in range(len(moves)))
        rest = "" if done == len(moves) else "; the same command goes on"
        self.app.stdout.write(f"{done} of {counted(len(moves), 'move')} done{rest}\n")
        return 0 if done == len(moves) else 1


class _Run:
    """One run of a plan, and what has failed in it."""

    def __init__(
        self,
        command: PlanRun,
        args: Any,
        moves: Sequence[PlannedMove],
        journal: Journal,
        interrupted: Event,
    ) -> None:
        self._command, self._asked = command, args
        self._moves, self._journal, self._interrupted = moves, journal, interrupted
        self._failures = 0

    def steps(self) -> Iterator[list[int]]:
        """Yield the numbers of the moves of each step, until the run is to stop."""
        by_step = groupby(range(len(self._moves)), key=lambda n: self._moves[n].turn)
        for _, numbers in by_step:
            if self._stops:
                return
            yield [*numbers]

    @property
    def _stops(self) -> bool:
        return self._interrupted.is_set() or self._failures >= self._asked.at_most

    def make(self, step: Sequence[int]) -> None:
        """Make the moves of a step that are not done yet."""
        with live_hosts(self._command.app) as live:
            fleet = read_fleet(self._command, live, self._asked)
            # Not those before: what of them has failed has made no room.
            found = checks.check(fleet, self._moves[step[0] :])[: len(step)]
            checked = dict(zip(step, found, strict=True))
            not_held = self._claim(live, fleet, checked)
            for number in step:
                if self._journal.state(number) == DONE or self._stops:
                    continue
                try:
                    self._check(live.database, number, checked[number], not_held.get(number))
                    self._move(live.database, number)
                except MoveFailed as error:
                    self._failures += 1
                    self._journal.note(number, FAILED, str(error))
                    self._say(number, f"failed: {error}")

    def _claim(
        self, live: LiveHosts, fleet: Fleet, checked: Mapping[int, CheckedMove]
    ) -> dict[int, str]:
        """Claim room for the possible moves; return why there is none, by numbers of moves."""
        conf = self._command.conf
        if not conf.claims.enabled or load_allocator(conf) is not None:
            return {}
        numbers = [n for n, each in checked.items() if each.state == checks.POSSIBLE]
        held = hold_room(conf, live, fleet, [self._moves[n] for n in numbers], None)
        return {
            n: each["why_not"] for n, each in zip(numbers, held, strict=True) if each["why_not"]
        }

    def _check(
        self, database: Database, number: int, checked: CheckedMove, not_held: str | None
    ) -> None:
        """Raise MoveFailed for a move that is not to be begun."""
        move = checked.move
        if not_held is not None:
            raise MoveFailed(f"no room is claimed on {move.target.host}: {not_held}")
        if (
            checked.state in (checks.DONE, checks.POSSIBLE)
            or self._journal.state(number) == STARTED
        ):
            return
        # An instance with a claim looks as if it moved; one for this move may be of plan --claim.
        claims = _instance(database, move)["claims"]
        pending = {Place(each["host"], each["node"]) for each in claims if each["state"] == PENDING}
        if pending != {move.target}:
            raise MoveFailed(checked.why)

    def _move(self, database: Database, number: int) -> None:
        """Have an instance moved, and return when it is there; raises MoveFailed."""
        move, began = self._moves[number], time.monotonic()
        until = began + self._asked.timeout
        what = f"{number + 1} of {len(self._moves)}: {move.uuid} to {move.target.host}"
        with progress(self._command.app, what):
            # An earlier run may have begun it.
            if not self._is_there(database, move, until):
                self._journal.note(number, STARTED)
                for call in self._asked.command or _calls(database, move):
                    _run(words(call, move), until)
                if not self._is_there(database, move, until, waits=True):
                    raise MoveFailed("the instance is not seen on the host in time")
        self._journal.note(number, DONE)
        self._say(number, f"done in {time.monotonic() - began:.0f} s")

    def _is_there(
        self, database: Database, move: PlannedMove, until: float, waits: bool = False
    ) -> bool:
        """Return whether an instance is where it goes, once it is not on the move any more.

        With waits this is also waited for.
        """
        while True:
            found = _instance(database, move)["places"]
            places = {Place(each["host"], each["node"]) for each in found}
            # A host that is down does not report that an instance has left it.
            if move.kind == EVACUATION:
                places.discard(move.source)
            is_busy = any(each["task"] for each in found) or len(places) > 1
            is_there = places == {move.target} and not _is_unconfirmed(found)
            if not is_busy and (is_there or not waits):
                return is_there
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_INTERVAL)

    def _say(self, number: int, what: str) -> None:
        move = self._moves[number]
        stdout = self._command.app.stdout
        stdout.write(
            f"{number + 1} of {len(self._moves)}: {move.uuid} from {move.source.host} to"
            f" {move.target.host} by {move.kind}: {what}\n"
        )
        stdout.flush()


def _instance(database: Database, move: PlannedMove) -> dict[str, Any]:
    """Return what is known of the instance of a move; raises MoveFailed."""
    try:
        return database.read(lambda connection: instance_queries.show(connection, move.uuid))
    except NotFound:
        raise MoveFailed("the instance is not on any host") from None


def _calls(database: Database, move: PlannedMove) -> Sequence[str]:
    """Return the calls that are missing of a move: one that was begun may be confirmed only."""
    is_begun = _is_unconfirmed(_instance(database, move)["places"])
    return CALLS[move.kind][1 if is_begun else 0 :]


def _is_unconfirmed(places: Sequence[dict[str, Any]]) -> bool:
    """Return whether an instance was migrated cold, which still holds its room at the source."""
    return any(each["state"] == "resized" for each in places)


def _run(program: Sequence[str], until: float) -> None:
    """Run a program to its end; raises MoveFailed."""
    try:
        done = subprocess.run(
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=API_VERSION | os.environ,
            timeout=max(0.0, until - time.monotonic()),
            check=False,
            # Ctrl-C at the terminal lets the move end.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise MoveFailed(f"{program[0]} has not ended in time") from None
    except (OSError, ValueError) as error:
        raise MoveFailed(f"{program[0]}: {error}") from None
    if done.returncode:
        last = ([each for each in done.stdout.splitlines() if each.strip()] or ["no output"])[-1]
        raise MoveFailed(f"{program[0]} has ended with status {done.returncode}: {last.strip()}")


@contextmanager
def _until_interrupted() -> Iterator[Event]:
    """Yield an event that is set by the first Ctrl-C, or SIGTERM; a second one ends the command."""
    interrupted, signals = Event(), (signal.SIGINT, signal.SIGTERM)

    def interrupt(*_: object) -> None:
        interrupted.set()
        for number, before in handlers.items():
            signal.signal(number, before)

    handlers = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield interrupted
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)


def _call(text: str) -> tuple[str]:
    """Return a call of --command; raises ArgumentTypeError."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no command: {error}") from None
    if unknown := re.findall(r"\{[^}]*\}", NAMES.sub("", text)):
        raise argparse.ArgumentTypeError(
            f"{unknown[0]} stands for nothing; {{server}}, {{host}}, {{node}}, {{source}} do"
        )
    if not found or "{server}" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} does not name the instance: {{server}}")
    return (text,)


def _missing_program(args: argparse.Namespace) -> str | None:
    """Return what is wrong if there is no such program."""
    program = shlex.split(args.command[0])[0] if args.command else "openstack"
    if shutil.which(program):
        return None
    if args.command:
        return f"argument --command: there is no program {program!r}"
    return (
        "there is no program 'openstack': install python-openstackclient, which is the extra"
        " [openstack], or name another program with --command"
    )
