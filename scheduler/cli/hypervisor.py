# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for hypervisors, which are the compute nodes of hosts."""

import time
from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from inventory import hypervisors
from scheduler.cli.base import add_reaching_agent, ask_agent, limit_of, read, shown, table
from scheduler.rpc.failures import ServiceUnavailable

LIST = {
    "id": "ID",
    "hypervisor_hostname": "Hypervisor Hostname",
    "state": "State",
    "status": "Status",
}
SERVERS = {"uuid": "ID", "name": "Name", "hypervisor_hostname": "Hypervisor Hostname"}


class HypervisorList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the hypervisors."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--matching", metavar="TEXT", help="Only those whose name contains this text."
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (limit_of(self.app), parsed_args.matching)
        return table(LIST, read(self.app, hypervisors.listed, *asked))


class HypervisorShow(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show a hypervisor with its figures."""

    def get_parser(self, prog_name: str) -> Any:
        return _with_hypervisor(super().get_parser(prog_name))

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (limit_of(self.app), parsed_args.hypervisor)
        return shown(read(self.app, hypervisors.show, *asked))


class HypervisorStats(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show the figures of all enabled hypervisors added up, those that are down included."""

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return shown(read(self.app, hypervisors.stats))


class HypervisorServers(Lister):  # type: ignore[misc]  # cliff has no types
    """List the instances on a hypervisor, or on all those of a host."""

    def get_parser(self, prog_name: str) -> Any:
        return _with_hypervisor(super().get_parser(prog_name))

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return table(SERVERS, read(self.app, hypervisors.servers, parsed_args.hypervisor))


class HypervisorUptime(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show how long the host of a hypervisor has been running.

    Its agent is asked. If it does not answer, what it noted last is in the database, and compared
    with the clock of this machine.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = _with_hypervisor(super().get_parser(prog_name))
        add_reaching_agent(parser, timeout=5.0)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        # By its uuid from here on: its id may be the name of another one.
        node = read(self.app, hypervisors.find, parsed_args.hypervisor)
        try:
            row = ask_agent(
                self.app,
                parsed_args.agent or node.host,
                "get_host_uptime",
                parsed_args.timeout,
                hypervisor=node.uuid,
            )
            source = "agent"
        except ServiceUnavailable as error:
            asked = (limit_of(self.app), node.uuid, time.time())
            row = read(self.app, hypervisors.uptime, *asked)
            source = f"database, as of the last audit: {error.reason}"
        return shown(row | {"source": source})


def _with_hypervisor(parser: Any) -> Any:
    parser.add_argument(
        "hypervisor", help="Its name, that of its host, its uuid or id, as hypervisor list shows."
    )
    return parser
