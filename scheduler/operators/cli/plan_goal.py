# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the commands that plan moves have in common: a search, its report, and carrying it out."""

import json
import time
from abc import abstractmethod
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from inventory.errors import OperationRefused
from scheduler.operators.cli import plan_report
from scheduler.operators.cli.arguments import add_flag, add_time_limit, check_combination, seconds
from scheduler.operators.cli.base import ReportCommand
from scheduler.operators.cli.live_fleet import add_keep_zone, read_fleet
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.cli.plan_program import missing_program
from scheduler.operators.cli.plan_run import MOVE_TIMEOUT, add_run, carry_out, check_evacuations
from scheduler.operators.cli.terminal import Progress, progress
from scheduler.operators.cli.waiting import WorkTime
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import MovePlan


@dataclass(slots=True)
class SearchTime:
    """Says whether to look on, and tells how many moves are planned."""

    work: WorkTime
    fleet: Fleet
    show: Progress = lambda _: None

    def __call__(self) -> bool:
        self.show(len(self.fleet.moves))
        return self.work()

    def rest(self) -> str:
        """Return how long the search may go on, and what ends it before."""
        seconds = max(0.0, self.work.deadline - time.monotonic())
        return f"{seconds:.0f} s left; Ctrl-C shows them"


@dataclass(frozen=True, slots=True)
class Planned:
    """What a goal is planned on: live hosts, their fleet, and the time."""

    live: LiveHosts
    fleet: Fleet
    search_time: SearchTime


class PlanCommand(ReportCommand):
    formats = (*ReportCommand.formats, "script")
    # Of the search, in seconds.
    time_limit: ClassVar[float] = 60.0

    def add_arguments(self, parser: Any) -> None:
        self.add_goal(parser)
        add_keep_zone(parser)
        add_time_limit(parser, "search", self.time_limit)
        add_flag(
            parser,
            "--claim",
            "Claim the room for the moves of the first step, so that no other request gets this"
            " room. Moves to other hosts, and requests for the same instances, replace these"
            " claims.",
        )
        what = "Seconds that --claim holds the room (default: [claims] lease)."
        parser.add_argument("--lease", type=seconds, metavar="S", help=what)
        add_flag(
            parser,
            "--run",
            "Carry the plan out at once, as 'plan run' does. The plan is also written to a file"
            " in the current directory, with which 'plan run' can go on after a failure, a kill"
            " or Ctrl-C.",
        )
        add_run(parser)
        check_combination(parser, _wrong_option)

    def add_goal(self, parser: Any) -> None:
        """Add the arguments of the goal."""

    @abstractmethod
    def make_plan(self, planned: Planned, args: Any) -> MovePlan:
        """Return the plan."""

    def begin_run(self, plan: dict[str, Any]) -> None:
        """Change what has to be changed before the moves of a plan."""

    def take_action(self, args: Any) -> int:
        document = self._planned(args)
        if args.formatter == "script":
            self.app.stdout.write(plan_report.script(document))
        elif args.formatter != "json":
            self.report(args, plan_report.sections(document), document)
        if args.run:
            document["run"] = self._carry_out(args, document)
        if args.formatter == "json":
            self.report(args, (), document)
        held = all(each["held"] for each in document.get("claims", ()))
        is_done = not args.run or document["run"]["complete"]
        return 0 if document["complete"] and held and is_done else 1

    def _planned(self, args: Any) -> dict[str, Any]:
        with live_hosts(self.app) as live:
            fleet = read_fleet(self, live, args)
            work = WorkTime(time.monotonic() + args.time_limit)
            search_time = SearchTime(work, fleet)
            with (
                progress(self.app, "moves planned", rest=search_time.rest) as search_time.show,
                work.until_interrupted(),
            ):
                plan = self.make_plan(Planned(live, fleet, search_time), args)
            document = plan_report.document(plan, fleet)
            document["interrupted"] = work.interrupted
            if args.claim:
                first = [each for each in plan.moves if each.turn == (1, 1)]
                with progress(self.app, "claiming room for the first step"):
                    document["claims"] = hold_room(self.conf, live, fleet, first, args.lease)
        return document

    def _carry_out(self, args: Any, plan: dict[str, Any]) -> dict[str, Any]:
        """Carry out a plan; return what became of it. Raises OperationRefused."""
        if plan["interrupted"]:
            raise OperationRefused("the search was interrupted, so nothing is moved")
        moves = plan_report.moves_of(plan)
        check_evacuations(args, moves)
        path = Path(f"{plan['goal']}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.json")
        try:
            path.write_text(json.dumps(plan, indent=2), encoding="utf-8")
        except OSError as error:
            raise OperationRefused(f"cannot write {path}: {error.strerror}") from None
        self.app.stderr.write(f"The plan is in {path}\n")
        self.begin_run(plan)
        return carry_out(self, args, path, moves)


def _wrong_option(args: Any) -> str | None:
    if args.lease is not None and not args.claim:
        return "argument --lease: is for --claim only"
    if not args.run:
        given = [name for name in ("command", "watch", "evacuate") if vars(args)[name]]
        given += ["timeout"] if args.timeout != MOVE_TIMEOUT else []
        return next((f"argument --{name}: is for --run only" for name in given), None)
    if args.claim or args.formatter == "script":
        return (
            "argument --run: cannot be used with --claim or -f script, since a run claims room by"
            " itself and writes no script"
        )
    return missing_program(args)
