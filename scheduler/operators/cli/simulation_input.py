# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a simulation begins with: the hosts, and the arrivals of each seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cliff.app import App

from conf.service import liveness_limit
from inventory.errors import OperationRefused, counted
from scheduler.host_cache.requested_mix import MixSettings, fixed_mix
from scheduler.hosts.flavor_mix import FlavorMix
from scheduler.hosts.table import HostTable
from scheduler.operators.cli.database_connection import checked_database
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.simulation_arguments import DEFAULT_ARRIVALS, DEFAULT_RATE
from scheduler.operators.cli.terminal import progress
from scheduler.operators.cli.trace_file import read_trace_file
from scheduler.operators.decision_trace import DecisionTrace, read_trace
from scheduler.operators.simulation.arrival import FOREVER, Arrival, TraceError
from scheduler.operators.simulation.fleet import keep_down, make_hosts, remove_instances
from scheduler.operators.simulation.synthetic_trace import SyntheticTrace


@dataclass(frozen=True)
class SimulationInput:
    """Hosts, with what leaves them by uuid and time, and arrivals by seed.

    trace is where both are from, if they are the cloud's own. notes are for the user.
    """

    hosts: HostTable
    arrivals: Mapping[int, Sequence[Arrival]]
    leaves_at: dict[str, float] = field(default_factory=dict)
    trace: DecisionTrace | None = None
    notes: Sequence[str] = ()


def read_input(app: App, args: Any) -> SimulationInput:
    """Return what a simulation begins with; raises OperationRefused."""
    if args.decisions is not None:
        found = _decided(app, args)
    else:
        hosts = _hosts(app, args)
        if args.trace is not None:
            with progress(app, f"rows read of {args.trace}") as show:
                arrivals = read_trace_file(args.trace, args.machine, args.arrivals, show)
            found = SimulationInput(hosts, {0: arrivals})
        else:
            with progress(app, "drawing arrivals"):
                found = SimulationInput(hosts, dict(_made_up(args, hosts.flavor_mix)))
    if args.empty:
        remove_instances(found.hosts)
    if not any(found.arrivals.values()):
        raise OperationRefused("the trace has no arrivals: nothing to simulate")
    return found


def _decided(app: App, args: Any) -> SimulationInput:
    with checked_database(app) as database, progress(app, "decisions read") as show:
        lease = app.conf.claims.lease
        try:
            trace = database.read(lambda each: read_trace(each, args.decisions, lease, show))
        except TraceError as error:
            raise OperationRefused(f"{error}; see 'decision list'") from None
    notes = []
    if trace.unreadable:
        what = "that another release has saved"
        left = counted(trace.unreadable, f"decision {what} is", f"decisions {what} are")
        notes.append(f"{left} left out.")
    hosts = make_hosts(args.hosts, args.rack_size or 1) if args.hosts else trace.hosts
    same = None if args.hosts or args.empty else trace
    return SimulationInput(hosts, {0: trace.arrivals}, trace.leaves_at, same, notes)


def _hosts(app: App, args: Any) -> HostTable:
    if args.hosts:
        return make_hosts(args.hosts, args.rack_size or 1)
    with live_hosts(app) as live, live.destinations.host_cache.current() as hosts:
        found = hosts.detached()
    keep_down(found, liveness_limit(app.conf))
    if not len(found):
        raise OperationRefused(
            "no host has reported yet: simulate made-up hosts with --hosts, or see 'host list'"
        )
    return found


def _made_up(args: Any, mix: FlavorMix) -> Iterator[tuple[int, Sequence[Arrival]]]:
    if args.flavors is not None:
        mix = fixed_mix(MixSettings(args.flavors, 0.0))
    if not mix:
        raise OperationRefused(
            "no usual sizes are known, since there are no requests and no instances yet: give"
            " --flavors or --trace"
        )
    trace = SyntheticTrace(
        mix,
        args.arrivals or DEFAULT_ARRIVALS,
        args.rate or DEFAULT_RATE,
        3600 * args.lifetime if args.lifetime else FOREVER,
    )
    for seed in range(1, (args.seeds or 1) + 1):
        yield seed, [*trace.draw(seed)]
