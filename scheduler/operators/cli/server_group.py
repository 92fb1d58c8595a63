# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for server groups. They work on the database, and each of them does all or nothing."""

from typing import Any

from inventory.objects.instance_group import AFFINITY, ANTI_AFFINITY, POLICIES
from inventory.operations import server_group_operations
from scheduler.operators.cli.arguments import add_flag, add_named, check_combination, positive
from scheduler.operators.cli.base import (
    ListCommand,
    ShowCommand,
    is_for_programs,
    list_rows,
    one_row,
    readable,
)

LIST = {"id": "ID", "name": "Name", "policy": "Policy"}
LONG = {**LIST, "members": "Members"}


class ServerGroupList(ListCommand):
    """List the server groups."""

    titles = LONG
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_flag(parser, "--long", "Show the members of the server groups.")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        rows = map(readable, self.read(server_group_operations.listed))
        return list_rows(LONG if args.long or is_for_programs(args) else LIST, rows)


class ServerGroupShow(ShowCommand):
    """Show a server group with its members and their hosts."""

    def add_arguments(self, parser: Any) -> None:
        _add_server_group(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        group = self.read(server_group_operations.show, args.server_group)
        return one_row(readable(group))


class ServerGroupCreate(ShowCommand):
    """Create a server group. Requests name it with the scheduler hint group."""

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("name", help="Name of the server group, which must be unique.")
        what = (
            "Policy of the server group: affinity puts the members on one host, anti-affinity"
            " puts them on different hosts; the soft policies do so as far as possible (default:"
            " affinity)."
        )
        parser.add_argument("--policy", choices=POLICIES, default=AFFINITY, help=what)
        what = f"Maximum number of members on one host, with {ANTI_AFFINITY} (default: 1)."
        parser.add_argument("--max-per-host", type=positive, metavar="N", help=what)
        check_combination(parser, _max_without_anti_affinity)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        arguments = (args.name, args.policy, args.max_per_host)
        return one_row(readable(self.write(server_group_operations.create, *arguments)))


class ServerGroupDelete(ListCommand):
    """Delete server groups, all or none of them, and list what was deleted."""

    def add_arguments(self, parser: Any) -> None:
        _add_server_group(parser, nargs="+")
        what = "Delete also server groups that have members. The members stay where they are."
        add_flag(parser, "--force", what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        arguments = (args.server_group, args.force)
        return list_rows(LIST, self.write(server_group_operations.delete, *arguments))


class _MembersCommand(ShowCommand):
    """A command that changes the members of a server group."""

    def add_arguments(self, parser: Any) -> None:
        _add_server_group(parser)
        add_named(parser, "instance", "uuids", "UUID of the instance.", nargs="+")


class ServerGroupAddInstance(_MembersCommand):
    """Add instances to a server group, all or none of them. The instances stay where they are.

    New instances become members by the scheduler hint group. This command is for instances that are
    older than the server group, or that were placed while [claims] enabled was false.
    """

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        what = "Add the instances even if their hosts violate the policy of the server group."
        add_flag(parser, "--force", what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        arguments = (args.server_group, args.instance, args.force)
        return one_row(readable(self.write(server_group_operations.add_instances, *arguments)))


class ServerGroupRemoveInstance(_MembersCommand):
    """Remove instances from a server group. The instances stay where they are."""

    def take_action(self, args: Any) -> tuple[Any, Any]:
        arguments = (args.server_group, args.instance)
        return one_row(readable(self.write(server_group_operations.remove_instances, *arguments)))


def _max_without_anti_affinity(args: Any) -> str | None:
    policy = args.policy
    if args.max_per_host is None or policy == ANTI_AFFINITY:
        return None
    return f"argument --max-per-host: is for the policy {ANTI_AFFINITY}, not for {policy}"


def _add_server_group(parser: Any, nargs: str | None = None) -> None:
    help_text = "Name or uuid of the server group."
    add_named(parser, "server_group", "server groups", help_text, nargs=nargs)
