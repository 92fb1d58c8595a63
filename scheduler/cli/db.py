# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for the database's schema."""

from typing import Any

from cliff.command import Command

from inventory import migrations
from scheduler.cli.database import unchecked_database


class DbSync(Command):  # type: ignore[misc]  # cliff has no types
    """Create the tables, or bring them to this release. Safe to repeat and to run at any time."""

    def take_action(self, parsed_args: Any) -> None:
        with unchecked_database(self.app, is_new=True) as database:
            before, after = migrations.sync(database)
            # Without the time limits that are ours and not the operator's.
            where = database.engine.url.set(query={}).render_as_string(hide_password=True)
        if before == after:
            self.app.stdout.write(f"The schema of {where} is at {after} already.\n")
        else:
            self.app.stdout.write(f"The schema of {where} is at {after} now.\n")


class DbVersion(Command):  # type: ignore[misc]  # cliff has no types
    """Show the revision of the database's schema, and whether this release works with it."""

    def take_action(self, parsed_args: Any) -> None:
        with unchecked_database(self.app) as database:
            self.app.stdout.write(f"{migrations.revision(database) or 'none'}\n")
            migrations.check(database)
