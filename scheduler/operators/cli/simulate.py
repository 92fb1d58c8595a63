# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command berthmaster simulate."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from oslo_config import cfg

from conf.loading import read_apart
from inventory.errors import OperationRefused
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.history.config_snapshot import deciding_by, given
from scheduler.host_cache.requested_mix import MixSettings, fixed_mix
from scheduler.hosts.columns import FLAGS
from scheduler.hosts.table import HostTable
from scheduler.operators.cli import simulation_page
from scheduler.operators.cli.app import PROGRAM
from scheduler.operators.cli.base import ReportCommand, Table
from scheduler.operators.cli.simulation_arguments import add_simulation
from scheduler.operators.cli.simulation_input import SimulationInput, read_input
from scheduler.operators.cli.simulation_summary import heading, summary
from scheduler.operators.cli.terminal import Progress, progress
from scheduler.operators.simulation.arrival import Arrival
from scheduler.operators.simulation.requested_sizes import RequestedSizes
from scheduler.operators.simulation.simulation import Decide, Simulation
from scheduler.plugins import PluginError


@dataclass(frozen=True, slots=True)
class Configuration:
    name: str
    conf: cfg.ConfigOpts


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a configuration and the arrivals of a seed, 0 for those that are not made up.

    failover is how their instances are protected, None where that is as it was decided.
    """

    configuration: Configuration
    failover: str | None
    seed: int
    arrivals: Sequence[Arrival]

    @property
    def name(self) -> str:
        shown = self.configuration.name
        return f"{shown}, failover {self.failover}" if self.failover else shown


class Simulate(ReportCommand):
    """Simulate arrivals and departures of instances, and show what the scheduler would decide.

    Nothing is placed, and nothing is written except for --results and --html. Without --hosts, the
    hosts of the cloud are read once. An interrupted simulation goes on with the next run if the
    command is called again with the same --results.
    """

    def add_arguments(self, parser: Any) -> None:
        add_simulation(parser)

    def take_action(self, args: Any) -> int:
        if args.html is not None:
            simulation_page.check_libraries()
            if not args.html.parent.is_dir():
                raise OperationRefused(f"cannot write {args.html}: its directory does not exist")
        configurations = self._configurations(args)
        given_input = read_input(self.app, args)
        # Those of one seed side by side.
        runs = [
            Run(configuration, failover, seed, arrivals)
            for seed, arrivals in given_input.arrivals.items()
            for configuration in configurations
            for failover in args.failover or [None]
        ]
        documents = []
        for number, run in enumerate(runs, 1):
            what = f"run {number} of {len(runs)}: arrivals decided"
            with progress(self.app, what, len(run.arrivals)) as show:
                documents.append(_document(args, run, given_input, show))
        notes = given_input.notes
        if args.html is not None:
            with progress(self.app, f"drawing the plots of {args.html}"):
                _write(args.html, simulation_page.render(documents, notes))
        sections: list[str | Table] = [heading(documents), summary(documents), *notes]
        self.report(args, sections, {"runs": documents, "notes": notes})
        return 0

    def _configurations(self, args: Any) -> list[Configuration]:
        if not args.config:
            return [Configuration("current", self.conf)]
        stems = [path.stem for path in args.config]
        names = stems if len({*stems}) == len(stems) else [*map(str, args.config)]
        return [
            Configuration(name, read_apart(PROGRAM, [f"--config-file={path}"]))
            for name, path in zip(names, args.config, strict=True)
        ]


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
            if run.failover and type(driver).decide is not FilterScheduler.decide:
                raise ValueError(f"{type(driver).__name__} protects no instances")
            simulation = _simulation(conf, hosts, driver.decide, args.build_time, run.failover)
            simulation.add_departures(given_input.leaves_at)
            began = monotonic()
            trace = given_input.trace
            result = simulation.run(run.arrivals, show, trace.is_as_decided if trace else None)
    except (PluginError, ValueError) as error:
        raise OperationRefused(f"configuration {run.configuration.name}: {error}") from None
    result.seconds = monotonic() - began
    document = {
        "configuration": run.name,
        "failover": run.failover,
        "seed": run.seed,
        "hosts": len(given_input.hosts),
        **result.document(),
    }
    if path is not None:
        _write(path, json.dumps(document, indent=1))
    return document


def _simulation(
    conf: cfg.ConfigOpts, hosts: HostTable, decide: Decide, build_time: float, failover: str | None
) -> Simulation:
    """Return a simulation whose flavor mix is the configured one, or learned on the way."""
    fixed = fixed_mix(MixSettings(conf.flavor_mix.flavors, conf.flavor_mix.half_life))
    requested = None
    if fixed:
        hosts.set_flavor_mix(fixed)
    else:
        requested = RequestedSizes(conf.flavor_mix.half_life, hosts.flavor_mix)
    return Simulation(hosts, decide, build_time, requested, failover)


def _result_path(args: Any, run: Run, hosts: HostTable, settings: Any) -> Path | None:
    """Return the file of a run, which has another name if anything about it is different."""
    if args.results is None:
        return None
    digest = hashlib.sha256()
    amounts = ("free_ram_mb", "vcpus_used", "free_disk_mb")
    columns = [getattr(hosts, name).tobytes() for name in (*amounts, *FLAGS)]
    settings = (settings, args.rack_size, run.failover)
    for part in (repr(run.arrivals), repr(settings), repr(hosts.flavor_mix), args.build_time):
        digest.update(str(part).encode())
    for column in columns:
        digest.update(column)
    name = f"{run.name}-{run.seed or 0}-{digest.hexdigest()[:16]}.json"
    found: Path = args.results / name.replace("/", "_")
    try:
        found.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperationRefused(f"cannot write {found}: {error.strerror}") from None
    return found


def _read_result(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
        return found
    except (OSError, ValueError) as error:
        raise OperationRefused(f"{path} cannot be read: {error}; remove this file") from None


def _write(path: Path, text: str) -> None:
    """Write a file, of which nobody sees a part only."""
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise OperationRefused(f"cannot write {path}: {error.strerror}") from None
