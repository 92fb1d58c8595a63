# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is Nova's in a cloud that an agent mirrors: changed here, it would be changed back.

A host with a cell is one of Nova's, as the mirror writes it. Aggregates are all Nova's then, and so
are whether Nova has disabled a host, has forced it down, and has it at all. What Nova knows nothing
of is ours there, too: maintenance, what an operator disables here, groups, claims, reservations.
"""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from inventory import services
from inventory.errors import NovasOwn, counted, some
from inventory.tables import services as services_table

_OF_NOVA = sa.and_(
    services_table.c.binary == services.COMPUTE[0],
    services_table.c.deleted == 0,
    services_table.c.cell_uuid.is_not(None),
)


def refuse_aggregates(connection: sa.Connection, command: str) -> None:
    """Raise NovasOwn in a mirrored cloud; 'openstack aggregate' has a command of this name."""
    if connection.scalar(sa.select(services_table.c.id).where(_OF_NOVA).limit(1)) is not None:
        raise NovasOwn(
            "the aggregates of this cloud are Nova's, and an agent would undo the change: use"
            f" 'openstack aggregate {command}'"
        )


def refuse_enabling(rows: Collection[Any]) -> None:
    """Raise NovasOwn for services that are disabled in Nova."""
    hosts = [row for row in _of_nova(rows) if services.is_automatic(row)]
    reason = hosts[0].disabled_reason.removeprefix(services.AUTOMATIC) if hosts else ""
    command = "openstack compute service set --enable {} nova-compute"
    if reason.startswith("cell "):
        command = f"nova-manage cell_v2 update_cell --cell_uuid {hosts[0].cell_uuid} --enable"
    _refuse(hosts, f"disabled in Nova ({reason})", command)


def refuse_forcing(rows: Collection[Any], down: bool) -> None:
    """Raise NovasOwn for services of Nova, which are forced down there alone."""
    what = "down" if down else "up"
    command = f"openstack compute service set --{what} {{}} nova-compute"
    _refuse(_of_nova(rows), f"forced {what} in Nova alone", command)


def refuse_deleting(connection: sa.Connection, rows: Collection[Any], limit: float) -> None:
    """Raise NovasOwn for services of Nova, as long as there is an agent that mirrors them.

    limit is that of services.is_up(). The agent sends the heartbeats of all hosts that are alive.
    """
    mirrored = _of_nova(rows)
    if mirrored and any(
        each.cell_uuid and services.is_up(each, limit)
        for each in services.all_live(connection, services.COMPUTE[0])
    ):
        listing = "openstack compute service list --host {} --service nova-compute"
        command = f"openstack compute service delete ID', with the ID of '{listing}"
        _refuse(mirrored, "deleted in Nova alone", command)


def is_of_nova(row: Any) -> bool:
    """Return whether a service is that of a host that an agent mirrors."""
    return row.cell_uuid is not None


def _of_nova(rows: Collection[Any]) -> list[Any]:
    return [row for row in rows if is_of_nova(row)]


def _refuse(rows: Collection[Any], what: str, command: str) -> None:
    if rows:
        hosts = [row.host for row in rows]
        verb = "is" if len(hosts) == 1 else "are"
        others = f", and so on for each of {counted(len(hosts), 'host')}" if len(hosts) > 1 else ""
        raise NovasOwn(
            f"{some(hosts)} {verb} {what}, and an agent would undo the change: use"
            f" '{command.format(min(hosts))}'{others}"
        )
