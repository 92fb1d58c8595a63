# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that find, list, show and save the decisions that schedulers keep in the database."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import sqlalchemy as sa

from inventory import decisions
from inventory.errors import NotFound, OperationRefused
from inventory.queries import name_queries
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.history.saved_decision import (
    DecisionIncomplete,
    SavedDecision,
    from_database,
    write_file,
)
from scheduler.operators.cli.arguments import add_long, add_named, add_since, not_empty, positive
from scheduler.operators.cli.base import (
    BaseCommand,
    ListCommand,
    ReportCommand,
    Table,
    list_rows,
    titles_for,
)
from scheduler.operators.cli.format_decision import filters_table, format_heading, placements_table
from scheduler.operators.cli.table_format import titled
from scheduler.operators.cli.terminal import progress
from scheduler.plugins import PluginError
from scheduler.request_trace import OUTCOMES, REPEATED
from scheduler.wire.to_json import json_value

# Seconds to wait for a decision: schedulers write once a second.
WRITE_TIMEOUT = 2.0
# The most decisions of one instance or request that are read, the newest first.
MAX_FOUND = 1000
COLUMNS = titled(
    "id decided_at outcome instances hosts request_id project_id milliseconds conflicts scheduler",
    id="Number",
    request_id="Request",
    project_id="Project",
    milliseconds="ms",
)
# What fits in 100 characters, with the first hosts of a decision.
FEW = ("id", "decided_at", "outcome", "instances", "hosts", "milliseconds")
_HOSTS_WIDTH = 18


class DecisionList(ListCommand):
    """List the decisions of the schedulers, the newest first."""

    titles = COLUMNS
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        number = partial(positive, most=decisions.MAX_LISTED)
        what = "Maximum number of decisions to list (default: 50)."
        parser.add_argument("--limit", type=number, default=50, metavar="N", help=what)
        parser.add_argument(
            "--outcome",
            # Repeated answers are not saved, see inventory.decisions.
            choices=[each for each in OUTCOMES if each != REPEATED],
            help="Outcome of the decisions to list, such as refused.",
        )
        what = "Id of the project of the decisions to list."
        add_named(parser, "--project", "projects", what, type=not_empty, metavar="ID")
        what = "Id of a request, or UUID of an instance: list only the decisions about it."
        add_named(parser, "--request", "requests", what, type=not_empty, metavar="ID")
        add_since(parser, "decisions")
        add_long(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        titles = titles_for(args, FEW, COLUMNS)
        rows = [row_document(each) for each in self.read(_listed, args)]
        if titles is not COLUMNS:
            rows = [row | {"hosts": _first_hosts(row["hosts"] or "")} for row in rows]
        return list_rows(titles, rows)


def _first_hosts(text: str) -> str:
    """Return the first of the hosts of a decision, and how many more there are."""
    first, *others = text.split(", ")
    while others and len(first) + len(others[0]) + 2 <= _HOSTS_WIDTH:
        first = f"{first}, {others.pop(0)}"
    if not others:
        return first
    # The database has a part of a long list only.
    return f"{first} and {'more' if others[-1] == '...' else f'{len(others)} more'}"


class DecisionShow(ReportCommand):
    """Show a saved decision: the request, the filters and the chosen hosts.

    'explain' shows the reasons, host by host.
    """

    def add_arguments(self, parser: Any) -> None:
        add_decision(parser)

    def take_action(self, args: Any) -> None:
        saved, rows = find_decision(self, args.decision)
        decision = saved.record.decision
        sections: list[str | Table] = [
            *format_heading(saved),
            decision_filters(decision),
            placements_table("Placed", json_value(decision.placements)),
        ]
        document = row_document(rows[0]) | {"record": json_value(saved.record)}
        self.report(args, sections, document)


class DecisionSave(BaseCommand):
    """Save a decision and its hosts to a file, from which it can be made again on any machine.

    The file has the request and all hosts as they were. It has no passwords.
    """

    def add_arguments(self, parser: Any) -> None:
        add_decision(parser)
        parser.add_argument("file", type=Path, help="File to write, which must not exist.")

    def take_action(self, args: Any) -> None:
        path: Path = args.file
        try:
            if path.exists():
                raise OperationRefused(f"{path} exists already: choose another name")
            saved, _ = find_decision(self, args.decision)
            with progress(self.app, f"writing {path}"):
                write_file(path, saved)
        except DecisionIncomplete as error:
            raise OperationRefused(f"the decision cannot be saved: {error}") from None
        except OSError as error:
            raise OperationRefused(f"cannot write {path}: {error.strerror}") from None
        self.app.stdout.write(f"Saved decision {saved.number} to {path}\n")


def add_decision(parser: Any) -> None:
    what = (
        "Number of the decision, as 'decision list' shows it; or UUID of an instance or id of"
        " a request, for the newest decision about it."
    )
    add_named(parser, "decision", "requests", what, metavar="ID")


def find_decision(command: BaseCommand, text: str) -> tuple[SavedDecision, Sequence[Any]]:
    """Return the newest decision that a text names, and the rows of all of them.

    Schedulers write a decision and its hosts a little later than they make it, so this waits for
    both; a number is only known once it is written. Raise NotFound, and DecisionIncomplete for a
    decision that cannot be read.
    """
    until = monotonic() + WRITE_TIMEOUT
    while True:
        found = command.read(_find, text)
        is_late = monotonic() > until
        if found is not None and (found[0].hosts is not None or is_late):
            return found
        if is_late or (found is None and text.isdecimal()):
            hint = command.read(name_queries.nearest_id, "requests", text, "decision list")
            raise NotFound(
                f"no decision is saved for {text!r}; {hint}. Decisions are saved for [decisions]"
                " max_age, up to max_number of them, unless [decisions] keep is off"
            )
        sleep(WRITE_TIMEOUT / 4)


def _find(connection: sa.Connection, text: str) -> tuple[SavedDecision, Sequence[Any]] | None:
    rows = decisions.find(connection, text, MAX_FOUND)
    return (from_database(connection, rows[0]), rows) if rows else None


@contextmanager
def original_driver(saved: SavedDecision) -> Iterator[BaseDriver]:
    """Yield the driver that made a decision; raise OperationRefused if it cannot be loaded."""
    with ExitStack() as stack:
        try:
            driver = stack.enter_context(saved.deciding())
        except (PluginError, ValueError) as error:
            raise OperationRefused(
                "the decision cannot be made again with the plug-ins that are installed on this"
                f" machine: {error}"
            ) from None
        yield driver


def row_document(row: Any) -> dict[str, Any]:
    time = row.decided_at
    return {name: getattr(row, name) for name in COLUMNS} | {
        "decided_at": time and time.isoformat(sep=" ", timespec="milliseconds"),
        "milliseconds": round(row.milliseconds, 3),
    }


def decision_filters(decision: Decision) -> Table:
    """Return how many hosts each filter left, for the refused instance or the first one."""
    shortage, placed = decision.shortage, decision.placements
    steps = shortage.steps if shortage else placed[0].steps if placed else ()
    return filters_table(json_value(steps))


def _listed(connection: sa.Connection, args: Any) -> Sequence[Any]:
    limit, outcome, project = args.limit, args.outcome, args.project
    request, since = args.request, args.since
    if request is None:
        return decisions.listed(connection, limit, outcome, project, since)
    found = [
        row
        for row in decisions.find(connection, request, MAX_FOUND)
        if outcome in (None, row.outcome)
        and project in (None, row.project_id)
        and (since is None or row.decided_at >= since)
    ]
    return found[:limit]
