# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Commands for reservations. They work on the database, and each of them does all or nothing."""

import argparse
from dataclasses import replace
from typing import Any

from inventory import aggregates, reservations
from inventory.errors import OperationRefused, counted, some
from inventory.objects.amounts import amounts_of
from inventory.operations import reservation_operations
from inventory.operations.reservation_operations import NewReservation
from inventory.promises import facts_text
from inventory.queries import host_queries
from scheduler.analysis.explain import Extent
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.cli.arguments import check_combination, complete, positive, time_ahead
from scheduler.operators.cli.base import ListCommand, ReportCommand, Table, list_rows, titles_for
from scheduler.operators.cli.format_decision import format_result
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.request_arguments import (
    add_request,
    destination,
    format_flavor,
    request_spec,
)
from scheduler.operators.cli.terminal import progress
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.reserving import SPREADS, NoRoom, check_plain, reserve
from scheduler.wire.to_json import json_value

COLUMNS = {
    "id": "ID",
    "name": "Name",
    "project": "Project",
    "state": "State",
    "number": "Places",
    "free": "Free",
    "taken": "Taken",
    "taken_by_others": "Taken By Others",
    "flavor": "Flavor",
    "vcpus": "vCPUs",
    "memory_mb": "Memory MB",
    "disk_mb": "Disk MB",
    "availability_zone": "Zone",
    "spread": "Spread",
    "failover": "Failover",
    "from": "From",
    "until": "Until",
    "created_at": "Created At",
}
# What fits in 100 characters.
FEW = ("name", "project", "state", "number", "free", "taken", "until")
PLACES = {
    "id": "Place",
    "host": "Host",
    "node": "Node",
    "state": "State",
    "taken_by": "Taken By",
    "after": "After",
}
# Of a reservation with standbys.
PROTECTED = PLACES | {"standby": "Standby"}


class ReservationList(ListCommand):
    """List the reservations, and how many of their places are free, and how many are taken."""

    titles = COLUMNS
    is_watchable = True

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--long", action="store_true", help="Show all columns.")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        return list_rows(titles_for(args, FEW, COLUMNS), self.read(reservations.listed))


class ReservationShow(ReportCommand):
    """Show a reservation with its places, their hosts, and the instances that have taken them."""

    def add_arguments(self, parser: Any) -> None:
        _add_reservation(parser)

    def take_action(self, args: Any) -> None:
        found = self.read(reservations.show, args.reservation)
        self.report(args, _sections(found), found)


class ReservationCreate(ReportCommand):
    """Hold room for instances of a project until they come: all places, or none.

    The hosts are chosen as schedulers choose them for instances, by their configuration. An
    instance of the project that fits into a place takes it, whatever its flavor is; when the
    instance ends, the place is held again. Room is held against all other requests to the
    schedulers, but not against Nova's own scheduler. With --from, the project gets its places at
    that time: it takes over free places of reservations that end until then, and free room is held
    from now on for the remaining places; with --failover, free room is held for all places. If
    there is no room for all places and their standbys, nothing is held, and the exit status is 1.
    """

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("name", help="Name of the reservation, which must be unique.")
        add_request(parser)
        parser.add_argument(
            "--number", type=positive, default=1, metavar="N", help="Number of places (default: 1)."
        )
        parser.add_argument(
            "--spread",
            choices=SPREADS,
            help="Hold each place on another host, or in another failure domain (default: as the"
            " schedulers choose).",
        )
        parser.add_argument(
            "--failover",
            action="store_true",
            help="Hold a standby for each place, in another failure domain, to which the place"
            " moves with its instance when its host is lost (default: no standbys).",
        )
        _add_time(parser, "--from", "Start of the reservation (default: now)", dest="starts_at")
        _add_time(
            parser, "--until", "End of the reservation (default: when the reservation is deleted)"
        )
        check_combination(parser, _problem)

    def take_action(self, args: Any) -> int:
        with live_hosts(self.app) as live:
            spec = self._spec(live, args)
            new = NewReservation(
                name=args.name,
                project_id=args.project,
                size=amounts_of(spec),
                flavor_name=spec.flavor.name,
                availability_zone=args.availability_zone,
                spread=args.spread,
                ends_at=args.until,
                starts_at=args.starts_at,
                failover=args.failover,
            )
            try:
                with progress(self.app, "choosing the hosts"):
                    uuid = reserve(live, new, spec, args.number)
            except NoRoom as error:
                self._refuse(args, spec, error)
            found = live.database.read(lambda each: reservations.show(each, uuid))
        self.report(args, _sections(found), found)
        return 0

    def _spec(self, live: LiveHosts, args: Any) -> RequestSpec:
        """Return the request for one place; raise NotFound and Malformed."""
        records = live.database.read(aggregates.everything)
        zone = args.availability_zone
        if zone is not None:
            live.database.read(lambda c: host_queries.check_zone(c, zone, self.default_zone))
        where = destination(args, records)
        spec = request_spec(args, args.flavor[0], requested_destination=where)
        check_plain(spec)
        return replace(spec, num_instances=args.number)

    def _refuse(self, args: Any, spec: RequestSpec, error: NoRoom) -> None:
        """Raise OperationRefused with the reasons, and with what may be done about them."""
        if error.reason is not None:
            raise OperationRefused(
                f"nothing is reserved: {error}. {error.reason}\n"
                "Without --failover the places would be reserved, with no standbys"
            ) from None
        explanation = json_value(error.rehearsal.explain(Extent(most=1)))
        why = "For another place, " + format_result(explanation)[0]
        size = format_flavor(spec.flavor)
        raise OperationRefused(
            f"nothing is reserved: {error}. {why}\n'berthmaster capacity --flavor {size}' shows"
            f" the reasons of each host, 'berthmaster plan make-room --flavor {size} --number"
            f" {args.number}' shows moves that would make room"
        ) from None


class ReservationExtend(ReportCommand):
    """Let a reservation end later."""

    def add_arguments(self, parser: Any) -> None:
        _add_reservation(parser)
        _add_time(parser, "--until", "New end of the reservation", required=True)

    def take_action(self, args: Any) -> None:
        self.write(reservation_operations.extend, args.reservation, args.until)
        found = self.read(reservations.show, args.reservation)
        self.report(args, _sections(found), found)


class ReservationDelete(ListCommand):
    """Delete reservations, all or none of them, and list what was deleted.

    Free places are given back at once. Instances in taken places stay where they are.
    """

    def add_arguments(self, parser: Any) -> None:
        _add_reservation(parser, nargs="+")
        parser.add_argument("--long", action="store_true", help="Show all columns.")

    def take_action(self, args: Any) -> tuple[Any, Any]:
        gone = self.write(reservation_operations.delete, args.reservation)
        return list_rows(titles_for(args, FEW, COLUMNS), gone)


def _sections(found: dict[str, Any]) -> list[str | Table]:
    places = found["places"]
    zone = f" in zone {found['availability_zone']}" if found["availability_zone"] else ""
    spread = f", each on another {found['spread']}" if found["spread"] else ""
    start = f"from {found['from']} UTC " if found["from"] else ""
    until = (
        f"{start}until {found['until']} UTC" if found["until"] else f"{start}until it is deleted"
    )
    flavor = f" ({found['flavor']})" if found["flavor"] else ""
    lines = [
        f"Reservation {found['name']} of project {found['project']}, {until}",
        f"{counted(found['number'], 'place')} of {facts_text(found)}{flavor}{zone}{spread}"
        f"{', each with a standby' if found['failover'] else ''}:"
        f" {found['free']} free, {found['taken']} taken",
    ]
    if found["state"] == reservations.ENDED:
        lines.append("The reservation has ended, and holds nothing")
    elif len(places) < found["number"]:
        one, several = "place was lost with its node", "places were lost with their nodes"
        lines.append(counted(found["number"] - len(places), one, several))
    if others := [each["taken_by"] for each in places if each["by_other_project"]]:
        have = counted(len(others), "place has", "places have")
        lines.append(
            f"{have} an instance of another project, which came before the place was held, and has"
            f" to end or to move: {some(others)}"
        )
    if without := [each["reason"] for each in places if each["reason"]]:
        have = counted(len(without), "place has", "places have")
        lines.append(f"{have} no standby: {some(sorted({*without}))}")
    titles = PROTECTED if found["failover"] else PLACES
    rows = [[each[key] or "" for key in titles] for each in places]
    return [*lines, Table("", tuple(titles.values()), rows)]


def _problem(args: argparse.Namespace) -> str | None:
    if not args.flavor:
        return "the following arguments are required: --flavor, or --vcpus and others"
    if len(args.flavor) > 1:
        return "argument --flavor: a reservation is for one flavor"
    return None if args.project else "the following arguments are required: --project"


def _add_time(parser: Any, option: str, what: str, **settings: Any) -> None:
    help_text = f"{what}: a time in UTC, such as 2026-12-24 or 2026-12-24T18:00, or a time from now"
    parser.add_argument(
        option,
        type=time_ahead,
        metavar="TIME",
        help=f"{help_text}, such as 12h, 30d or 4w.",
        **settings,
    )


def _add_reservation(parser: Any, nargs: str | None = None) -> None:
    help_text = "Name or uuid of the reservation."
    complete(parser.add_argument("reservation", nargs=nargs, help=help_text), "reservations")
