# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for server groups. They work on the database, and each of them does all or nothing."""

from typing import Any

from cliff.lister import Lister
from cliff.show import ShowOne

from inventory import server_group_orders
from scheduler.cli.base import (
    checked_together,
    is_for_programs,
    positive,
    read,
    readable,
    shown,
    table,
    write,
)
from scheduler.objects.instance_group import APART, POLICIES, TOGETHER

LIST = {"id": "ID", "name": "Name", "policy": "Policy"}
LONG = {**LIST, "members": "Members"}


class ServerGroupList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the server groups."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="With their members.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        rows = [readable(row) for row in read(self.app, server_group_orders.listed)]
        return table(LONG if parsed_args.long or is_for_programs(parsed_args) else LIST, rows)


class ServerGroupShow(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show a server group with its members and the hosts that have any of them."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("server_group", help="Its name or uuid.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        found = read(self.app, server_group_orders.show, parsed_args.server_group)
        return shown(readable(found))


class ServerGroupCreate(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Create a server group. Requests name it with the hint group."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", help="A name that no other server group has.")
        parser.add_argument(
            "--policy",
            choices=POLICIES,
            default=TOGETHER,
            help="On one host or on several ones; soft means as far as possible (affinity).",
        )
        parser.add_argument(
            "--max-per-host",
            type=positive,
            metavar="N",
            help="With anti-affinity, how many members one host may have (1).",
        )
        checked_together(parser, _policy_without_most)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.name, parsed_args.policy, parsed_args.max_per_host)
        return shown(readable(write(self.app, server_group_orders.create, *asked)))


class ServerGroupDelete(Lister):  # type: ignore[misc]  # cliff has no types
    """Delete server groups, all or none of them, and list them."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("server_group", nargs="+", help="Its name or uuid.")
        parser.add_argument(
            "--force",
            action="store_true",
            help="Also those that have members: these stay where they are.",
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.server_group, parsed_args.force)
        return table(LIST, write(self.app, server_group_orders.delete, *asked))


class ServerGroupAddInstance(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Make instances members of a server group, all or none of them, wherever they are.

    New instances become members by the hint group of their requests. This is for those that were
    there before the group, or that were placed with [claims] enabled = false.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = _with_members(super().get_parser(prog_name))
        parser.add_argument(
            "--force", action="store_true", help="Also where the policy does not hold with them."
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.server_group, parsed_args.instance, parsed_args.force)
        return shown(readable(write(self.app, server_group_orders.add_instances, *asked)))


class ServerGroupRemoveInstance(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Let instances be members of a server group no more. They stay where they are."""

    def get_parser(self, prog_name: str) -> Any:
        return _with_members(super().get_parser(prog_name))

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.server_group, parsed_args.instance)
        return shown(readable(write(self.app, server_group_orders.remove_instances, *asked)))


def _policy_without_most(asked: Any) -> str | None:
    if asked.max_per_host is None or asked.policy == APART:
        return None
    return f"argument --max-per-host: is for the policy {APART}, not for {asked.policy}"


def _with_members(parser: Any) -> Any:
    parser.add_argument("server_group", help="Its name or uuid.")
    parser.add_argument("instance", nargs="+", help="Uuid of an instance.")
    return parser
