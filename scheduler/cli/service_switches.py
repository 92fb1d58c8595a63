# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that switch services on and off and delete them. They work without any agent."""

from typing import Any

from cliff.show import ShowOne

from inventory import operations
from scheduler.cli.base import add_compute_service, add_reason, limit_of, shown, write


class ServiceEnable(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Let a compute service have new instances again. Its reason is cleared."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_compute_service(parser)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.host, parsed_args.binary)
        return shown(write(self.app, operations.enable, *asked))


class ServiceDisable(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Let a compute service have no new instances until it is enabled. Those it has stay."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_compute_service(parser)
        add_reason(parser)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.host, parsed_args.reason, parsed_args.binary)
        return shown(write(self.app, operations.disable, *asked))


class ServiceForceDown(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Count a compute service as down whatever its heartbeat says, as after fencing its host."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_compute_service(parser)
        parser.add_argument("--unset", action="store_true", help="Go by its heartbeat again.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.host, not parsed_args.unset, parsed_args.binary)
        return shown(write(self.app, operations.force_down, *asked))


class ServiceDelete(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Delete a service that has ended for good; with a compute service, its host as well.

    The compute nodes of the host go and it leaves its aggregates. That is refused while the service
    is alive, and while there are instances on the host or migrations under way.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_compute_service(parser)
        parser.add_argument(
            "--forget-guests",
            action="store_true",
            help="For a host that is lost: forget the guests that its agent saw last. Instances"
            " that others manage are not forgotten.",
        )
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (
            parsed_args.host,
            limit_of(self.app),
            parsed_args.binary,
            parsed_args.forget_guests,
        )
        return shown(write(self.app, operations.delete, *asked))
