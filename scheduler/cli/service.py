# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that say what services there are, and how they are."""

from typing import Any

import sqlalchemy as sa
from cliff.lister import Lister
from cliff.show import ShowOne

from inventory import known_names, operations, services
from scheduler.cli.base import (
    add_compute_service,
    conf_of,
    is_for_programs,
    limit_of,
    read,
    shown,
    table,
)

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
FULL = {**COLUMNS, "uuid": "UUID"}


class ServiceList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the agents and schedulers that have registered, and whether they are alive."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="Only the services of this host.")
        parser.add_argument("--binary", help="Only these, such as nova-compute.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        default = conf_of(self.app).default_availability_zone
        asked = (limit_of(self.app), default, parsed_args.host, parsed_args.binary)
        titles = FULL if is_for_programs(parsed_args) else COLUMNS
        return table(titles, read(self.app, _listed, *asked))


class ServiceShow(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show all that is known of a service: its switches, its heartbeat and its zone."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_compute_service(parser)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        default = conf_of(self.app).default_availability_zone
        asked = (parsed_args.host, limit_of(self.app), default, parsed_args.binary)
        return shown(read(self.app, operations.show, *asked))


def _listed(
    connection: sa.Connection, limit: float, default: str, host: str | None, binary: str | None
) -> list[dict[str, Any]]:
    if host is not None:
        host = known_names.host(connection, host)
    if binary is not None:
        binary = known_names.binary(connection, binary)
    rows = services.listed(connection, limit, default, binary)
    return [row for row in rows if host in (None, row["host"])]
