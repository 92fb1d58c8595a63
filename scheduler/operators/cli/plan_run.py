# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Carry out a plan: the command for files, and what it shares with --run of those that plan."""

import argparse
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inventory.errors import OperationRefused, counted
from scheduler.operators.cli.arguments import add_flag, check_combination, positive, seconds
from scheduler.operators.cli.base import BaseCommand, ReportCommand
from scheduler.operators.cli.plan_check import add_plan, read_moves
from scheduler.operators.cli.plan_journal import GONE, journal_of
from scheduler.operators.cli.plan_program import missing_program, program_call
from scheduler.operators.cli.plan_stage import Interruption, StageRun
from scheduler.operators.planning.types import EVACUATION, PlannedMove

MOVE_TIMEOUT = 3600.0


class PlanRun(ReportCommand):
    """Carry out a plan: have its instances moved, one after the other, in the order of the plan.

    The plan is a file that another command of 'plan' has written with -f json. Each move is checked
    again before its step begins, and is done when the instance is seen on its host. Moves are made
    by the client of OpenStack, with the account of its environment (OS_CLOUD and so on), or by
    --command. A move that fails does not stop the moves that do not need its room. Room is claimed
    for the moves of each step until they are done, except where claims are allocations in
    Placement, which Nova moves itself. FILE.journal says what was done; the same command goes on
    after a failure, a kill or Ctrl-C. Ctrl-C lets the move under way end. If a plan has several
    stages, each run carries out one stage. A move whose instance is on no host any more is passed
    over. The exit status is 0 if all other moves of the stage are done, else 1.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_plan(parser)
        add_run(parser)
        what = "Number of failed moves after which the run stops (default: any number)."
        parser.add_argument("--at-most", type=positive, dest="failures", metavar="N", help=what)
        add_flag(
            parser,
            "--skip-failed",
            "Do not repeat moves that have failed, so that the next stage begins without them.",
        )
        check_combination(parser, missing_program)

    def take_action(self, args: Any) -> int:
        moves = read_moves(args.file)
        check_evacuations(args, moves)
        found = carry_out(self, args, args.file, moves)
        if args.formatter == "json":
            self.report(args, (), found)
        return 0 if found["complete"] else 1


def add_run(parser: Any) -> None:
    """Add the options of carry_out(), and the defaults of those of 'plan run' only."""
    what = (
        "Program with its arguments that makes a move, waits until it is over, and ends with"
        " status 0; {server}, {host}, {node} and {source} stand for the instance, the host and"
        " the node to which it moves, and the host that it leaves. No shell is used."
    )
    parser.add_argument("--command", type=program_call, metavar="CALL", help=what)
    add_flag(
        parser,
        "--watch",
        "Print also the states of the instance while it moves, and the time of each line.",
    )
    add_flag(
        parser,
        "--evacuate",
        "Make evacuations, too. Switch off the hosts that are down first: an instance that still"
        " runs there would use the same disks as the instance that is rebuilt on another host.",
    )
    what = f"Seconds that a move may take (default: {MOVE_TIMEOUT:.0f})."
    parser.add_argument("--timeout", type=seconds, default=MOVE_TIMEOUT, metavar="S", help=what)
    parser.set_defaults(failures=None, skip_failed=False)


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
    with journal_of(path) as journal, _until_interrupted() as interruption:
        run = StageRun(command, args, moves, journal, interruption)
        try:
            for step in run.steps():
                run.make(step)
        finally:
            # Also after an error, and after a signal that ends the run at once.
            found = _outcome(run, path, _go_on(command, args, path))
    return found


def _outcome(run: StageRun, path: Path, go_on: str) -> dict[str, Any]:
    """Print the state of a plan and the command that continues it; return the plan's outcome."""
    moves, journal = run.moves, run.journal
    left = [moves[number].stage for number in run.left()]
    gone = sum(journal.state(number) == GONE for number in range(len(moves)))
    is_complete, goes_on = run.stage not in left, go_on if left else None
    what = (
        f"stage {run.stage} is done; to begin the next stage, run"
        if is_complete
        else "to go on, run"
    )
    rest = f"; {what}: {goes_on}" if goes_on else ""
    lost = f", {counted(gone, 'instance is', 'instances are')} gone" if gone else ""
    lost += f", {len(run.skipped)} skipped" if run.skipped else ""
    done = len(moves) - len(left) - gone - len(run.skipped)
    run.print_interruption()
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
    numbers = {"--at-most": (args.failures, None), "--timeout": (args.timeout, MOVE_TIMEOUT)}
    line += [f"{name}={n:.10g}" for name, (n, default) in numbers.items() if n != default]
    flags = {"--keep-zone": args.keep_zone, "--evacuate": args.evacuate, "--watch": args.watch}
    flags |= {"--skip-failed": args.skip_failed}
    line += [name for name, is_given in flags.items() if is_given]
    return shlex.join([*line, *(f"--command={each}" for each in args.command or ())])


@contextmanager
def _until_interrupted() -> Iterator[Interruption]:
    """Yield what the first Ctrl-C or SIGTERM sets, or the loss of the terminal.

    A second Ctrl-C or SIGTERM ends the command. A terminal that is lost may send several signals.
    """
    interruption, second = Interruption(), (signal.SIGINT, signal.SIGTERM)

    def interrupt(number: int, _: object) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        interruption.why = interruption.why or name
        if number in second:
            for each in second:
                signal.signal(each, end)

    def end(number: int, _: object) -> None:
        for each in second:
            signal.signal(each, before[each])
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    # nohup has it ignored, so that the run goes on.
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    asked = second if is_ignored else (*second, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in asked}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
