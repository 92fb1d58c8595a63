# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for aggregates. They work on the database, and each of them does all or nothing."""

from collections.abc import Callable, Mapping
from typing import Any

from inventory import aggregates
from inventory.aggregates import ZONE
from inventory.errors import Malformed
from inventory.objects.aggregate import Aggregate
from inventory.operations import aggregate_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from scheduler.hosts import aggregate_metadata
from scheduler.operators.cli.arguments import (
    add_flag,
    add_named,
    add_repeatable,
    check_combination,
    key_value,
)
from scheduler.operators.cli.base import (
    ListCommand,
    ShowCommand,
    is_for_programs,
    list_rows,
    one_row,
    readable,
)
from scheduler.operators.cli.many_hosts import add_hosts, are_several, hosts_of

LIST = {"id": "ID", "name": "Name", ZONE: "Availability Zone"}
LONG = {**LIST, "properties": "Properties", "hosts": "Hosts"}
FULL = {**LONG, "uuid": "UUID"}
FILTER_KEYS: dict[str, Callable[[str], float]] = {
    "cpu_allocation_ratio": float,
    "disk_allocation_ratio": float,
    "ram_allocation_ratio": float,
    "max_instances_per_host": int,
    "max_io_ops_per_host": int,
}
# The end of the keys of all weighers.
WEIGHER_KEYS = "_weight_multiplier"


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise Malformed for a value of a numeric property that schedulers cannot use."""
    for key, text in properties.items():
        cast = float if key.endswith(WEIGHER_KEYS) else FILTER_KEYS.get(key)
        if cast and not _is_read(key, text, cast):
            kind = "a whole number" if cast is int else "a number"
            raise Malformed(key, f"{text!r} is not {kind}: schedulers would ignore it")
        # Multipliers may be negative: the weigher then prefers the other end.
        if key in FILTER_KEYS and float(text) < 0:
            raise Malformed(key, f"{text!r} is less than 0: no host would take any instance")


def _is_read(key: str, text: str, cast: Callable[[str], float]) -> bool:
    warnings: list[str] = []
    aggregate = Aggregate(metadata={key: text})
    aggregate_metadata.smallest([aggregate], key, 0.0, warnings.append, cast)
    return not warnings


class AggregateList(ListCommand):
    """List the aggregates."""

    titles = FULL
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        add_flag(parser, "--long", "Show the properties and hosts of the aggregates.")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        titles = LONG if args.long else LIST
        rows = self.read(lambda connection: aggregates.listed(aggregates.everything(connection)))
        return list_rows(FULL if is_for_programs(args) else titles, map(readable, rows))


class AggregateShow(ShowCommand):
    """Show an aggregate with its hosts and properties."""

    def add_arguments(self, parser: Any) -> None:
        _add_aggregate(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return one_row(readable(self.read(aggregates.show, args.aggregate)))


class AggregateCreate(ShowCommand):
    """Create an aggregate without hosts."""

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("name", help="Name of the aggregate, which must be unique.")
        _add_properties(parser)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        created = self.write(aggregate_operations.create, args.name, _properties(args))
        return one_row(readable(created))


class AggregateDelete(ListCommand):
    """Delete aggregates that have no hosts, all or none of them, and list what was deleted."""

    def add_arguments(self, parser: Any) -> None:
        _add_aggregate(parser, nargs="+")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        rows = self.write(aggregate_operations.delete, args.aggregate)
        return list_rows(LIST, rows)


class _AggregateChange(ShowCommand):
    """A command that may change the availability zone of the hosts of an aggregate."""

    def add_arguments(self, parser: Any) -> None:
        _add_aggregate(parser)
        what = "Change the availability zone of hosts even if they have instances."
        add_flag(parser, "--with-instances", what)

    def apply(self, args: Any, operation: Callable[..., Any], change: Any) -> tuple[Any, Any]:
        """Return the aggregate after an operation, as ShowOne expects it."""
        zones = ZoneRules(self.default_zone, args.with_instances)
        return one_row(readable(self.write(operation, args.aggregate, change, zones)))


class AggregateSet(_AggregateChange):
    """Set the name, the availability zone or properties of an aggregate."""

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument("--name", help="New name of the aggregate, which must be unique.")
        _add_properties(parser)
        what = "Remove all properties that this command does not name. The availability zone stays."
        add_flag(parser, "--no-property", what)
        check_combination(parser, _nothing_to_set)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        change = Change(args.name, _properties(args), without_others=args.no_property)
        return self.apply(args, aggregate_operations.change, change)


class AggregateUnset(_AggregateChange):
    """Remove properties of an aggregate, such as availability_zone, which is its zone."""

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        what = "Key of a property to remove"
        add_repeatable(parser, "--property", required=True, metavar="KEY", what=what)

    def take_action(self, args: Any) -> tuple[Any, Any]:
        change = Change(without=args.property)
        return self.apply(args, aggregate_operations.change, change)


class _HostsChange(_AggregateChange):
    def apply_to_hosts(
        self, args: Any, operation: Callable[..., Any], counter: str
    ) -> tuple[Any, Any]:
        """Return the aggregate after an operation, for several hosts with their number."""
        hosts = hosts_of(self, args)
        titles, values = self.apply(args, operation, hosts)
        if not are_several(args):
            return titles, values
        # As operations tell them apart.
        number = len({name.strip().casefold() for name in hosts})
        return [*titles, counter], [*values, number]


class AggregateAddHost(_HostsChange):
    """Add hosts to an aggregate, all or none of them. A host can be in one zone only."""

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        add_hosts(parser, shown_by="service list")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return self.apply_to_hosts(args, aggregate_operations.add_hosts, "hosts_added")


class AggregateRemoveHost(_HostsChange):
    """Remove hosts from an aggregate, all or none of them."""

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        add_hosts(parser, shown_by="aggregate show")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return self.apply_to_hosts(args, aggregate_operations.remove_hosts, "hosts_removed")


def _add_aggregate(parser: Any, nargs: str | None = None) -> None:
    add_named(parser, "aggregate", "aggregates", "Name, id or uuid of the aggregate.", nargs=nargs)


def _add_properties(parser: Any) -> None:
    add_named(parser, "--zone", "zones", "Availability zone of the hosts of the aggregate.")
    what = "Property for filters and weighers to read"
    add_repeatable(parser, "--property", type=key_value, metavar="KEY=VALUE", what=what)


def _properties(args: Any) -> dict[str, str]:
    """Return the given properties, the availability zone among them."""
    zone = [] if args.zone is None else [(ZONE, args.zone)]
    found: dict[str, str] = {}
    for key, value in [*args.property, *zone]:
        name, new = key.strip(), value.strip()
        if found.setdefault(name, new) != new:
            raise Malformed(name, f"has two values, {found[name]!r} and {new!r}")
    check_properties(found)
    return found


def _nothing_to_set(args: Any) -> str | None:
    named = args.name is not None or args.zone is not None
    if named or args.property or args.no_property:
        return None
    return "nothing to set: give --name, --zone, --property or --no-property"
