# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for aggregates. They work on the database, and each of them does all or nothing."""

from typing import Any

import sqlalchemy as sa
from cliff.lister import Lister
from cliff.show import ShowOne

from inventory import aggregate_orders, aggregates
from inventory.aggregate_orders import Change
from inventory.aggregates import ZONE
from inventory.refusals import Malformed
from inventory.zone_changes import Zones
from scheduler.cli import aggregate_numbers
from scheduler.cli.base import (
    checked_together,
    conf_of,
    is_for_programs,
    pair,
    read,
    readable,
    shown,
    table,
    write,
)

LIST = {"id": "ID", "name": "Name", ZONE: "Availability Zone"}
LONG = {**LIST, "properties": "Properties", "hosts": "Hosts"}
FULL = {**LONG, "uuid": "UUID"}


class AggregateList(Lister):  # type: ignore[misc]  # cliff has no types
    """List the aggregates."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="With properties and hosts.")
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        titles = LONG if parsed_args.long else LIST
        rows = [readable(row) for row in read(self.app, _all)]
        return table(FULL if is_for_programs(parsed_args) else titles, rows)


class AggregateShow(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Show an aggregate with its hosts and properties."""

    def get_parser(self, prog_name: str) -> Any:
        return _with_aggregate(super().get_parser(prog_name))

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return shown(readable(read(self.app, aggregates.show, parsed_args.aggregate)))


class AggregateCreate(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Create an aggregate without hosts."""

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", help="A name that no other aggregate has.")
        parser.add_argument("--zone", help="The availability zone that its hosts will be in.")
        _add_property(parser)
        return parser

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.name, _properties(parsed_args))
        return shown(readable(write(self.app, aggregate_orders.create, *asked)))


class AggregateDelete(Lister):  # type: ignore[misc]  # cliff has no types
    """Delete aggregates that have no hosts, all or none of them, and list them."""

    def get_parser(self, prog_name: str) -> Any:
        return _with_aggregate(super().get_parser(prog_name), nargs="+")

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        return table(LIST, write(self.app, aggregate_orders.delete, parsed_args.aggregate))


class AggregateSet(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Give an aggregate another name, another availability zone or properties."""

    def get_parser(self, prog_name: str) -> Any:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument("--name", help="A name that no other aggregate has.")
        parser.add_argument("--zone", help="The availability zone that its hosts are to be in.")
        _add_property(parser)
        parser.add_argument(
            "--no-property",
            action="store_true",
            help="Take away all properties that are not given here; the zone stays.",
        )
        checked_together(parser, _nothing_to_set)
        return _with_instances(parser)

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        properties, without = _properties(parsed_args), parsed_args.no_property
        change = Change(parsed_args.name, properties, without_others=without)
        asked = (parsed_args.aggregate, change, _zones(self.app, parsed_args))
        return shown(readable(write(self.app, aggregate_orders.change, *asked)))


class AggregateUnset(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Take properties away from an aggregate; its zone is the property availability_zone."""

    def get_parser(self, prog_name: str) -> Any:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument(
            "--property", action="append", required=True, metavar="KEY", help="May be repeated."
        )
        return _with_instances(parser)

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        change = Change(without=parsed_args.property)
        asked = (parsed_args.aggregate, change, _zones(self.app, parsed_args))
        return shown(readable(write(self.app, aggregate_orders.change, *asked)))


class AggregateAddHost(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Add a host to an aggregate. It may be in several, but only in one availability zone."""

    def get_parser(self, prog_name: str) -> Any:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument("host", help="Name of the host, as service list shows it.")
        return _with_instances(parser)

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.aggregate, parsed_args.host, _zones(self.app, parsed_args))
        return shown(readable(write(self.app, aggregate_orders.add_host, *asked)))


class AggregateRemoveHost(ShowOne):  # type: ignore[misc]  # cliff has no types
    """Remove a host from an aggregate."""

    def get_parser(self, prog_name: str) -> Any:
        parser = _with_aggregate(super().get_parser(prog_name))
        parser.add_argument("host", help="Name of the host, as aggregate show has it.")
        return _with_instances(parser)

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        asked = (parsed_args.aggregate, parsed_args.host, _zones(self.app, parsed_args))
        return shown(readable(write(self.app, aggregate_orders.remove_host, *asked)))


def _all(connection: sa.Connection) -> list[dict[str, Any]]:
    return aggregates.listed(aggregates.everything(connection))


def _with_aggregate(parser: Any, nargs: str | None = None) -> Any:
    parser.add_argument("aggregate", nargs=nargs, help="Its name, id or uuid.")
    return parser


def _add_property(parser: Any) -> None:
    parser.add_argument(
        "--property",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="What filters and weighers read of its hosts; may be repeated.",
    )


def _with_instances(parser: Any) -> Any:
    parser.add_argument(
        "--with-instances",
        action="store_true",
        help="Change the availability zone of hosts also where there are instances on them.",
    )
    return parser


def _properties(parsed_args: Any) -> dict[str, str]:
    """Return the properties that were given, the zone among them."""
    zone = [] if parsed_args.zone is None else [(ZONE, parsed_args.zone)]
    found: dict[str, str] = {}
    for key, value in [*parsed_args.property, *zone]:
        name, new = key.strip(), value.strip()
        if found.setdefault(name, new) != new:
            raise Malformed(name, f"is said to be {found[name]!r} and {new!r}")
    aggregate_numbers.check(found)
    return found


def _nothing_to_set(asked: Any) -> str | None:
    named = asked.name is not None or asked.zone is not None
    given = named or asked.property or asked.no_property
    return None if given else "give what to set: --name, --zone, --property or --no-property"


def _zones(app: Any, parsed_args: Any) -> Zones:
    return Zones(conf_of(app).default_availability_zone, parsed_args.with_instances)
