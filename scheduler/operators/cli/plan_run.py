# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Carry out a plan: the command for files, and what it shares with --run of those that plan."""

import argparse
import math
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from threading import Event
from typing import Any

from inventory.claims import claims
from inventory.claims.types import PENDING, ClaimLost
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import OperationRefused, counted
from scheduler.operators.cli.arguments import add_flag, check_combination, positive, seconds
from scheduler.operators.cli.base import BaseCommand, ReportCommand
from scheduler.operators.cli.live_fleet import read_fleet
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.plan_check import add_plan, read_moves
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.cli.plan_journal import DONE, FAILED, GONE, STARTED, Journal, journal_of
from scheduler.operators.cli.plan_move import (
    MoveFailed,
    calls_of,
    instance,
    is_there,
    missing_program,
    program_call,
    run_program,
    where,
    words,
)
from scheduler.operators.cli.terminal import clear_line, progress
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning import check as checks
from scheduler.operators.planning.check import CheckedMove
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import EVACUATION, Place, PlannedMove
from scheduler.select_destinations.destination_builder import load_allocator

FAILURES, MOVE_TIMEOUT = 1, 3600.0


class PlanRun(ReportCommand):
    """Carry out a plan: have its instances moved, one after the other, in the order of the plan.

    The plan is a file that another command of 'plan' has written with -f json. Each move is checked
    again before its step begins, and is done when the instance is seen on its host. Moves are made
    by the client of OpenStack, with the account of its environment (OS_CLOUD and so on), or by
    --command. Room is claimed for the moves of each step until they are done, but where claims are
    allocations in Placement, which Nova moves itself. FILE.journal says what was done; the same
    command goes on after a failure, a kill or Ctrl-C, which lets the move under way end. Of a plan
    of several stages each run carries out one. A move whose instance is on no host any more is
    passed over. The exit status is 0 if all other moves of the stage are done, else 1.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_plan(parser)
        add_run(parser)
        what = f"Number of failed moves after which the run stops (default: {FAILURES})."
        parser.add_argument(
            "--at-most", type=positive, default=FAILURES, dest="failures", metavar="N", help=what
        )
        what = f"Seconds that a move may take (default: {MOVE_TIMEOUT:.0f})."
        parser.add_argument("--timeout", type=seconds, default=MOVE_TIMEOUT, metavar="S", help=what)
        check_combination(parser, missing_program)

    def take_action(self, args: Any) -> int:
        moves = read_moves(args.file)
        check_evacuations(args, moves)
        found = carry_out(self, args, args.file, moves)
        if args.formatter == "json":
            self.report(args, (), found)
        return 0 if found["complete"] else 1


def add_run(parser: Any) -> None:
    """Add the options of carry_out(), and the defaults of failures and timeout."""
    what = (
        "Program with its arguments that makes a move, waits until it is over, and ends"
        " with status 0; {server}, {host}, {node} and {source} stand for the instance, where it"
        " goes, and the host it leaves. No shell is used."
    )
    parser.add_argument("--command", type=program_call, metavar="CALL", help=what)
    add_flag(
        parser,
        "--watch",
        "Print also when each move begins and what becomes of its instance meanwhile, with times.",
    )
    add_flag(
        parser,
        "--evacuate",
        "Make evacuations too. Switch off the hosts that are down before: an instance that still"
        " runs there would use the same disks as the one that is rebuilt elsewhere.",
    )
    parser.set_defaults(failures=FAILURES, timeout=MOVE_TIMEOUT)


def check_evacuations(args: Any, moves: Sequence[PlannedMove]) -> None:
    """Raise OperationRefused for evacuations that were not asked for."""
    number = sum(each.kind == EVACUATION for each in moves)
    if number and not args.evacuate:
        raise OperationRefused(
            f"the plan has {counted(number, 'evacuation')}, so nothing is moved: switch off the"
            " hosts that are down, and give --evacuate"
        )


def carry_out(
    command: BaseCommand, args: Any, path: Path, moves: Sequence[PlannedMove]
) -> dict[str, Any]:
    """Carry out a stage of a plan in a file and say how it goes; return what became of the plan.

    complete says whether all moves of the stage are done, goes_on is the command for the others,
    None without any. Raises OperationRefused.
    """
    command.app.name_cloud()
    with journal_of(path) as journal, _until_interrupted() as interrupted:
        run = _Run(command, args, moves, journal, interrupted)
        for step in run.steps():
            run.make(step)
    left = [each.stage for number, each in enumerate(moves) if not journal.is_over(number)]
    gone = sum(journal.state(number) == GONE for number in range(len(moves)))
    is_complete, goes_on = run.stage not in left, _go_on(command, args, path) if left else None
    what = f"stage {run.stage} is done, this begins the next one" if is_complete else "this goes on"
    rest = f"; {what}: {goes_on}" if goes_on else ""
    lost = f", {counted(gone, 'instance is', 'instances are')} gone" if gone else ""
    done = len(moves) - len(left) - gone
    run.write(f"{done} of {counted(len(moves), 'move')} done{lost}{rest}")
    return {
        "file": str(path),
        "stage": run.stage,
        "complete": is_complete,
        "goes_on": goes_on,
        "moves": [
            {
                "instance": each.uuid,
                "from": each.source.host,
                "to": each.target.host,
                "how": each.kind,
                "state": journal.state(number),
                "why": journal.why(number),
            }
            for number, each in enumerate(moves)
        ],
    }


def _go_on(command: BaseCommand, args: Any, path: Path) -> str:
    """Return the command line that carries out the rest of a plan."""
    options = command.app.options
    line = [command.app.NAME, *options.configuration]
    line += [f"--cloud={options.cloud}"] if options.cloud else []
    line += ["plan", "run", str(path)]
    numbers = {"--at-most": (args.failures, FAILURES), "--timeout": (args.timeout, MOVE_TIMEOUT)}
    line += [f"{name}={n:.10g}" for name, (n, default) in numbers.items() if n != default]
    flags = {"--keep-zone": args.keep_zone, "--evacuate": args.evacuate, "--watch": args.watch}
    line += [name for name, is_given in flags.items() if is_given]
    return shlex.join([*line, *(f"--command={each}" for each in args.command or ())])


class _Run:
    """One run of a plan, and what has failed in it."""

    def __init__(
        self,
        command: BaseCommand,
        args: Any,
        moves: Sequence[PlannedMove],
        journal: Journal,
        interrupted: Event,
    ) -> None:
        self._command, self._asked = command, args
        self._moves, self._journal, self._interrupted = moves, journal, interrupted
        left = [each.stage for n, each in enumerate(moves) if not journal.is_over(n)]
        # The one whose turn it is, None where nothing is left to do.
        self.stage = min(left, default=None)
        self._failures = 0
        # What the moves of the step have claimed, by host and uuid, and when that was renewed.
        self._kept: set[tuple[str, str]] = set()
        self._renewed = -math.inf
        # What was said last of the instance on the move.
        self._seen = ""

    def steps(self) -> Iterator[list[int]]:
        """Yield the numbers of the moves of each step of the stage, until the run is to stop."""
        numbers = (n for n, each in enumerate(self._moves) if each.stage == self.stage)
        for _, step in groupby(numbers, key=lambda n: self._moves[n].turn):
            if self._stops:
                return
            yield [*step]

    @property
    def _stops(self) -> bool:
        return self._interrupted.is_set() or self._failures >= self._asked.failures

    def make(self, step: Sequence[int]) -> None:
        with live_hosts(self._command.app) as live:
            fleet = read_fleet(self._command, live, self._asked)
            # Not those before: what of them has failed has made no room.
            found = checks.check(fleet, self._moves[step[0] :])[: len(step)]
            checked = dict(zip(step, found, strict=True))
            not_held = self._claim(live, fleet, checked)
            self._kept = {(each.move.target.host, each.move.uuid) for each in found}
            self._renewed = -math.inf
            for number in step:
                if self._journal.is_over(number) or self._stops:
                    continue
                # One that was under way may not be reported by either host yet.
                if checked[number].state == checks.GONE and not self._is_started(number):
                    self._journal.note(number, GONE, checked[number].why)
                    self._say(number, f"is passed over: {checked[number].why}")
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
        if checked.state in (checks.DONE, checks.POSSIBLE) or self._is_started(number):
            return
        # An instance with a claim looks as if it moved; one for this move may be of plan --claim.
        held = (each for each in instance(database, move)["claims"] if each["state"] == PENDING)
        pending = {Place(each["host"], each["node"]) for each in held}
        if pending != {move.target}:
            raise MoveFailed(checked.why)

    def _is_started(self, number: int) -> bool:
        return self._journal.state(number) == STARTED

    def _move(self, database: Database, number: int) -> None:
        """Have an instance moved, and return when it is there; raises MoveFailed."""
        move, began = self._moves[number], time.monotonic()
        until = began + self._asked.timeout
        what = f"{number + 1} of {len(self._moves)}: {move.uuid} to {move.target.host}"

        def rest() -> str:
            end = "stops after this move" if self._stops else "Ctrl-C stops after this move"
            return f"{time.monotonic() - began:.0f} s; {end}"

        def look() -> None:
            self._look(database, number)

        with progress(self._command.app, what, rest=rest):
            if self._asked.watch:
                self._say(number, "begins")
                self._seen = ""
            # An earlier run may have begun it.
            if not is_there(database, move, until, look):
                self._journal.note(number, STARTED)
                for call in self._asked.command or calls_of(database, move):
                    run_program(words(call, move), until, look)
                if not is_there(database, move, until, look, waits=True):
                    raise MoveFailed("the instance is not seen on the host in time")
        self._journal.note(number, DONE)
        self._say(number, f"done in {time.monotonic() - began:.0f} s")

    def _look(self, database: Database, number: int) -> None:
        """Keep the claims of the step while a move takes its time, and say what is new of it."""
        lease = self._command.conf.claims.lease
        # What fails now is tried again at the next look.
        with suppress(ClaimLost, DatabaseUnavailable, MoveFailed):
            if time.monotonic() > self._renewed + lease / 3:
                database.write(lambda connection: claims.renew(connection, self._kept, lease))
                self._renewed = time.monotonic()
            if self._asked.watch:
                places = instance(database, self._moves[number])["places"]
                seen = " and ".join(map(where, places))
                if seen != self._seen:
                    self._seen = seen
                    self.write(f"{number + 1} of {len(self._moves)}: {seen}")

    def _say(self, number: int, what: str) -> None:
        move = self._moves[number]
        self.write(
            f"{number + 1} of {len(self._moves)}: {move.uuid} from {move.source.host} to"
            f" {move.target.host} by {move.kind}: {what}"
        )

    def write(self, line: str) -> None:
        app = self._command.app
        clear_line(app)
        stream = app.stderr if self._asked.formatter == "json" else app.stdout
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} " if self._asked.watch else ""
        stream.write(f"{now}{line}\n")
        stream.flush()


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
