# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How commands name and find kept decisions, and make them again."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from typing import Any

import sqlalchemy as sa
from cliff.app import App

from inventory import decisions
from inventory.refusals import OperationRefused, Unknown
from scheduler.cli.base import read
from scheduler.drivers import BaseDriver
from scheduler.keeping.recalled import Recalled, from_database
from scheduler.plugins import PluginError

# Seconds. Schedulers write down each second what they have decided.
PATIENCE = 2.0
# Of the decisions for one instance or request, the newest.
MOST = 1000
HEADS = {
    "id": "Number",
    "decided_at": "Decided At",
    "outcome": "Outcome",
    "instances": "Instances",
    "hosts": "Hosts",
    "request_id": "Request",
    "project_id": "Project",
    "milliseconds": "ms",
    "conflicts": "Conflicts",
    "scheduler": "Scheduler",
}


def add_decision(parser: Any) -> None:
    """Add the argument that names a decision."""
    parser.add_argument(
        "decision",
        metavar="ID",
        help="UUID of an instance or id of a request, of which the newest decision is taken, or the"
        " number of a decision, as decision list shows it.",
    )


def find(app: App, text: str) -> tuple[Recalled, Sequence[Any]]:
    """Return the newest decision that a text names, and the rows of all of them.

    One that was made just now may not be written yet, nor the hosts that it was made on, so these
    are waited for; none has a number before it is written. Raises Unknown, and Lost for a decision
    that cannot be read.
    """
    until = monotonic() + PATIENCE
    while True:
        found = read(app, _found, text)
        is_late = monotonic() > until
        if found is not None and (found[0].hosts is not None or is_late):
            return found
        if is_late or (found is None and text.isdecimal()):
            raise Unknown(
                f"no decision is kept for {text!r}. They are kept for [decisions] max_age, up to"
                " max_number of them, unless [decisions] keep is off. See 'decision list'"
            )
        sleep(PATIENCE / 4)


def _found(connection: sa.Connection, text: str) -> tuple[Recalled, Sequence[Any]] | None:
    rows = decisions.find(connection, text, MOST)
    return (from_database(connection, rows[0]), rows) if rows else None


@contextmanager
def deciding(recalled: Recalled) -> Iterator[BaseDriver]:
    """Yield the driver that made a decision; raises OperationRefused if there is none here."""
    with ExitStack() as stack:
        try:
            driver = stack.enter_context(recalled.deciding())
        except (PluginError, ValueError) as error:
            raise OperationRefused(
                "the decision cannot be made again with the plug-ins that are installed here:"
                f" {error}"
            ) from None
        yield driver


def head(row: Any) -> dict[str, Any]:
    """Return what is known of a decision besides itself, as JSON has it."""
    values = {name: getattr(row, name) for name in HEADS}
    moment = row.decided_at
    return values | {
        "decided_at": moment and moment.isoformat(sep=" ", timespec="milliseconds"),
        "milliseconds": round(row.milliseconds, 3),
    }
