# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that has a host started, rebooted or shut down by its agent."""

from typing import Any

from cliff.show import ShowOne

from scheduler.cli.base import add_reaching_agent, ask_agent, shown


class HostPower(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Start, reboot or shut down a host through its agent; its guests are not moved away before.

    It is done only where [compute_agent] allow_host_power_actions is set for the agent and the
    agent's driver has a way to do it. The libvirt driver has none.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", help="Name of the host, as host list shows it.")
        parser.add_argument("action", choices=["startup", "reboot", "shutdown"])
        add_reaching_agent(parser)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return shown(
            ask_agent(
                self.app,
                parsed_args.agent or parsed_args.host,
                "host_power_action",
                parsed_args.timeout,
                host=parsed_args.host,
                action=parsed_args.action,
            )
        )
