# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that plan moves of instances; nothing is moved by them without --run."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from inventory import aggregates, services
from inventory.claims import standby_rows
from inventory.errors import NotFound, nearest
from inventory.objects.standby import REQUIRED
from inventory.operations import service_operations
from scheduler.claims.protection import of_stored_request
from scheduler.decision.standby_room import NO_STANDBY
from scheduler.hosts.metrics import metric_values
from scheduler.operators.cli.arguments import add_host, check_combination, positive
from scheduler.operators.cli.live_fleet import UNKNOWN, host_names
from scheduler.operators.cli.live_table import BLIND_SPOTS
from scheduler.operators.cli.plan_goal import PlanCommand, Planned
from scheduler.operators.cli.request_arguments import add_flavors, format_flavor, request_specs
from scheduler.operators.planning.balancing import (
    RESOURCES,
    Load,
    balance,
    metric_load,
    resource_load,
)
from scheduler.operators.planning.consolidation import consolidate
from scheduler.operators.planning.draining import drain
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.make_room import make_room
from scheduler.operators.planning.repairing import repair
from scheduler.operators.planning.types import Budget, MovePlan

_GB = 1024


class PlanDrain(PlanCommand):
    __doc__ = f"""Plan how to empty hosts: which instance goes where, and in which order.

    The largest instances go first: they fit on the fewest hosts. Each instance goes where the
    schedulers would place it, but not to a host that is to be emptied together with its own host,
    nor, unless needed, to a host with free PCI devices. Where no host has room, instances of other
    hosts move to make room. Instances of hosts that are down are evacuated only if the command
    names their host. With --at-most, the hosts are emptied in stages, and hosts of earlier stages
    take instances again, as after maintenance. Room that the hosts hold for standbys and
    reservations is named, and stays where it is. The exit status is 0 if all hosts can be emptied,
    else 1. {UNKNOWN} Nothing is moved without --run, which also disables the hosts, so that no new
    instances come to them. Instances that cannot go stay there. {BLIND_SPOTS}
    """

    def add_goal(self, parser: Any) -> None:
        add_host(parser, nargs="+")
        what = "Maximum number of hosts that are emptied at the same time (default: all)."
        parser.add_argument("--at-most", type=positive, metavar="N", help=what)
        check_combination(parser, _run_of_stages)

    def make_plan(self, planned: Planned, args: Any) -> MovePlan:
        names = host_names(planned.fleet.hosts, args.host)
        return drain(planned.fleet, names, args.at_most, planned.search_time)

    def begin_run(self, plan: dict[str, Any]) -> None:
        # There is no stage where the time limit was too short for one.
        self.write(_disable, [host for stage in plan["result"]["stages"] for host in stage])


class PlanRepair(PlanCommand):
    __doc__ = f"""Plan the moves of instances that are on hosts where they may not be.

    These are the instances for which a filter would refuse their present host: by the policy of a
    server group, the metadata of an aggregate, isolation, or a resource of which more is in use
    than allowed. All instances of hosts whose service is down are evacuated, too, to their standbys
    if they have any. The smallest sets of instances move. Protected instances without a standby are
    listed, and further moves make room for standbys: one of the schedulers makes the standbys as
    soon as there is room. The exit status is 0 if the moves repair everything and leave room for
    all standbys that are required, else 1. {UNKNOWN} Nothing is moved without --run. {BLIND_SPOTS}
    """

    def make_plan(self, planned: Planned, args: Any) -> MovePlan:
        texts = self.read(standby_rows.lacking_requests, NO_STANDBY)
        read = (
            (uuid, of_stored_request(uuid, text, lambda spec: spec)) for uuid, text in texts.items()
        )
        specs = {uuid: spec for uuid, spec in read if spec is not None}
        plan = repair(planned.fleet, planned.search_time, specs)
        lacking = self.read(standby_rows.protected, None, True)
        plan.result["without_standby"] = lacking
        plan.result["reached"] &= not any(
            each["mode"] == REQUIRED and each["instance"] not in plan.result["room_for_standbys"]
            for each in lacking
        )
        return plan


class PlanConsolidate(PlanCommand):
    __doc__ = f"""Plan how to empty as many hosts as possible.

    Hosts with few instances are emptied first, onto hosts that are nearly full already. Hosts that
    are disabled or down stay as they are. {UNKNOWN} Nothing is moved without --run. {BLIND_SPOTS}
    """

    def add_goal(self, parser: Any) -> None:
        _add_budget(parser)
        what = "Seed of the search; the same seed gives the same plan (default: 0)."
        parser.add_argument("--seed", type=int, default=0, metavar="N", help=what)

    def make_plan(self, planned: Planned, args: Any) -> MovePlan:
        return consolidate(planned.fleet, _budget(args), args.seed, planned.search_time)


class PlanBalance(PlanCommand):
    __doc__ = f"""Plan the moves after which hosts are about equally full, or equally busy.

    Hosts are about equally full if the use of the fullest and of the emptiest host, in per cent of
    what may be allocated on the host, differs by no more points than the margin. A metric of the
    monitors, such as cpu.percent, is shared out to the instances of a host by their vCPUs. Hosts
    that are disabled or down are left out. The exit status is 0 if the margin is reached, else 1.
    {UNKNOWN} Nothing is moved without --run. {BLIND_SPOTS}
    """

    def add_goal(self, parser: Any) -> None:
        load = parser.add_mutually_exclusive_group()
        what = "Resource to spread (default: memory)."
        load.add_argument("--resource", choices=RESOURCES, default="memory", help=what)
        load.add_argument("--metric", metavar="NAME", help="Metric to spread, in per cent.")
        what = "Largest difference between two hosts, in points of per cent (default: 10)."
        parser.add_argument("--margin", type=positive, default=10, metavar="POINTS", help=what)
        _add_budget(parser)

    def make_plan(self, planned: Planned, args: Any) -> MovePlan:
        load = _load(planned.fleet, args)
        margin = args.margin / 100
        return balance(planned.fleet, load, margin, _budget(args), planned.search_time)


class PlanMakeRoom(PlanCommand):
    __doc__ = f"""Plan the fewest moves after which instances of a flavor fit.

    This helps where no host takes an instance although the hosts together have enough room.
    Instances of hosts that are down stay there. What hosts hold for standbys and reservations
    stays, too; the command names it where it is in the way. The exit status is 0 if all requested
    instances fit after the moves, else 1. {UNKNOWN} Nothing is moved without --run. {BLIND_SPOTS}
    """

    def add_goal(self, parser: Any) -> None:
        add_flavors(parser)
        what = "Number of instances that are to fit (default: 1)."
        parser.add_argument("--number", type=positive, default=1, metavar="N", help=what)
        wrong = "argument --flavor: must be given exactly once"
        check_combination(parser, lambda args: None if len(args.flavor) == 1 else wrong)

    def make_plan(self, planned: Planned, args: Any) -> MovePlan:
        live = planned.live
        (spec,) = request_specs(args, live.database.read(aggregates.everything))
        spec = live.with_group(spec)
        plan = make_room(planned.fleet, spec, args.number, planned.search_time)
        plan.result["flavor"] = format_flavor(spec.flavor)
        return plan


def _add_budget(parser: Any) -> None:
    for option, metavar, what in (
        ("--max-moves", "N", "Maximum number of moves"),
        ("--max-gb", "GB", "Maximum memory to copy, in GB"),
    ):
        help_text = f"{what} (default: any)."
        parser.add_argument(option, type=positive, metavar=metavar, help=help_text)


def _budget(args: Any) -> Budget:
    return Budget(args.max_moves, None if args.max_gb is None else args.max_gb * _GB)


def _load(fleet: Fleet, args: Any) -> Load:
    if args.metric is None:
        return resource_load(fleet, args.resource)
    load = metric_load(fleet, args.metric)
    if not (load.capacity > 0).any():
        hosts = fleet.hosts
        known = {name for row in hosts.rows() for name in metric_values(hosts.get(row, "metrics"))}
        cure = (
            "enable its monitor with [DEFAULT] compute_monitors of the agents, and see 'host show'"
        )
        raise NotFound(
            f"no host has reported a metric {args.metric!r}; {nearest(args.metric, known, cure)}"
        )
    return load


def _disable(connection: sa.Connection, hosts: Collection[str]) -> None:
    """Disable those of hosts that are not; the others keep their reasons."""
    rows, _ = services.find_all(connection, hosts, services.COMPUTE[0])
    enabled = [row.host for row in rows if not row.disabled]
    service_operations.disable(connection, enabled, "is drained by 'plan drain --run'")


def _run_of_stages(args: Any) -> str | None:
    if args.run and args.at_most:
        return (
            "argument --run: cannot be used with --at-most: write the plan to a file with -f"
            " json, of which each 'plan run' carries out a stage"
        )
    return None
