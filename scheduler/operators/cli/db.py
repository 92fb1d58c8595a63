# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for the schema of the database."""

from typing import Any

from inventory import migrations
from scheduler.operators.cli.base import BaseCommand
from scheduler.operators.cli.database_connection import open_unchecked
from scheduler.operators.cli.terminal import progress


class DbSync(BaseCommand):
    """Create the tables, or upgrade them to this release. Safe to repeat, and at any time."""

    def take_action(self, args: Any) -> None:
        self.app.name_cloud()
        with open_unchecked(self.app, is_new=True) as database:
            with progress(self.app, "upgrading the schema"):
                before, after = migrations.sync(database)
            # Without the time limits that the engine adds to the operator's URL.
            url = database.engine.url.set(query={}).render_as_string(hide_password=True)
        state = "is already" if before == after else "is now"
        self.app.stdout.write(f"The schema of {url} {state} at {after}.\n")


class DbVersion(BaseCommand):
    """Show the revision of the database schema, and whether this release works with it."""

    def take_action(self, args: Any) -> None:
        with open_unchecked(self.app) as database:
            self.app.stdout.write(f"{database.read(migrations.revision) or 'none'}\n")
            migrations.check(database)
