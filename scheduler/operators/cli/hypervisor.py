# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for hypervisors, which are the compute nodes of hosts."""

import time
from typing import Any

from inventory.queries import hypervisor_queries
from scheduler.operators.cli.arguments import add_agent, add_named
from scheduler.operators.cli.base import BaseCommand, ListCommand, ShowCommand, list_rows, one_row
from scheduler.operators.cli.table_format import titled
from scheduler.wire.errors import ServiceUnavailable

LIST = titled("id hypervisor_hostname state status")
SERVERS = titled("uuid name hypervisor_hostname", uuid="ID")


class HypervisorList(ListCommand):
    """List the hypervisors."""

    titles = LIST
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        what = "Text in the names of the hypervisors to list."
        parser.add_argument("--matching", metavar="TEXT", help=what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        query = hypervisor_queries.listed
        return list_rows(LIST, self.read(query, self.liveness_limit, args.matching))


class _OneHypervisor(BaseCommand):
    def add_arguments(self, parser: Any) -> None:
        what = "Name, host, uuid or id of the hypervisor, as 'hypervisor list' shows it."
        add_named(parser, "hypervisor", "hypervisors", what)


class HypervisorShow(_OneHypervisor, ShowCommand):
    """Show a hypervisor with its capacity and usage."""

    def take_action(self, args: Any) -> tuple[Any, Any]:
        hypervisor = args.hypervisor
        return one_row(self.read(hypervisor_queries.show, self.liveness_limit, hypervisor))


class HypervisorStats(ShowCommand):
    """Show the sums of all enabled hypervisors; hypervisors that are down count, too."""

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return one_row(self.read(hypervisor_queries.stats))


class HypervisorServers(_OneHypervisor, ListCommand):
    """List the instances on a hypervisor, or on all hypervisors of a host."""

    titles = SERVERS

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return list_rows(SERVERS, self.read(hypervisor_queries.servers, args.hypervisor))


class HypervisorUptime(_OneHypervisor, ShowCommand):
    """Show the uptime of the host of a hypervisor.

    The agent of the host is asked. If it does not answer, the uptime is computed from the boot time
    that the agent last wrote to the database, and from the clock of this machine.
    """

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        add_agent(parser, timeout=5.0)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        # By its uuid from here on: its id may be the name of another one.
        node = self.read(hypervisor_queries.find, args.hypervisor)
        try:
            row = self.call_agent(args, node.host, "get_host_uptime", hypervisor=node.uuid)
            source = "agent"
        except ServiceUnavailable as error:
            now = time.time()
            row = self.read(hypervisor_queries.uptime, self.liveness_limit, node.uuid, now)
            source = f"database, as of the last audit: {error.reason}"
        return one_row(row | {"source": source})
