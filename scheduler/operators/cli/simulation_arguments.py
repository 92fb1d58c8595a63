# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of simulations: the trace, the hosts and the configurations."""

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from conf.flavor_mix import WeightedSize, weighted_size
from inventory.objects.standby import NONE, PREFERRED, REQUIRED
from scheduler.operators.cli.arguments import (
    above_zero,
    add_flag,
    add_repeatable,
    age_or_time,
    check_combination,
    not_negative,
    positive,
)
from scheduler.operators.simulation.fleet import HostKind
from scheduler.operators.simulation.public_traces import Machine

_MACHINE = "VCPUS,RAM_MB,DISK_GB"
_HOSTS = f"COUNT:{_MACHINE}[,CPU_RATIO]"
_SIZE = re.compile(r"(\d{1,7}),(\d{1,10}),(\d{1,10})", re.ASCII)
_KIND = re.compile(
    r"(\d{1,7}):(\d{1,7}),(\d{1,10}),(\d{1,10})(?:,(\d{1,4}(?:\.\d{1,4})?))?", re.ASCII
)
MAX_HOSTS = 100_000
MAX_ARRIVALS = 10_000_000
# Of hours, and of arrivals an hour.
_MOST = 1e6
_amount = partial(above_zero, most=_MOST, what=f"a number above 0 and up to {_MOST:,.0f}")
DEFAULT_ARRIVALS, DEFAULT_RATE = 1000, 60.0
FAILOVER = (NONE, PREFERRED, REQUIRED)


def host_kind(text: str) -> HostKind:
    """Return equal hosts of the form COUNT:VCPUS,RAM_MB,DISK_GB[,CPU_RATIO], for argparse."""
    found = _KIND.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {_HOSTS}")
    count, vcpus, memory_mb, disk_gb = map(int, found.groups()[:4])
    if not 1 <= count <= MAX_HOSTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 and {MAX_HOSTS} hosts")
    return HostKind(count, vcpus, memory_mb, disk_gb, float(found[5] or 1))


def machine(text: str) -> Machine:
    """Return a machine of the form VCPUS,RAM_MB,DISK_GB, for argparse."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {_MACHINE}")
    return Machine(*map(int, found.groups()))


def usual_flavors(text: str) -> list[WeightedSize]:
    """Return sizes with weights, written as in [flavor_mix] flavors, for argparse."""
    try:
        return [weighted_size(each) for each in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_simulation(parser: Any) -> None:
    trace = parser.add_argument_group(
        "arrivals: from a file, from the saved decisions, or made up by the other options"
    ).add_argument
    what = (
        "Trace, as CSV or Parquet, or one that Azure, Alibaba or Google has published: see"
        " 'Simulating' in the guide."
    )
    trace("--trace", type=Path, metavar="FILE", help=what)
    what = (
        "What a whole machine has, for traces whose sizes are shares of a machine: Azure's and"
        " Google's."
    )
    trace("--machine", type=machine, metavar=_MACHINE, help=what)
    what = (
        "Time from which saved decisions are made again, on the hosts of that time: an age"
        " such as 12h or 2d, or a time in UTC."
    )
    trace("--decisions", type=age_or_time, metavar="TIME", help=what)
    what = (
        f"Number of instances that arrive (default: {DEFAULT_ARRIVALS}); with --trace, the first"
        " instances of the trace (default: all)."
    )
    trace("--arrivals", type=lambda text: positive(text, most=MAX_ARRIVALS), metavar="N", help=what)
    what = (
        "Sizes to draw from, and how often (default: the sizes that are usually requested in this"
        " cloud)."
    )
    trace("--flavors", type=usual_flavors, metavar="VCPUS:RAM_MB:DISK_GB=WEIGHT,...", help=what)
    what = f"Mean number of arrivals an hour (default: {DEFAULT_RATE:g})."
    trace("--rate", type=_amount, metavar="N", help=what)
    what = "Mean time for which instances stay (default: all instances stay)."
    trace("--lifetime", type=_amount, metavar="HOURS", help=what)
    what = "Number of runs with different arrivals; means of the runs are shown (default: 1)."
    trace("--seeds", type=lambda text: positive(text, most=1000), metavar="N", help=what)
    where = parser.add_argument_group(
        "hosts: by default the hosts of the cloud, with their instances"
    )
    what = "Empty hosts to simulate instead of the hosts of the cloud"
    add_repeatable(where, "--hosts", type=host_kind, metavar=_HOSTS, what=what)
    what = (
        "Number of hosts of a failure domain, for hosts of one kind from --hosts (default: each"
        " host is a domain of its own)."
    )
    where.add_argument("--rack-size", type=positive, metavar="N", help=what)
    add_flag(
        where,
        "--empty",
        "Leave out the instances of the cloud; the NUMA cells that they use stay in use.",
    )
    how = parser.add_argument_group("decisions")
    what = (
        "Configuration to decide by, instead of the configuration of this command; several are"
        " run one after the other and shown side by side"
    )
    add_repeatable(how, "--config", type=Path, metavar="FILE", what=what)
    what = (
        f"How all arriving instances are protected, one of {', '.join(FAILOVER)}; several are run"
        " one after the other and shown side by side. By default the instances are not protected,"
        " and those of --decisions are protected as they were"
    )
    add_repeatable(how, "--failover", choices=FAILOVER, metavar="MODE", what=what)
    what = "Seconds for which a new instance counts as being built (default: 0)."
    how.add_argument("--build-time", type=not_negative, default=0, metavar="S", help=what)
    what = (
        "Directory to keep the result of each run in; a run whose result is there already is not"
        " repeated."
    )
    how.add_argument("--results", type=Path, metavar="DIR", help=what)
    how.add_argument(
        "--html", type=Path, metavar="FILE", help="Write a page with the table and plots over time."
    )
    check_combination(parser, _problem)


def _problem(args: argparse.Namespace) -> str | None:
    made_up = ("arrivals", "flavors", "rate", "lifetime", "seeds")
    given = [name for name in made_up if getattr(args, name) is not None]
    if args.trace is not None and args.decisions is not None:
        return (
            "argument --decisions: cannot be used with --trace, since each has arrivals of its own"
        )
    source = "trace" if args.trace is not None else "decisions"
    if source == "trace" and "arrivals" in given:
        given.remove("arrivals")
    if args.machine is not None and args.trace is None:
        return "argument --machine: is for --trace only"
    if getattr(args, source) is not None and given:
        return f"argument --{given[0]}: is for arrivals that are made up, not for --{source}"
    if args.rack_size is not None and not args.hosts:
        return (
            "argument --rack-size: is for --hosts only; the hosts of the cloud have failure"
            " domains already"
        )
    if args.hosts and args.empty:
        return (
            "argument --empty: is for the hosts of the cloud; the hosts of --hosts are empty"
            " already"
        )
    if sum(kind.count for kind in args.hosts) > MAX_HOSTS:
        return f"argument --hosts: more than {MAX_HOSTS} hosts"
    if args.hosts and args.trace is args.decisions is args.flavors is None:
        return (
            "argument --hosts: made-up hosts have no past requests; give --flavors, --trace or"
            " --decisions"
        )
    return None
