# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for services."""

from typing import Any

from cliff.lister import Lister

from conf.service import liveness_limit
from inventory import aggregates, migrations, services
from scheduler.cli.base import conf_of

COLUMNS = (
    "ID",
    "Binary",
    "Host",
    "Zone",
    "Status",
    "State",
    "Updated At",
    "Disabled Reason",
    "Forced Down",
)


class ServiceList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the agents and schedulers that have registered, and whether they are alive."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", help="Only the services of this host.")
        parser.add_argument("--binary", help="Only these, such as nova-compute.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        conf = conf_of(self.app)
        with migrations.checked_database(conf_of(self.app)) as database:
            rows = database.read(lambda c: services.all_live(c, parsed_args.binary))
            zones = _zones(database.read(aggregates.everything))
        limit, default = liveness_limit(conf), conf.default_availability_zone
        return COLUMNS, [
            (
                row.id,
                row.binary,
                row.host,
                zones.get(row.host, default) if row.binary == services.COMPUTE[0] else "internal",
                *services.status_and_state(row, limit),
                str(row.updated_at or ""),
                row.disabled_reason or "",
                bool(row.forced_down),
            )
            for row in rows
            if parsed_args.host in (None, row.host)
        ]


def _zones(records: list[aggregates.AggregateRecord]) -> dict[str, str]:
    return {
        host: record.metadata["availability_zone"]
        for record in records
        if "availability_zone" in record.metadata
        for host in record.hosts
    }
