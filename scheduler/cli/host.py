# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for hosts, as their agents report them."""

import json
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from conf.service import liveness_limit
from inventory import compute_nodes, migrations, services
from inventory.engine import Database
from scheduler.cli.base import conf_of

COLUMNS = (
    "Host",
    "Node",
    "Status",
    "State",
    "vCPUs Used",
    "vCPUs",
    "Memory MB Free",
    "Memory MB",
    "Disk GB Free",
    "Disk GB",
    "Instances",
)


class HostList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the hosts with what they have, use and have left."""

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        with migrations.checked_database(conf_of(self.app)) as database:
            nodes = database.read(compute_nodes.all_live)
            states = _states(database, liveness_limit(conf_of(self.app)))
        return COLUMNS, [
            (
                node.host,
                node.hypervisor_hostname,
                *states.get(node.host, ("no service", "down")),
                node.vcpus_used,
                node.vcpus,
                node.free_ram_mb,
                node.memory_mb,
                node.free_disk_gb,
                node.local_gb,
                node.running_vms,
            )
            for node in nodes
        ]


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
            states = _states(database, liveness_limit(conf_of(self.app)))
        found = [n for n in nodes if parsed_args.node in (None, n.hypervisor_hostname)]
        if not found:
            raise RuntimeError(f"no compute node of host {parsed_args.host!r} has reported yet")
        if len(found) > 1:
            names = ", ".join(node.hypervisor_hostname for node in found)
            raise RuntimeError(f"host {parsed_args.host!r} has several nodes: {names}; add --node")
        node = dict(found[0]._mapping)
        node["status"], node["state"] = states.get(parsed_args.host, ("no service", "down"))
        for name in ("cpu_info", "supported_instances", "stats", "metrics"):
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
