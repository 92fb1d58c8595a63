# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for hosts, as their agents report them."""

import json
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from inventory import compute_nodes, host_usage, migrations, services
from inventory.engine import Database
from scheduler.cli.base import conf_of, limit_of, read, table

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
        return table(LIST, read(self.app, host_usage.listed, *asked))


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


# Columns that hold JSON.
DOCUMENTS = ("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats")


class HostShow(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show everything that is known of the node of a host."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", help="Name of the host, as host list shows it.")
        parser.add_argument("--node", help="Which of its nodes, where it has several.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        with migrations.checked_database(conf_of(self.app)) as database:
            nodes = database.read(lambda c: compute_nodes.of_hosts(c, [parsed_args.host]))
            states = _states(database, limit_of(self.app))
        found = [n for n in nodes if parsed_args.node in (None, n.hypervisor_hostname)]
        if not found:
            raise RuntimeError(f"no compute node of host {parsed_args.host!r} has reported yet")
        if len(found) > 1:
            names = ", ".join(node.hypervisor_hostname for node in found)
            raise RuntimeError(f"host {parsed_args.host!r} has several nodes: {names}; add --node")
        node = dict(found[0]._mapping)
        node["status"], node["state"] = states.get(node["host"], ("no service", "down"))
        for name in DOCUMENTS:
            node[name] = _decoded(node[name])
        for name in ("created_at", "updated_at", "deleted_at"):
            node[name] = str(node[name] or "")
        columns = sorted(node)
        return columns, [node[column] for column in columns]


def _states(database: Database, limit: int) -> dict[str, tuple[str, str]]:
    rows = database.read(lambda c: services.all_live(c, services.COMPUTE[0]))
    return {row.host: services.status_and_state(row, limit) for row in rows}


def _decoded(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return text
