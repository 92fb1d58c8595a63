# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that list, show and save kept decisions. They work on the database."""

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from cliff.command import Command
from cliff.lister import Lister

from inventory import decisions
from inventory.refusals import OperationRefused
from scheduler.cli import explanation
from scheduler.cli.base import read, table, whole
from scheduler.cli.heading import heading
from scheduler.cli.kept import HEADS, MOST, add_decision, find, head
from scheduler.cli.telling import Table, TellingCommand
from scheduler.course import OUTCOMES, REPEATED
from scheduler.decision.outcome import Decision
from scheduler.keeping.recalled import Lost, to_file
from scheduler.rpc.json_values import json_value

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class DecisionList(Lister):  # type: ignore[misc]  # cliff has no types
    """List decisions that schedulers have made, the newest first."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--limit", type=_limit, default=50, metavar="N", help="How many at most (50)."
        )
        parser.add_argument(
            "--outcome",
            # They are not kept, see inventory.decisions.
            choices=[each for each in OUTCOMES if each != REPEATED],
            help="Only requests that ended so, refused for example.",
        )
        parser.add_argument("--project", metavar="ID", help="Only those of a project.")
        parser.add_argument(
            "--request",
            metavar="ID",
            help="Only those of a request, or for an instance whose UUID this is.",
        )
        parser.add_argument(
            "--since",
            type=_moment,
            metavar="MOMENT",
            help="Only decisions from then on: a time ago, such as 30m, 1h or 2d, or a moment, such"
            " as 2026-11-22 or 2026-11-22T03:40, in UTC unless it ends with another time zone,"
            " +02:00 for example.",
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return table(HEADS, [head(row) for row in read(self.app, _listed, parsed_args)])


class DecisionShow(TellingCommand):
    """Show a decision as it was kept: what was asked, and what came of it.

    Why it came so, host by host, is what explain says.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_decision(parser)
        return parser

    def take_action(self, parsed_args: Any) -> None:
        recalled, rows = find(self.app, parsed_args.decision)
        document = head(rows[0]) | {"record": json_value(recalled.record)}
        decision = recalled.record.decision
        story: list[str | Table] = [*heading(recalled)]
        story += [survivors(decision), _placements(decision)]
        self.tell(parsed_args, story, document)


class DecisionSave(Command):  # type: ignore[misc]  # cliff has no types
    """Save a decision with the hosts that it was made on, to be made again anywhere else.

    The file has the request and all hosts as they were. It has no passwords.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_decision(parser)
        parser.add_argument("file", type=Path, help="What to write; it must not exist yet.")
        return parser

    def take_action(self, parsed_args: Any) -> None:
        path: Path = parsed_args.file
        try:
            if path.exists():
                raise OperationRefused(f"{path} exists already: choose another name")
            recalled, _ = find(self.app, parsed_args.decision)
            to_file(recalled, path)
        except Lost as error:
            raise OperationRefused(f"the decision cannot be saved: {error}") from None
        except OSError as error:
            raise OperationRefused(f"cannot write {path}: {error.strerror}") from None
        self.app.stdout.write(f"Saved decision {recalled.number} to {path}\n")


def survivors(decision: Decision) -> Table:
    """Return how many hosts were left after each filter, for the refused instance or the first."""
    shortage, placed = decision.shortage, decision.placements
    steps = shortage.steps if shortage else placed[0].steps if placed else ()
    return explanation.survivors({"steps": json_value(steps)})


def _listed(connection: sa.Connection, asked: Any) -> Sequence[Any]:
    if asked.request is None:
        return decisions.listed(connection, asked.limit, asked.outcome, asked.project, asked.since)
    rows = decisions.find(connection, asked.request, MOST)
    found = [
        row
        for row in rows
        if asked.outcome in (None, row.outcome)
        and asked.project in (None, row.project_id)
        and (asked.since is None or row.decided_at >= asked.since)
    ]
    return found[: asked.limit]


def _limit(text: str) -> int:
    return whole(text, 1, decisions.MOST_LISTED)


def _moment(text: str) -> datetime:
    """Return a moment in UTC without its zone, as the database has it."""
    ago = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    try:
        if ago:
            found = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            found = datetime.fromisoformat(text)
        return found.astimezone(UTC).replace(tzinfo=None) if found.tzinfo else found
    # Some moments are before or after all years.
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time ago, such as 30m, 1h or 2d, nor a moment, such as"
            " 2026-11-22 or 2026-11-22T03:40"
        ) from None


def _placements(decision: Decision) -> Table:
    rows = [
        (
            each.instance_uuid or "",
            each.chosen.host,
            each.chosen.nodename,
            f"{each.chosen.weight + 0.0:.3f}",
            ", ".join(other.host for other in each.alternates),
        )
        for each in decision.placements
    ]
    return Table("Placed", ("Instance", "Host", "Node", "Weight", "Alternates"), rows)
