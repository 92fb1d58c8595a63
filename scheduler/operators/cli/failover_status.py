# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that says which instances are protected, and where their standbys are."""

from collections.abc import Iterator, Mapping
from typing import Any

from inventory.claims.standby_rows import protected
from inventory.errors import counted
from scheduler.operators.cli.arguments import complete
from scheduler.operators.cli.base import ReportCommand, Table

TITLES = {
    "instance": "Instance",
    "host": "Host",
    "domain": "Failure domain",
    "standby": "Standby",
    "mode": "Mode",
    "reason": "Reason",
}


class FailoverStatus(ReportCommand):
    """Say which instances are protected, and on which hosts their standbys are.

    A standby is room on a host of another failure domain, held for the evacuation of the instance.
    The exit status is 0 if every protected instance has one, else 1.
    """

    def add_arguments(self, parser: Any) -> None:
        project = parser.add_argument(
            "--project", metavar="PROJECT", help="Id of a project: only its instances."
        )
        complete(project, "projects")
        parser.add_argument(
            "--without", action="store_true", help="Only the instances without a standby."
        )

    def take_action(self, args: Any) -> int:
        found = self.read(protected, args.project, args.without)
        lacking = sum(each["standby"] is None for each in found)
        document = {"version": 1, "complete": not lacking, "instances": found}
        self.report(args, _sections(document, args.without), document)
        return 1 if lacking else 0


def _sections(document: Mapping[str, Any], without: bool) -> Iterator[str | Table]:
    found = document["instances"]
    lacking = sum(each["standby"] is None for each in found)
    if without:
        have = counted(lacking, "protected instance has", "protected instances have")
        yield f"{have} no standby"
    else:
        number = counted(len(found), "protected instance")
        have = "has a standby" if len(found) == 1 else "have standbys"
        yield f"{len(found) - lacking} of {number} {have}"
    if found:
        rows = [[each[key] or "" for key in TITLES] for each in found]
        yield Table("", tuple(TITLES.values()), rows)
