# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that says what of a plan is still true."""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from inventory.errors import OperationRefused
from scheduler.operators.cli import plan_report
from scheduler.operators.cli.base import ReportCommand, Table
from scheduler.operators.cli.live_fleet import add_keep_zone, read_fleet
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.terminal import progress
from scheduler.operators.planning.check import DONE, POSSIBLE, CheckedMove, check
from scheduler.operators.planning.types import PlannedMove

COLUMNS = ("Step", "Instance", "From", "To", "State", "Why")


class PlanCheck(ReportCommand):
    """Compare a plan with the fleet: which moves are done, and which are possible in their turn.

    The plan is a file that another command of 'plan' has written with -f json. A move is possible
    if it can be made after all possible moves before it, and by the same kind of move. The exit
    status is 0 if every move is done or possible, else 1.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_plan(parser)

    def take_action(self, args: Any) -> int:
        moves = read_moves(args.file)
        with live_hosts(self.app) as live:
            fleet = read_fleet(self, live, args)
        with progress(self.app, "checking the moves"):
            found = check(fleet, moves)
        states = Counter(each.state for each in found)
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        document = {"states": dict(states), "moves": [_document(each) for each in found]}
        table = Table("", COLUMNS, [_row(each) for each in found])
        self.report(args, [f"Moves: {counts or 'none'}", table], document)
        return 0 if all(each.state in (DONE, POSSIBLE) for each in found) else 1


def add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="File with a plan, as -f json has written it.")
    add_keep_zone(parser)


def read_moves(path: Path) -> list[PlannedMove]:
    """Return the moves of a file; raise OperationRefused."""
    try:
        return plan_report.moves_of(json.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise OperationRefused(f"cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise OperationRefused(f"{path} cannot be used: its JSON is nested too deep") from None
    except ValueError as error:
        raise OperationRefused(f"{path} cannot be used: {error}") from None


def _document(each: CheckedMove) -> dict[str, Any]:
    move = each.move
    return {
        "stage": move.stage,
        "step": move.step,
        "instance": move.uuid,
        "from": move.source.host,
        "to": move.target.host,
        "state": each.state,
        "why": each.why,
    }


def _row(each: CheckedMove) -> tuple[Any, ...]:
    move = each.move
    step = f"{move.stage}.{move.step}"
    return step, move.uuid, move.source.host, move.target.host, each.state, each.why
