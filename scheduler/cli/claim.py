# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that show claims and give them back. They work on the database, without a scheduler."""

from typing import Any

import sqlalchemy as sa
from cliff.lister import Lister

from inventory import allocations, claims, known_names
from inventory.claims import ClaimLost
from inventory.orders import CONFIRMED
from inventory.refusals import InUse, Unknown
from scheduler.cli.base import read, table, write

COLUMNS = {
    "instance_uuid": "Instance",
    "state": "State",
    "host": "Host",
    "node": "Node",
    "vcpus": "vCPUs",
    "memory_mb": "Memory MB",
    "disk_mb": "Disk MB",
    "created_at": "Created At",
    "expires_at": "Expires At",
}


class ClaimList(Lister):  # type: ignore[misc]  # cliff has no types
    """List what schedulers hold for instances that nobody has seen yet, the oldest first."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="Only the claims on this host.")
        parser.add_argument("--instance", metavar="UUID", help="Only those for this instance.")
        parser.add_argument(
            "--all", action="store_true", help="Also those whose instances were seen."
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.host, parsed_args.instance, parsed_args.all)
        return _shown(read(self.app, _listed, *asked))


class ClaimRelease(Lister):  # type: ignore[misc]  # cliff has no types
    """Give back what is held for instances that will not come, before their leases end.

    What an instance that was seen takes is not held by its claim, and stays.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("instance", nargs="+", help="UUID, as claim list shows it.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        found: list[dict[str, Any]] = []
        for uuid in parsed_args.instance:
            held = read(self.app, allocations.listed, None, uuid, True)
            if not held:
                raise Unknown(f"nothing is claimed for instance {uuid!r}; see 'claim list'")
            found += [row for row in held if row["state"] != CONFIRMED]
        try:
            write(self.app, claims.release, parsed_args.instance)
        except ClaimLost:
            raise InUse("a claim was confirmed or has ended just now; try again") from None
        return _shown(found)


def _listed(
    connection: sa.Connection, host: str | None, uuid: str | None, confirmed: bool
) -> list[dict[str, Any]]:
    if host is not None:
        host = known_names.host(connection, host)
    return allocations.listed(connection, host, uuid, confirmed)


def _shown(rows: list[dict[str, Any]]) -> tuple[Any, Any]:
    times = ("created_at", "expires_at")
    return table(
        COLUMNS, [row | {name: row[name] and str(row[name])[:19] for name in times} for row in rows]
    )
