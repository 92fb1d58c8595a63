# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command berthmaster simulate."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

from oslo_config import cfg

from inventory.errors import OperationRefused
from scheduler.cli.app import read_configuration
from scheduler.cli.base import ReportCommand, Table
from scheduler.cli.simulation_arguments import add_simulation
from scheduler.cli.simulation_input import SimulationInput, progress, read_input
from scheduler.history.config_snapshot import deciding_by, given
from scheduler.host_cache.requested_mix import MixSettings, fixed_mix
from scheduler.hosts.table import HostTable
from scheduler.plugins import PluginError
from scheduler.simulation.arrival import Arrival
from scheduler.simulation.requested_sizes import RequestedSizes
from scheduler.simulation.simulation import Decide, Progress, Simulation

_COLUMNS = (
    *("Configuration", "Runs", "Requests", "Refused", "First Refused At %"),
    *("vCPU %", "Memory %", "Disk %", "Stranded Memory %", "Empty Hosts", "Drain Moves"),
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration to decide by, and the name under which it is shown."""

    name: str
    conf: cfg.ConfigOpts


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a configuration and the arrivals of a seed, 0 for those that are not made up."""

    configuration: Configuration
    seed: int
    arrivals: Sequence[Arrival]


class Simulate(ReportCommand):
    """Run the scheduler's decisions over arrivals and departures, and show what comes of it.

    Nothing is placed and nothing written, but for --results. Without --hosts, the hosts of the
    cloud are read once. An interrupted simulation goes on with the next run if it is called again
    with the same --results.
    """

    def add_arguments(self, parser: Any) -> None:
        add_simulation(parser)

    def take_action(self, args: Any) -> int:
        configurations = self._configurations(args)
        given_input = read_input(self.app, args)
        # Those of one seed side by side.
        runs = [
            Run(configuration, seed, arrivals)
            for seed, arrivals in given_input.arrivals.items()
            for configuration in configurations
        ]
        documents = []
        for number, run in enumerate(runs, 1):
            with progress(self.app, f"run {number} of {len(runs)}", len(run.arrivals)) as show:
                documents.append(_document(args, run, given_input, show))
        notes = given_input.notes
        self.report(args, _sections(documents, notes), {"runs": documents, "notes": notes})
        return 0

    def _configurations(self, args: Any) -> list[Configuration]:
        if not args.config:
            return [Configuration("current", self.conf)]
        stems = [path.stem for path in args.config]
        names = stems if len({*stems}) == len(stems) else [*map(str, args.config)]
        found = []
        for name, path in zip(names, args.config, strict=True):
            conf = cfg.ConfigOpts()
            read_configuration(conf, [str(path)], [])
            found.append(Configuration(name, conf))
        return found


def _document(args: Any, run: Run, given_input: SimulationInput, show: Progress) -> dict[str, Any]:
    """Return all facts about a run, from --results if it is there."""
    conf = run.configuration.conf
    try:
        with deciding_by(conf) as driver:
            settings = given(conf, driver)
            path = _result_path(args, run, given_input.hosts, settings)
            if path is not None and path.exists():
                return _read_result(path)
            hosts = given_input.hosts.detached()
            simulation = _simulation(conf, hosts, driver.decide, args.build_time)
            simulation.add_departures(given_input.leaves_at)
            began = monotonic()
            trace = given_input.trace
            result = simulation.run(run.arrivals, show, trace.is_as_decided if trace else None)
    except (PluginError, ValueError) as error:
        raise OperationRefused(f"configuration {run.configuration.name}: {error}") from None
    result.seconds = monotonic() - began
    document = {
        "configuration": run.configuration.name,
        "seed": run.seed,
        "hosts": len(given_input.hosts),
        **result.document(),
    }
    if path is not None:
        _write_result(path, document)
    return document


def _simulation(
    conf: cfg.ConfigOpts, hosts: HostTable, decide: Decide, build_time: float
) -> Simulation:
    """Return a simulation whose flavor mix is the configured one, or learned on the way."""
    fixed = fixed_mix(MixSettings(conf.flavor_mix.flavors, conf.flavor_mix.half_life))
    requested = None
    if fixed:
        hosts.set_flavor_mix(fixed)
    else:
        requested = RequestedSizes(conf.flavor_mix.half_life, hosts.flavor_mix)
    return Simulation(hosts, decide, build_time, requested)


def _result_path(args: Any, run: Run, hosts: HostTable, settings: Any) -> Path | None:
    """Return the file of a run, which has another name if anything about it is different."""
    if args.results is None:
        return None
    digest = hashlib.sha256()
    columns = [
        getattr(hosts, name).tobytes() for name in ("free_ram_mb", "vcpus_used", "free_disk_mb")
    ]
    for part in (repr(run.arrivals), repr(settings), repr(hosts.flavor_mix), args.build_time):
        digest.update(str(part).encode())
    for column in columns:
        digest.update(column)
    name = f"{run.configuration.name}-{run.seed or 0}-{digest.hexdigest()[:16]}.json"
    found: Path = args.results / name.replace("/", "_")
    return found


def _read_result(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    except (OSError, ValueError) as error:
        raise OperationRefused(f"{path} cannot be read, remove it: {error}") from None


def _write_result(path: Path, document: dict[str, Any]) -> None:
    beside = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(document, indent=1))
        beside.replace(path)
    except OSError as error:
        raise OperationRefused(f"cannot write {path}: {error.strerror}") from None


def _sections(documents: list[dict[str, Any]], notes: Sequence[str]) -> list[str | Table]:
    names = dict.fromkeys(each["configuration"] for each in documents)
    rows = [
        _row(name, [each for each in documents if each["configuration"] == name]) for name in names
    ]
    hosts, requests = documents[0]["hosts"], documents[0]["requests"]
    heading = f"{hosts} hosts, {requests} requests in each run; the figures of hosts are at the end"
    has_own = documents[0]["as_decided"] is not None
    return [heading, Table("", (*_COLUMNS, "As Decided") if has_own else _COLUMNS, rows), *notes]


def _row(name: str, runs: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Return the means of the runs of a configuration."""
    ends = [run["samples"][-1]["usage"] for run in runs]
    firsts = [run["first_refusal"]["usage"] for run in runs if run["first_refusal"]]

    def percent(usages: list[dict[str, Any]], kind: str, resource: str) -> str:
        return f"{100 * fmean(usage[kind][resource] for usage in usages):.1f}"

    return (
        name,
        len(runs),
        f"{fmean(run['requests'] for run in runs):.0f}",
        f"{fmean(run['refused'] for run in runs):.1f}",
        f"{100 * fmean(max(usage['used'].values()) for usage in firsts):.1f}" if firsts else "-",
        *(percent(ends, "used", each) for each in ("vcpus", "memory", "disk")),
        percent(ends, "stranded", "memory"),
        f"{fmean(usage['empty_hosts'] for usage in ends):.1f}",
        f"{fmean(usage['drain_moves'] for usage in ends):.1f}",
        *(str(run["as_decided"]) for run in runs if run["as_decided"] is not None),
    )
