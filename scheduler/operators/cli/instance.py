# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that say where instances are, by the database: no agent or scheduler is asked."""

from collections.abc import Mapping
from typing import Any

from inventory.queries import instance_queries
from scheduler.operators.cli.arguments import add_long, add_named, not_empty
from scheduler.operators.cli.base import ListCommand, ShowCommand, list_rows, one_row, titles_for
from scheduler.operators.cli.table_format import Worded, titled

COLUMNS = titled(
    "uuid name host node state task project_id flavor vcpus memory_mb disk_gb",
    uuid="ID",
    project_id="Project",
)
FEW = ("uuid", "name", "host", "state", "vcpus")


def _place(each: Mapping[str, Any]) -> str:
    states = ", ".join(filter(None, (each["state"], each["task"])))
    return f"{each['host']} ({states})" if states else str(each["host"])


def _claim(each: Mapping[str, Any]) -> str:
    until = f" until {each['expires_at']}" if each["expires_at"] else ""
    return f"{each['state']} on {each['host']}{until}"


class InstanceList(ListCommand):
    """List the instances and their hosts. Instances that are not on their hosts yet are pending."""

    titles = COLUMNS
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_named(parser, "--host", "hosts", "Host of the instances to list.", type=not_empty)
        what = "Project of the instances to list."
        add_named(parser, "--project", "projects", what, type=not_empty, metavar="ID")
        add_long(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        rows = self.read(instance_queries.listed, args.host, args.project)
        return list_rows(titles_for(args, FEW, COLUMNS), rows)


class InstanceShow(ShowCommand):
    """Show where an instance is, with its claims, its server group and the newest decision.

    'explain' and 'decision show' take the number of the decision, or the uuid of the instance.
    """

    def add_arguments(self, parser: Any) -> None:
        what = "Name, UUID or beginning of the UUID of the instance, as 'instance list' shows it."
        add_named(parser, "instance", "instances", what, type=not_empty)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        row = self.read(instance_queries.show, args.instance)
        # In tables with a line for each.
        row["places"] = Worded(row["places"], lambda found: map(_place, found))
        row["claims"] = Worded(row["claims"], lambda found: map(_claim, found))
        return one_row(row)
