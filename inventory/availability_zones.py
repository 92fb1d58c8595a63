# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Availability zones as operators see them: those that aggregates name, and the default one."""

from typing import Any

import sqlalchemy as sa

from inventory import aggregates, services


def listed(connection: sa.Connection, limit: float, default: str) -> list[dict[str, Any]]:
    """Return the zones with the compute services in them.

    One is available if any of them is enabled and up. default is the zone of hosts that are in no
    other; limit is that of services.is_up().
    """
    records = aggregates.everything(connection)
    zones: dict[str, list[dict[str, Any]]] = {
        zone: [] for record in records for zone in record.zones
    }
    of_host = aggregates.zones_by_host(records)
    for row in services.all_live(connection, services.COMPUTE[0]):
        status, state = services.status_and_state(row, limit)
        shown = {"host": row.host, "binary": row.binary, "status": status, "state": state}
        for zone in of_host.get(row.host) or {default}:
            zones.setdefault(zone, []).append(shown)
    return [
        {
            "zone": zone,
            "status": "available" if any(map(_takes, zones[zone])) else "not available",
            "hosts": sorted(zones[zone], key=lambda each: each["host"]),
        }
        for zone in sorted(zones)
    ]


def _takes(service: dict[str, Any]) -> bool:
    return (service["status"], service["state"]) == ("enabled", "up")
