# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that lists availability zones."""

from typing import Any

from inventory.queries import host_queries
from scheduler.operators.cli.arguments import add_flag
from scheduler.operators.cli.base import ListCommand, list_rows

LIST = {"zone": "Zone Name", "zone_status": "Zone Status"}
LONG = {
    **LIST,
    "host": "Host Name",
    "binary": "Service Name",
    "status": "Service Status",
    "state": "Service State",
}
NO_HOST = {"host": None, "binary": None, "status": None, "state": None}


class AvailabilityZoneList(ListCommand):
    """List the availability zones. A zone is available if a host in it is enabled and up."""

    titles = LONG
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_flag(parser, "--long", "Show a row for each host.")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        zones = self.read(host_queries.zones, self.liveness_limit, self.default_zone)
        rows = [
            {"zone": each["zone"], "zone_status": each["status"], **host}
            for each in zones
            for host in (each["hosts"] if args.long else [NO_HOST]) or [NO_HOST]
        ]
        return list_rows(LONG if args.long else LIST, rows)
