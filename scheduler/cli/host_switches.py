# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that keep new instances from a host, or let it have them. They work without its agent.

A host is disabled by an operator or, where its hypervisor fails, by its own agent, and enabled by
either. Maintenance is a switch beside that, which operators alone turn.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from cliff.show import ShowOne

from inventory import operations
from scheduler.cli.base import add_reason, shown, write


class _Switch(ShowOne):  # type: ignore[misc]  # cliff has no types
    """One order for one host."""

    order: ClassVar[Callable[..., dict[str, Any]]]
    takes_reason: ClassVar[bool] = False

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", help="Name of the host, as host list shows it.")
        if self.takes_reason:
            add_reason(parser)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        reasons = [parsed_args.reason] if self.takes_reason else []
        return shown(write(self.app, type(self).order, parsed_args.host, *reasons))


class HostEnable(_Switch):
    """Let a host have new instances again. The reason for which it was disabled is cleared."""

    order = operations.enable


class HostDisable(_Switch):
    """Let a host have no new instances until it is enabled. Those it has stay."""

    order = operations.disable
    takes_reason = True


class HostMaintenanceOn(_Switch):
    """Let a host have no new instances while somebody works on it. Its agent goes on reporting."""

    order = operations.begin_maintenance
    takes_reason = True


class HostMaintenanceOff(_Switch):
    """End the maintenance of a host. A host that is disabled as well stays disabled."""

    order = operations.end_maintenance
