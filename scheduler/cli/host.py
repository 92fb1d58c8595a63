# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for hosts, as their agents report them."""

from typing import Any

import sqlalchemy as sa
from cliff.lister import Lister
from cliff.show import ShowOne

from inventory import host_usage, known_names
from scheduler.cli.base import conf_of, limit_of, read, shown, table

LIST = {
    "host": "Host",
    "node": "Node",
    "zone": "Zone",
    "status": "Status",
    "state": "State",
    "vcpus_used": "vCPUs Used",
    "vcpus": "vCPUs",
    "free_ram_mb": "Memory MB Free",
    "memory_mb": "Memory MB",
    "free_disk_gb": "Disk GB Free",
    "local_gb": "Disk GB",
    "running_vms": "Instances",
}
DESCRIPTION = {
    "host": "HOST",
    "project": "PROJECT",
    "cpu": "cpu",
    "memory_mb": "memory_mb",
    "disk_gb": "disk_gb",
}


class HostList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the hosts with what they have, use and have left."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--zone", help="Only the hosts of this availability zone.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        default = conf_of(self.app).default_availability_zone
        asked = (limit_of(self.app), default, parsed_args.zone)
        return table(LIST, read(self.app, _listed, *asked))


class HostDescribe(Lister):  # type: ignore[misc]  # cliff has no types
    """Show what a host has, what is used of it and what its instances may use, by project.

    (used_now) includes what is kept for the host itself. (used_max) and the projects count all
    instances, whatever their state.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", help="Name of the host, as host list shows it.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return table(DESCRIPTION, read(self.app, host_usage.describe, parsed_args.host))


class HostShow(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show everything that is known of the node of a host."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", help="Name of the host, as host list shows it.")
        parser.add_argument("--node", help="Which of its nodes, where it has several.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.host, limit_of(self.app), parsed_args.node)
        node = read(self.app, host_usage.show, *asked)
        return shown({name: node[name] for name in sorted(node)})


def _listed(
    connection: sa.Connection, limit: float, default: str, zone: str | None
) -> list[dict[str, Any]]:
    if zone is not None:
        known_names.zone(connection, zone, default)
    return host_usage.listed(connection, limit, default, zone)
