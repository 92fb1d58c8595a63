# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that list and release claims. They work on the database, without a scheduler."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from inventory.claims import claims, existing
from inventory.claims.types import CONFIRMED, ClaimLost
from inventory.errors import InUse, NotFound
from inventory.queries import host_queries, name_queries
from inventory.rows import time_text
from scheduler.operators.cli.arguments import add_flag, add_long, add_named
from scheduler.operators.cli.base import ListCommand, list_rows, titles_for
from scheduler.operators.cli.table_format import titled

COLUMNS = titled(
    "instance_uuid state host node vcpus memory_mb disk_mb created_at expires_at",
    instance_uuid="Instance",
)
FEW = ("instance_uuid", "state", "host", "expires_at")


class ClaimList(ListCommand):
    """List the claims for instances that no agent has reported yet, the oldest first.

    Reserved places are listed, too: the state of a place is reserved until an instance has taken
    it, and then waiting.
    """

    titles = COLUMNS
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_named(parser, "--host", "hosts", "Host of the claims to list.")
        what = "Instance of the claims to list."
        add_named(parser, "--instance", "claimed instances", what, metavar="UUID")
        add_flag(parser, "--all", "List also the claims of instances that agents have reported.")
        add_long(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        def found(connection: sa.Connection) -> list[dict[str, Any]]:
            host = args.host
            if host is not None:
                host = host_queries.spelled_host(connection, host)
            return existing.listed(connection, host, args.instance, args.all)

        return _list_claims(self.read(found), titles_for(args, FEW, COLUMNS))


class ClaimRelease(ListCommand):
    """Release the claims for instances that will not be built, before the leases of the claims end.

    The usage of an instance that an agent has reported does not come from its claim, and stays.
    """

    def add_arguments(self, parser: Any) -> None:
        help_text = "UUID of the instance, as 'claim list' shows it."
        add_named(parser, "instance", "claimed instances", help_text, nargs="+")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        released: list[dict[str, Any]] = []
        for uuid in args.instance:
            found = self.read(existing.listed, None, uuid, True)
            if not found:
                hint = self.read(name_queries.nearest_id, "claimed instances", uuid, "claim list")
                raise NotFound(f"instance {uuid!r} has no claim; {hint}")
            if found[0]["reservation_uuid"] is not None:
                raise InUse(
                    f"{uuid} is a reserved place, not an instance: 'reservation delete' gives back"
                    " the places of a reservation"
                )
            released += [row for row in found if row["state"] != CONFIRMED]
        try:
            self.write(claims.release, args.instance)
        except ClaimLost:
            raise InUse("a claim was confirmed or has ended just now; try again") from None
        return _list_claims(released, COLUMNS)


def _list_claims(rows: Iterable[dict[str, Any]], titles: Mapping[str, str]) -> tuple[Any, Any]:
    times = ("created_at", "expires_at")
    return list_rows(titles, [row | {name: time_text(row[name]) for name in times} for row in rows])
