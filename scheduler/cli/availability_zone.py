# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that lists availability zones."""

from typing import Any

from cliff.lister import Lister

from inventory import availability_zones
from scheduler.cli.base import conf_of, limit_of, read, table

LIST = {"zone": "Zone Name", "zone_status": "Zone Status"}
LONG = {
    **LIST,
    "host": "Host Name",
    "binary": "Service Name",
    "status": "Service Status",
    "state": "Service State",
}
NO_HOST = {"host": None, "binary": None, "status": None, "state": None}


class AvailabilityZoneList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the availability zones. One is available if a host in it is enabled and up."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="With a line for each host.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (limit_of(self.app), conf_of(self.app).default_availability_zone)
        zones = read(self.app, availability_zones.listed, *asked)
        rows = [
            {"zone": each["zone"], "zone_status": each["status"], **host}
            for each in zones
            for host in (each["hosts"] if parsed_args.long else [NO_HOST]) or [NO_HOST]
        ]
        return table(LONG if parsed_args.long else LIST, rows)
