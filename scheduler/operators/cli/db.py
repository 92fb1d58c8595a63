# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for the schema of the database."""

from typing import Any

import sqlalchemy as sa

from inventory import migrations, services
from inventory.errors import InUse, counted, some
from inventory.services import is_up
from scheduler.operators.cli.base import BaseCommand
from scheduler.operators.cli.database_connection import open_unchecked
from scheduler.operators.cli.terminal import progress


class DbSync(BaseCommand):
    """Create the tables, or upgrade them to this release. Safe to repeat.

    Daemons of the release before go on meanwhile, and the command names those that run. It refuses
    to upgrade a schema under running daemons that could not go on with it.
    """

    def take_action(self, args: Any) -> None:
        self.app.name_cloud()
        with open_unchecked(self.app, is_new=True) as database:
            limit, found = self.liveness_limit, database.read(migrations.revision)
            running = database.read(lambda c: _running(c, limit)) if found is not None else ""
            if running and migrations.needs_stop(found):
                raise InUse(
                    f"stop all daemons before this upgrade: {running}. Daemons that have ended"
                    f" count as running for {limit:g} s"
                )
            with progress(self.app, "upgrading the schema"):
                before, after = migrations.sync(database)
            # Without the time limits that the engine adds to the operator's URL.
            url = database.engine.url.set(query={}).render_as_string(hide_password=True)
        state = "is already" if before == after else "is now"
        self.app.stdout.write(f"The schema of {url} {state} at {after}.\n")
        if running and before != after:
            self.app.stderr.write(
                f"Daemons of the release before go on with it; restart them with this release:"
                f" {running}.\n"
            )


def _running(connection: sa.Connection, limit: float) -> str:
    """Return in words which daemons are up, by a schema that this release may be newer than."""
    columns = ("host", "binary", "forced_down", "last_seen_up", "created_at")
    up = [each for each in services.all_live(connection, names=columns) if is_up(each, limit)]
    found = []
    for kind, (binary, _) in (("scheduler", services.SCHEDULER), ("agent", services.COMPUTE)):
        if hosts := [each.host for each in up if each.binary == binary]:
            runs = "runs" if len(hosts) == 1 else "run"
            found.append(f"{counted(len(hosts), kind)} {runs}, on {some(hosts)}")
    return "; ".join(found)


class DbVersion(BaseCommand):
    """Show the revision of the database schema, and whether this release works with it."""

    def take_action(self, args: Any) -> None:
        with open_unchecked(self.app) as database:
            self.app.stdout.write(f"{database.read(migrations.revision) or 'none'}\n")
            migrations.check(database)
