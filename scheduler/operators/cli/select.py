# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that asks a scheduler for hosts, as a conductor does."""

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

from conf.plain_text import escaped
from inventory.errors import NotFound, OperationRefused, counted
from scheduler.objects.request_spec import Destination, RequestSpec
from scheduler.objects.selection import Selection
from scheduler.operators.cli.arguments import (
    add_flag,
    add_limit,
    add_long,
    add_repeatable,
    add_timeout,
    check_combination,
    complete,
    positive,
)
from scheduler.operators.cli.base import ListCommand, Table, list_rows, readable, titles_for
from scheduler.operators.cli.format_decision import (
    MAX_HOSTS,
    format_explanation,
    format_result,
    placements_table,
    selection_limits,
)
from scheduler.operators.cli.request_arguments import (
    add_request,
    destination,
    request_spec,
    usual_flavor,
)
from scheduler.operators.cli.table_format import titled
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from scheduler.wire.request_schema import MAX_INSTANCES

A_SCHEDULER = "a scheduler"
# The most near misses of a kind to show.
MAX_NEAR_MISSES = 5
COLUMNS = titled("instance host node zone limits alternates", zone="Availability Zone")
FEW = ("instance", "host", "zone")


class Select(ListCommand):
    """Ask a scheduler for hosts for new instances, and show its answer.

    The scheduler claims resources for the instances, as for any caller, and allocates the resources
    in Placement if it is configured to do so. All resources are given back at once, since no
    instance is built. With --dry-run, nothing is claimed, and the decision is explained.
    """

    titles = COLUMNS

    def add_arguments(self, parser: Any) -> None:
        where = add_request(parser)
        for option, what in (
            ("--ignore-host", "Host to exclude"),
            ("--force-host", "Host to use, without asking the filters"),
        ):
            complete(add_repeatable(where, option, metavar="HOST", what=what), "hosts")
        number = partial(positive, most=MAX_INSTANCES)
        what = f"Number of instances, {MAX_INSTANCES} at most (default: 1)."
        parser.add_argument("--num-instances", type=number, default=1, metavar="N", help=what)
        _add_modes(parser)

    def run(self, args: Any) -> int:
        """Show the answer as a list, or a dry run as a report."""
        return self._dry_run(args) if args.dry_run else int(super().run(args))

    def _dry_run(self, args: Any) -> int:
        from scheduler.client.scheduler_client import MAX_EXPLAINED, SchedulerClient
        from scheduler.wire.arguments import SelectArguments

        spec, uuids = self._request(args)
        arguments = SelectArguments(spec, [*uuids], True, args.alternates)
        most = MAX_EXPLAINED if args.formatter == "json" else args.limit

        extent = {"most": most, "near": MAX_NEAR_MISSES}
        client, timeout = SchedulerClient(self.conf), args.timeout

        def call() -> dict[str, Any]:
            return client.explain_destinations(_caller(args), arguments, timeout, **extent)

        found = self.wait_for(A_SCHEDULER, timeout, client, call)
        decision, explanation = found["decision"], found["explanation"]
        title = "Where the instances would go; nothing is claimed"
        sections: list[str | Table] = [
            *format_result(explanation),
            placements_table(title, decision["placements"]),
            *format_explanation(explanation, args.limit),
        ]
        self.report(args, sections, found)
        if decision["shortage"]:
            # What a tenant would see.
            raise self._refused(args, NoValidHost(decision["shortage"]["reason"]))
        return 0

    def take_action(self, args: Any) -> tuple[Any, Any]:
        from scheduler.client.scheduler_client import SchedulerClient

        caller, (spec, uuids) = _caller(args), self._request(args)

        self.app.name_cloud()
        client, options = SchedulerClient(self.conf), (args.alternates, args.timeout)

        def call() -> list[list[Selection]]:
            return client.select_destinations(caller, spec, uuids, *options)

        try:
            destinations = self.wait_for(A_SCHEDULER, args.timeout, client, call)
        except NoValidHost as refused:
            hint = f"'berthmaster explain {caller.request_id}' says why"
            kept = [hint] if self.conf.decisions.keep else []
            raise self._refused(args, refused, kept) from None
        if not args.keep:
            self._release_claims(uuids)
            if any(first.allocation_request for first, *_ in destinations):
                self._delete_allocations(uuids)
        # The fake driver answers with nothing.
        few = (*FEW, "alternates") if args.alternates else FEW
        rows = [_row(*each) for each in zip(uuids, destinations, strict=False)]
        return list_rows(titles_for(args, few, COLUMNS), rows)

    def _refused(self, args: Any, why: NoValidHost, hints: Iterable[str] = ()) -> OperationRefused:
        """Return the error for a refused request, with its hosts and zones that do not exist."""
        return OperationRefused("\n".join([escaped(str(why)), *self._unknown_names(args), *hints]))

    def _unknown_names(self, args: Any) -> list[str]:
        """Return a line for each host and zone of the request that the database does not have.

        They are no errors by themselves: schedulers know Nova's aggregates, the database does not.
        """
        hosts, zone = [*args.force_host, *args.ignore_host], args.availability_zone
        if not hosts and zone is None:
            return []
        from inventory.database_errors import DatabaseUnavailable
        from inventory.migrations import SchemaError
        from inventory.queries import host_queries

        checks: list[Callable[[Any], Any]] = [
            partial(host_queries.spelled_host, name=host) for host in hosts
        ]
        if zone is not None:
            default = self.default_zone
            checks.append(partial(host_queries.check_zone, name=zone, default=default))

        def found(connection: Any) -> list[str]:
            lines = []
            for check in checks:
                try:
                    check(connection)
                except NotFound as error:
                    lines.append(str(error))
            return lines

        try:
            return self.read(found)
        except (DatabaseUnavailable, SchemaError):
            return []

    def _request(self, args: Any) -> tuple[RequestSpec, list[str]]:
        """Return the request and the uuids of its instances; raise NotFound and Malformed."""
        uuids = [str(uuid4()) for _ in range(args.num_instances)]
        size = args.flavor[0] if args.flavor else usual_flavor()
        spec = request_spec(
            args,
            size,
            instance_uuid=uuids[0],
            num_instances=len(uuids),
            ignore_hosts=args.ignore_host or None,
            force_hosts=args.force_host or None,
            requested_destination=self._destination(args),
        )
        return spec, uuids

    def _destination(self, args: Any) -> Destination | None:
        if not args.aggregate:
            return None
        from inventory import aggregates

        return destination(args, self.read(aggregates.everything))

    def _release_claims(self, uuids: list[str]) -> None:
        from inventory.claims import claims
        from inventory.claims.types import ClaimLost
        from inventory.database_errors import DatabaseUnavailable
        from inventory.migrations import SchemaError

        try:
            self.write(claims.release, uuids)
        except (DatabaseUnavailable, SchemaError, ClaimLost) as error:
            print(f"the claims stay until their leases end: {escaped(str(error))}", file=sys.stderr)

    def _delete_allocations(self, uuids: list[str]) -> None:
        """Delete what the scheduler has allocated in Placement."""
        from inventory.nova.placement import PlacementClient
        from inventory.nova.placement_errors import PlacementError

        left = list(uuids)
        try:
            with closing(PlacementClient(self.conf)) as placement:
                while left:
                    placement.delete_allocations(left[0])
                    del left[0]
        except PlacementError as error:
            cure = f"'openstack resource provider allocation delete {left[0]}'"
            print(
                f"{counted(len(left), 'allocation stays', 'allocations stay')}: {error}; delete"
                f" each with {cure}",
                file=sys.stderr,
            )


def _add_modes(parser: Any) -> None:
    add_flag(parser, "--alternates", "Show also the alternate hosts of each instance.")
    add_long(parser)
    mode = parser.add_mutually_exclusive_group()
    what = (
        "Keep the claims until their leases end, and allocations in Placement until somebody"
        " deletes them."
    )
    add_flag(mode, "--keep", what)
    what = (
        "Claim nothing, and explain the decision: show the hosts that each filter leaves and"
        " their weights or, for a request that fails, all reasons of all hosts."
    )
    add_flag(mode, "--dry-run", what)
    add_limit(parser, "hosts of a dry run", MAX_HOSTS)
    add_timeout(parser)
    check_combination(parser, _problem)


def _problem(args: Any) -> str | None:
    if len(args.flavor) > 1:
        return (
            "argument --flavor: may be given once only, since a request is for instances of one"
            " flavor"
        )
    if args.dry_run and args.formatter not in ("table", "json"):
        return f"--dry-run has the formats table and json, not {args.formatter}"
    return None


def _caller(args: Any) -> RequestContext:
    project = args.project
    return RequestContext(request_id=f"req-{uuid4()}", project_id=project, is_admin=True)


def _row(uuid: str, selections: list[Selection]) -> dict[str, Any]:
    chosen, *alternates = selections
    row = {
        "instance": uuid,
        "host": chosen.service_host,
        "node": chosen.nodename,
        "zone": chosen.availability_zone,
        "limits": selection_limits(chosen),
        "alternates": [alternate.service_host for alternate in alternates],
    }
    return readable(row)
