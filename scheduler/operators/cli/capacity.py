# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that counts how many more instances fit, and how large one can be."""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from typing import Any

from inventory import aggregates
from inventory.errors import counted
from inventory.queries import host_queries
from scheduler.analysis.diagnosis import count_first_refusals, refusals
from scheduler.decision.pipeline import Plan, Request
from scheduler.filters.numa_topology import NUMATopologyFilter
from scheduler.hosts.host_state import Candidate
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.capacity import (
    LARGEST_SIZE,
    MAX_INSTANCES,
    Filling,
    fill,
    fill_in_turns,
    max_size,
)
from scheduler.operators.cli import capacity_forecast
from scheduler.operators.cli.arguments import (
    add_flag,
    add_limit,
    add_time_limit,
    check_combination,
    positive,
)
from scheduler.operators.cli.base import ReportCommand, Table
from scheduler.operators.cli.live_table import NOT_SEEN, check_reported, live_hosts
from scheduler.operators.cli.request_arguments import (
    add_flavors,
    format_flavor,
    request_specs,
    with_flavor,
)
from scheduler.operators.cli.terminal import progress
from scheduler.operators.cli.waiting import WorkTime
from scheduler.operators.fleet_usage import fleet_room
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.simulation.forecast import RUNS

RESOURCES = {"vcpus": "vCPUs", "memory_mb": "MB of memory", "root_gb": "GB of disk"}
CELLS_NOT_COUNTED = (
    "the NUMA cells of the request are not counted: NUMATopologyFilter is not among"
    " [filter_scheduler] enabled_filters"
)
# Why more may fit than were counted.
_MOST_PLACED = "the maximum number of instances was placed"
_STOPPED = "Ctrl-C, or the time limit, has ended the count"
COLUMNS = ("Host", "Node", "Instances", "Limited By", "Reason")
ROOM_COLUMNS = ("Room", "vCPUs", "Memory MB", "Disk MB")


class Capacity(ReportCommand):
    __doc__ = f"""Count how many more instances of a flavor fit now, host by host.

    The count says how many requests, each for one instance, would succeed with the filters, the
    weighers and the driver of the configuration. Where one of the best hosts is drawn at random,
    another draw may give another number. Of several flavors, each is counted as if it was the only
    one. Where hosts hold room for standbys or reservations, the command says how much, and for
    whom. {NOT_SEEN}

    Ctrl-C, or --time-limit, ends a long count, and the command shows what was counted so far.

    With --forecast, the command says instead after how many days there is no room for another
    instance, if instances come and leave as in the last days, which the saved decisions tell. The
    answer is a range of days, since instances come at random.
    """

    def add_arguments(self, parser: Any) -> None:
        add_flavors(parser)
        what = (
            "Place one instance of each flavor in turn, until there is no host for the next"
            " instance."
        )
        add_flag(parser, "--together", what)
        add_flag(parser, "--largest", "Show also how large another instance can be.")
        what = (
            f"Maximum number of instances to place (default: {MAX_INSTANCES}; unlimited where"
            " hosts can be counted without placing instances)."
        )
        parser.add_argument("--max", type=positive, metavar="N", help=what)
        add_limit(parser, "hosts for each flavor", 50)
        add_time_limit(parser, "count", math.inf)
        capacity_forecast.add_forecast(parser)
        check_combination(parser, _problem)

    def take_action(self, args: Any) -> None:
        work = WorkTime(time.monotonic() + args.time_limit)
        with live_hosts(self.app) as live:
            if args.forecast:
                self._forecast(live, args, work)
                return
            specs = self._requests(live, args)
            tables, fillings = self._filled(live, specs, args, work)
            stopped = not work() and not all(each.is_full for each in fillings)
            plan = live.destinations.driver.plan
            check_reported(tables)
            with progress(self.app, "looking for what bounds the flavors"):
                documents = [*map(_document, tables, fillings, repeat(plan))]
            if args.largest:
                stopped |= not self._find_largest(live, specs, documents, work)
            # Together, the first flavor without a host is the end for all of them.
            if args.together and any(each.is_full for each in fillings):
                documents = [each | {"more": False} for each in documents]
            warnings = _warnings(tables, specs, plan)
            room = fleet_room(live.table(specs[0]))
        sections = [part for each in documents for part in _sections(each, args.limit, stopped)]
        if room.promises.lines():
            rows = [(what, *amounts) for what, amounts in room.lines()]
            sections.append(Table("Who has the room of all hosts", ROOM_COLUMNS, rows))
        sections += [f"Warning: {text}" for text in warnings]
        document = {
            "together": args.together,
            "flavors": documents,
            "room": room.facts(),
            "warnings": warnings,
            "interrupted": stopped,
        }
        self.report(args, sections, document)

    def _find_largest(
        self,
        live: LiveHosts,
        specs: list[RequestSpec],
        documents: list[dict[str, Any]],
        work: WorkTime,
    ) -> bool:
        """Add the largest sizes to the documents; return whether there was time for all."""
        with progress(self.app, "looking for the largest sizes"), work.until_interrupted():
            for spec, document in zip(specs, documents, strict=True):
                document["largest"] = []
                try:
                    document["largest"].extend(_largest_sizes(live, spec, work))
                except _Stopped:
                    return False
        return True

    def _forecast(self, live: LiveHosts, args: Any, work: WorkTime) -> None:
        args.flavor = args.flavor or capacity_forecast.usual_flavors(live)
        specs = self._requests(live, args)
        with progress(self.app, "possible futures played", RUNS) as show, work.until_interrupted():
            simulator = live.simulator(show, work)
            zone = self.default_zone
            found = capacity_forecast.make_forecast(live, specs, args, zone, simulator)
        self.report(args, capacity_forecast.sections(found), found)

    def _requests(self, live: LiveHosts, args: Any) -> list[RequestSpec]:
        """Return the requests, all of them with the server group that a hint names."""
        found = request_specs(args, live.database.read(aggregates.everything))
        zone = args.availability_zone
        if zone is not None:
            live.database.read(lambda c: host_queries.check_zone(c, zone, self.default_zone))
        group = live.with_group(found[0]).instance_group
        for each in found:
            each.instance_group = group
        return found

    def _filled(
        self, live: LiveHosts, specs: list[RequestSpec], args: Any, work: WorkTime
    ) -> tuple[list[HostTable], list[Filling]]:
        """Return the tables after placing all instances, and what was placed."""
        most = args.max
        began = time.monotonic()

        def rest() -> str:
            return f"{time.monotonic() - began:.0f} s; Ctrl-C shows how many"

        shown = progress(self.app, "instances placed", rest=rest)
        with shown as show, work.until_interrupted():
            simulator = live.simulator(show, work)
            if args.together:
                table = live.table(specs[0])
                fillings = fill_in_turns(table, specs, simulator, most or MAX_INSTANCES)
                return [table] * len(specs), fillings
            tables = [live.table(each) for each in specs]
            pairs = zip(tables, specs, strict=True)
            return tables, [fill(table, spec, simulator, most) for table, spec in pairs]


def _problem(args: argparse.Namespace) -> str | None:
    if not args.forecast:
        if not args.flavor:
            return "the following arguments are required: --flavor, or --vcpus and others"
        return "argument --since: is for --forecast only" if args.since is not None else None
    for name in ("together", "largest", "max", "group_policy"):
        if getattr(args, name):
            return f"argument --{name.replace('_', '-')}: cannot be used with --forecast"
    return None


def _warnings(tables: list[HostTable], specs: list[RequestSpec], plan: Plan) -> list[str]:
    """Return what makes the count inexact, each text once."""
    found = dict.fromkeys(text for table in tables for text in table.warnings)
    if any(each.numa_topology for each in specs) and not any(
        isinstance(each, NUMATopologyFilter) for each in plan.filters
    ):
        found[CELLS_NOT_COUNTED] = None
    return list(found)


def _document(hosts: HostTable, filling: Filling, plan: Plan) -> dict[str, Any]:
    """Return all facts about one flavor, the hosts with the most instances first."""
    found = refusals(hosts, filling.spec, plan)
    listed = [
        {
            "host": hosts.get(row, "host"),
            "node": hosts.get(row, "nodename"),
            "instances": filling.rows[row],
            # None where their number was bounded, or where the driver has its own rule.
            "refusals": [{"filter": why.filter, "reason": why.reason} for why in refused],
        }
        for row, refused in found.items()
    ]
    listed.sort(key=lambda each: (-each["instances"], each["host"], each["node"]))
    return {
        "flavor": format_flavor(filling.spec.flavor),
        "total": filling.rows.total(),
        "more": not filling.is_full,
        "left_out": len(hosts) - len(found),
        "limits": dict(count_first_refusals(found.values())),
        "hosts": listed,
    }


class _Stopped(Exception):
    """There is no time left to look on."""


def _largest_sizes(
    live: LiveHosts, spec: RequestSpec, may_go_on: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Yield the most of each resource with the others unchanged, then the largest multiple.

    Raises _Stopped.
    """
    hosts, simulator, flavor = live.table(spec), live.simulator(), spec.flavor
    # Resources of NUMA cells grow by one piece in each cell.
    cells = len(spec.numa_topology) if spec.numa_topology else 1

    def find(size: Flavor) -> Candidate | None:
        if not may_go_on():
            raise _Stopped
        request = Request(with_flavor(spec, size), ["new instance"])
        decision = simulator.decide(hosts.working_copy(), request)
        return decision.placements[0].chosen if decision.placements else None

    for name, step in (("vcpus", cells), ("memory_mb", cells), ("root_gb", 1)):
        yield _largest_of(name, flavor, {name: step}, find, getattr(flavor, name) // step)
    yield _largest_of("times", flavor, {name: getattr(flavor, name) for name in RESOURCES}, find, 1)


def _largest_of(
    of: str,
    flavor: Flavor,
    steps: Mapping[str, int],
    find: Callable[[Flavor], Candidate | None],
    start: int,
) -> dict[str, Any]:
    """Return the largest flavor that has a host, of those that grow these resources by steps."""

    def grown(count: int) -> Flavor:
        size: dict[str, Any] = {name: count * step for name, step in steps.items()}
        return replace(flavor, **size)

    count, host = max_size(lambda size: find(grown(size)), start)
    largest, is_bounded = grown(count), count < LARGEST_SIZE
    return {
        "of": of,
        "most": count if of == "times" else getattr(largest, of),
        "flavor": format_flavor(largest) if host is not None and is_bounded else None,
        "host": host.host if host else None,
        "bounded": is_bounded,
    }


def _format_largest(found: Mapping[str, Any]) -> str:
    what = f"Most {RESOURCES.get(found['of'], 'times the flavor')}"
    if found["host"] is None:
        return f"{what}: no host takes even the smallest size"
    if not found["bounded"]:
        return f"{what}: no filter bounds this resource"
    return f"{what}: {found['most']}, as {found['flavor']} on {found['host']}"


def _sections(found: dict[str, Any], limit: int, stopped: bool) -> Iterator[str | Table]:
    hosts = found["hosts"]
    at_least = "at least " if found["more"] else ""
    taking = sum(1 for each in hosts if each["instances"])
    yield (
        f"{found['flavor']}: {at_least}{counted(found['total'], 'instance')}"
        f" on {taking} of {counted(len(hosts), 'host')}"
    )
    if found["more"]:
        yield f"More may fit: {_STOPPED if stopped else _MOST_PLACED}"
    if found["limits"]:
        counts = ", ".join(f"{name} {count}" for name, count in found["limits"].items())
        yield f"Hosts by the filter that refuses another instance: {counts}"
    if found["left_out"]:
        yield f"Hosts that the request excludes: {found['left_out']}"
    yield from map(_format_largest, found.get("largest", ()))
    rows = []
    for each in hosts[:limit]:
        first = next(iter(each["refusals"]), {"filter": "", "reason": ""})
        rows.append((each["host"], each["node"], each["instances"], *first.values()))
    yield Table("", COLUMNS, rows)
    if len(hosts) > limit:
        yield f"... and {counted(len(hosts) - limit, 'more host')}; see --limit"
