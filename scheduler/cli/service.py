# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that lists services."""

from typing import Any

from cliff.lister import Lister

from inventory import services
from scheduler.cli.base import conf_of, limit_of, read, table

COLUMNS = {
    "id": "ID",
    "binary": "Binary",
    "host": "Host",
    "zone": "Zone",
    "status": "Status",
    "state": "State",
    "updated_at": "Updated At",
    "disabled_reason": "Disabled Reason",
    "forced_down": "Forced Down",
}


class ServiceList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the agents and schedulers that have registered, and whether they are alive."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="Only the services of this host.")
        parser.add_argument("--binary", help="Only these, such as nova-compute.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        default = conf_of(self.app).default_availability_zone
        asked = (limit_of(self.app), default, parsed_args.binary)
        rows = read(self.app, services.listed, *asked)
        return table(COLUMNS, [row for row in rows if parsed_args.host in (None, row["host"])])
