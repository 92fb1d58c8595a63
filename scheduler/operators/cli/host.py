# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for hosts: list, describe, show, enable, disable, maintenance, power."""

import argparse
from collections.abc import Callable
from typing import Any, ClassVar

import sqlalchemy as sa

from inventory import audit_log
from inventory.audit_log import Changed
from inventory.errors import OperationRefused, nearest
from inventory.operations import service_operations
from inventory.promises import facts_text
from inventory.queries import fleet, host_queries
from scheduler.operators.cli.arguments import (
    add_agent,
    add_flag,
    add_host,
    add_long,
    add_named,
    add_reason,
    complete_words,
)
from scheduler.operators.cli.base import ListCommand, ShowCommand, list_rows, one_row, titles_for
from scheduler.operators.cli.many_hosts import HostsCommand, add_hosts
from scheduler.operators.cli.table_format import Worded, titled
from scheduler.wire.errors import SchedulerFailure

LIST = titled(
    "host node zone status state vcpus_used vcpus vcpus_percent free_ram_mb memory_mb"
    " memory_percent free_disk_gb local_gb disk_percent running_vms disabled_reason off_since"
    " off_by last_seen_up",
    free_ram_mb="Memory MB Free",
    free_disk_gb="Disk GB Free",
    local_gb="Disk GB",
    running_vms="Instances",
    last_seen_up="Last Seen",
)
# What fits in 80 characters.
FEW = ("host", "zone", "state", "vcpus_percent", "memory_percent", "disk_percent")
DESCRIPTION = {
    "host": "HOST",
    "project": "PROJECT",
    "cpu": "cpu",
    "memory_mb": "memory_mb",
    "disk_gb": "disk_gb",
}


ROOM = (
    *("free", "used_by_instances", "used_by_other_files", "held_for_standbys"),
    *("standbys_by_domain", "held_for_reservations", "reservations"),
)
# What people see of a host, in the groups of its status page.
SHOWN = (
    *("host", "hypervisor_hostname", "state", "status", "disabled_reason"),
    *("disabled_since", "disabled_by", "forced_down_since", "forced_down_by", "last_seen_up"),
    *ROOM,
    *("vcpus", "vcpus_used", "cpu_allocation_ratio"),
    *("memory_mb", "memory_mb_used", "free_ram_mb", "ram_allocation_ratio"),
    *("local_gb", "local_gb_used", "free_disk_gb", "disk_allocation_ratio"),
    *("running_vms", "hypervisor_type", "hypervisor_version", "host_ip", "updated_at"),
)


def _room(value: Any) -> str:
    """Return the words of amounts, or of several with what they are for."""
    if isinstance(value, list):
        value = {f"{each['name']} of project {each['project']}": each for each in value}
    if isinstance(value.get("vcpus"), int):
        return facts_text(value)
    return "; ".join(f"{name}: {_room(each)}" for name, each in value.items())


class HostList(ListCommand):
    """List the hosts with their capacity, their usage and what is free.

    Percentages are of what may be allocated, overcommit included. The state of a host is up,
    disabled, maintenance, down, forced_down, or unserved, which means that it has no compute
    service; where several of these are true, the last in this order is shown. With --long the list
    also says since when, and by whom, a host is forced down, disabled or in maintenance, as far as
    the audit log has the change.
    """

    titles = LIST
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_named(parser, "--zone", "zones", "Availability zone of the hosts to list.")
        what = "Name, id or uuid of the aggregate of the hosts to list."
        add_named(parser, "--aggregate", "aggregates", what)
        what = f"States of the hosts to list, of {', '.join(fleet.STATES)}."
        states = parser.add_argument(
            "--state", type=_states, default=fleet.STATES, metavar="STATE[,STATE...]", help=what
        )
        complete_words(states, fleet.STATES)
        add_long(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        default, zone = self.default_zone, args.zone
        titles = titles_for(args, FEW, LIST)
        # The audit log is long: only who looks at these columns waits for it.
        wanted = (zone, args.aggregate, args.state, "off_by" in titles)

        def found(connection: sa.Connection) -> list[dict[str, Any]]:
            if zone is not None:
                host_queries.check_zone(connection, zone, default)
            return host_queries.listed(connection, self.liveness_limit, default, *wanted)

        rows = self.read(found)
        for each in rows:
            for fact in ("since", "by"):
                off = each.get(f"forced_down_{fact}") or each.get(f"disabled_{fact}")
                each[f"off_{fact}"] = off
        return list_rows(titles, rows)


def _states(text: str) -> set[str]:
    """Return the states of a list; raise ArgumentTypeError, with similar names, for another."""
    found = {each.strip() for each in text.split(",")}
    for name in sorted(found - {*fleet.STATES}):
        hint = nearest(name, fleet.STATES, f"states are {', '.join(fleet.STATES)}")
        raise argparse.ArgumentTypeError(f"there is no state {name!r}; {hint}")
    return found


class HostDescribe(ListCommand):
    """Show the capacity of a host, its usage, and the usage of its instances by project.

    The row (used_now) includes what is reserved for the host itself. The row (used_max) and the
    rows of projects count all instances, whatever the state of an instance is.
    """

    def add_arguments(self, parser: Any) -> None:
        add_host(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return list_rows(DESCRIPTION, self.read(host_queries.describe, args.host))


class HostShow(ShowCommand):
    """Show the state of a host, who has the room of its node, and the node's resources.

    What instances use includes what is reserved for the host itself. Other files are files on the
    file system of the host that belong to no instance. What is held for standbys is, for each
    resource, the largest sum that the loss of any one failure domain would bring to the host. What
    is free is a part of what may be allocated, overcommit included. The audit log tells since when,
    and by whom, the host is disabled, in maintenance or forced down.
    """

    def add_arguments(self, parser: Any) -> None:
        add_host(parser)
        add_named(parser, "--node", "hypervisors", "Node to show, if the host has several nodes.")
        what = "Show all columns of the node; formats other than the table always have all columns."
        add_flag(parser, "--all", what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        node = self.read(host_queries.show, args.host, self.liveness_limit, args.node)
        node |= {name: Worded(node[name], _room) for name in ROOM}
        shown = {name: node.pop(name) for name in SHOWN}
        if args.all or args.columns or args.formatter != "table":
            shown |= sorted(node.items())
        return one_row(shown)


class _HostOperation(HostsCommand):
    """A command that changes hosts in the database, all or none of them."""

    operation: ClassVar[Callable[..., list[dict[str, Any]]]]
    takes_reason: ClassVar[bool] = False

    def add_arguments(self, parser: Any) -> None:
        add_hosts(parser)
        if self.takes_reason:
            add_reason(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        reasons = [args.reason] if self.takes_reason else []
        hosts = self.take_hosts(args)
        return self.show(args, self.write(type(self).operation, hosts, *reasons))


class HostEnable(_HostOperation):
    """Enable hosts for new instances again, and clear the reasons for which they were disabled."""

    operation = service_operations.enable


class HostDisable(_HostOperation):
    """Disable hosts: they get no new instances until they are enabled. Their instances stay."""

    operation = service_operations.disable
    takes_reason = True


class HostMaintenanceOn(_HostOperation):
    """Begin the maintenance of hosts: they get no new instances. Their agents go on reporting."""

    operation = service_operations.begin_maintenance
    takes_reason = True


class HostMaintenanceOff(_HostOperation):
    """End the maintenance of hosts. A host that is also disabled stays disabled."""

    operation = service_operations.end_maintenance


class HostPower(HostsCommand):
    """Start, reboot or shut down hosts through their agents. Guests are not moved away before.

    The agents need [compute_agent] allow_host_power_actions, and a driver that can start, reboot or
    shut down a host; the libvirt driver cannot. Several hosts are asked one after the other, up to
    the first failure.
    """

    def add_arguments(self, parser: Any) -> None:
        add_hosts(parser)
        actions = ["startup", "reboot", "shutdown"]
        parser.add_argument("action", choices=actions, help="Action for the hosts.")
        add_agent(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        hosts = self.take_hosts(args)
        done: list[dict[str, Any]] = []
        self.app.name_cloud()
        for number, host in enumerate(hosts, start=1):
            about = {"host": host, "action": args.action}
            try:
                done.append(self.call_agent(args, host, "host_power_action", **about))
            except (SchedulerFailure, OperationRefused) as error:
                if len(hosts) == 1:
                    raise
                before = ", ".join(hosts[: number - 1]) or "no host"
                after = ", ".join(hosts[number:]) or "no other"
                raise OperationRefused(
                    f"{host}: {error}; hosts done before: {before}; hosts not asked: {after}"
                ) from error
            change = Changed(audit_log.HOST, host, {}, {"power_action": args.action}, [host])
            # The agent has no transaction for it.
            self.write(audit_log.record, [change])
        return self.show(args, done)
