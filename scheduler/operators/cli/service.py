# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for services: list, show, enable, disable, force down, delete."""

from typing import Any

import sqlalchemy as sa

from inventory import services
from inventory.operations import service_operations
from inventory.queries import host_queries
from scheduler.operators.cli.arguments import add_flag, add_host, add_long, add_named, add_reason
from scheduler.operators.cli.base import (
    ListCommand,
    ShowCommand,
    is_for_programs,
    list_rows,
    one_row,
    readable,
    titles_for,
)
from scheduler.operators.cli.many_hosts import HostsCommand, add_hosts
from scheduler.operators.cli.table_format import titled

COLUMNS = titled("id binary host zone status state updated_at disabled_reason forced_down")
FEW = ("binary", "host", "zone", "status", "state", "updated_at")
FULL = COLUMNS | titled("uuid")


class ServiceList(ListCommand):
    """List the registered agents and schedulers, and whether they are alive."""

    titles = FULL
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_named(parser, "--host", "service hosts", "Host of the services to list.")
        what = "Binary of the services to list, such as nova-compute."
        add_named(parser, "--binary", "binaries", what)
        add_long(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        def found(connection: sa.Connection) -> list[dict[str, Any]]:
            host, binary = args.host, args.binary
            if host is not None:
                host = host_queries.spelled_host(connection, host)
            if binary is not None:
                binary = host_queries.spelled_binary(connection, binary)
            rows = services.listed(connection, self.liveness_limit, self.default_zone, binary)
            return [row for row in rows if host in (None, row["host"])]

        titles = FULL if is_for_programs(args) else titles_for(args, FEW, COLUMNS)
        return list_rows(titles, self.read(found))


class _ServicesCommand(HostsCommand):
    def add_arguments(self, parser: Any) -> None:
        add_hosts(parser, "service list", "service hosts")
        _add_binary(parser)


def _add_binary(parser: Any) -> None:
    what = "Binary of the service (default: nova-compute)."
    add_named(parser, "--binary", "binaries", what, default="nova-compute")


class ServiceShow(ShowCommand):
    """Show all facts about a service: its status, its heartbeat and its zone."""

    def add_arguments(self, parser: Any) -> None:
        add_host(parser, None, "service list", "service hosts")
        _add_binary(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        limits = (self.liveness_limit, self.default_zone)
        operation = service_operations.show
        return one_row(self.read(operation, args.host, *limits, args.binary))


class ServiceEnable(_ServicesCommand):
    """Enable compute services for new instances again, and clear the reasons for which they were
    disabled."""

    def take_action(self, args: Any) -> tuple[Any, Any]:
        hosts = self.take_hosts(args)
        return self.show(args, self.write(service_operations.enable, hosts, args.binary))


class ServiceDisable(_ServicesCommand):
    """Disable compute services: they get no new instances until they are enabled. Their instances
    stay."""

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        add_reason(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        arguments = (self.take_hosts(args), args.reason, args.binary)
        return self.show(args, self.write(service_operations.disable, *arguments))


class ServiceForceDown(_ServicesCommand):
    """Count compute services as down, whatever their heartbeats say, for example after a host was
    fenced."""

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        what = "End the state of being forced down: the heartbeats of the services decide again."
        add_flag(parser, "--unset", what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        arguments = (self.take_hosts(args), not args.unset, args.binary)
        return self.show(args, self.write(service_operations.force_down, *arguments))


class ServiceDelete(_ServicesCommand):
    """Delete services that have ended for good. With a compute service, its host is deleted, too.

    The compute nodes of the host are deleted, and the host is removed from its aggregates. Its
    pending claims are dropped, and the answer names their instances, which were sent to the host
    and have not arrived. The deletion is refused while a service is alive, and while a host has
    instances, or migrations in progress. Of several services, all or none are deleted.
    """

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        what = (
            "Delete also the guests that the agent of a lost host reported last. Instances that"
            " Nova manages are not deleted."
        )
        add_flag(parser, "--forget-guests", what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        hosts, limit = self.take_hosts(args), self.liveness_limit
        rows = self.write(service_operations.delete, hosts, limit, args.binary, args.forget_guests)
        return self.show(args, [*map(readable, rows)])
