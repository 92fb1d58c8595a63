# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that lists who has changed what."""

from typing import Any

import sqlalchemy as sa

from inventory import aggregates, audit_log
from inventory.audit_log import EntryFilter, in_words
from inventory.errors import NotFound
from inventory.queries import host_queries
from scheduler.operators.cli.arguments import add_long, add_named, add_since, not_empty, positive
from scheduler.operators.cli.base import ListCommand, list_rows, readable, titles_for
from scheduler.operators.cli.table_format import Worded, titled

COLUMNS = titled("id changed_at operator machine command kind name hosts before after")
# Without --long. What has changed may be of any length.
FEW = ("changed_at", "operator", "command", "name", "before", "after")


class AuditList(ListCommand):
    """List what operators and agents have changed, the newest first, from the audit log.

    Only the fields that differ are shown. A change that was refused is not in the log, nor is what
    schedulers claim for requests.
    """

    titles = COLUMNS
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_named(parser, "--host", "hosts", "Host that the changes are about.", type=not_empty)
        what = "Name, id or uuid of the aggregate that the changes are about."
        add_named(parser, "--aggregate", "aggregates", what, type=not_empty)
        # The second name is for the application, which takes the first one for its own.
        what = "Operator who made the changes."
        parser.add_argument(
            "--operator", "--by", dest="by", type=not_empty, metavar="NAME", help=what
        )
        add_since(parser, "changes")
        what = "Maximum number of changes to list (default: 50)."
        parser.add_argument("--limit", type=positive, default=50, metavar="N", help=what)
        add_long(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        rows = [
            readable(each) | {name: Worded(each[name], in_words) for name in ("before", "after")}
            for each in self.read(_search, args)
        ]
        return list_rows(titles_for(args, FEW, COLUMNS), rows)


def _search(connection: sa.Connection, args: Any) -> list[dict[str, Any]]:
    """Return the entries; raise NotFound for a host or an aggregate without any, and unknown."""
    name, unknown = args.aggregate, None
    if name is not None:
        try:
            name = aggregates.find(aggregates.everything(connection), name).name
        # A deleted one may have entries.
        except NotFound as error:
            unknown = error
    found = audit_log.search(
        connection, EntryFilter(args.host, name, args.by, args.since), args.limit
    )
    if not found and unknown is not None:
        raise unknown
    if not found and args.host is not None:
        host_queries.spelled_host(connection, args.host)
    return found
