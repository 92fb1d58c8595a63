# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Who decides: each returns what a decision cost and the hosts that it chose."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from oslo_config import cfg

from benchmarks import comparable
from benchmarks.comparable import Fleet, Wish
from benchmarks.nova import Peer
from conf import loading
from scheduler import plugins
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision
from scheduler.hosts.host_state import HostState
from scheduler.hosts.table import HostTable


class Turn(NamedTuple):
    """Milliseconds of the processor for one decision, and the hosts."""

    ms: float
    hosts: Sequence[str]


class Ours:
    """Decides as the service does between the view and the claim.

    That the hosts' services are alive is written anew before each decision, as the view does.
    """

    def __init__(self, hosts: HostTable, settings: Mapping[str, Any]) -> None:
        conf = cfg.ConfigOpts()
        loading.read(conf, "berthmaster-scheduler", [], "")
        for name, value in settings.items():
            conf.set_override(name, value, "filter_scheduler")
        # Nova's loop has the filters that are listed, and no others.
        conf.set_override("bounded_resources", [], "claims")
        self.driver = plugins.load_driver(conf)
        self._hosts = hosts
        self._ages = np.zeros(hosts.size)

    def decide(self, wish: Wish, instances: int = 1, times: int = 1) -> Turn:
        """Decide so many times in a row; what a decision takes does not stay taken."""
        request = Request(comparable.a_request(wish), comparable.uuids(instances))
        began = time.process_time()
        for _ in range(times):
            decision = self.decided(request)
        ms = 1000 * (time.process_time() - began) / times
        return Turn(ms, [each.chosen.host for each in decision.placements])

    def answer(self, wish: Wish) -> Turn:
        """Decide for one instance, and take what it takes from the hosts, as the view does."""
        request = Request(comparable.a_request(wish), comparable.uuids(1))
        began = time.process_time()
        decision = self.decided(request)
        for each in decision.placements:
            HostState.of(self._hosts, each.chosen.row).consume_from_request(request.spec)
        ms = 1000 * (time.process_time() - began)
        return Turn(ms, [each.chosen.host for each in decision.placements])

    def decided(self, request: Request) -> Decision:
        """Return what the driver decides."""
        self._hosts.fill("heartbeat_age", self._ages)
        return self.driver.decide(self._hosts.working_copy(), request)


class Nova:
    """Nova's own loop, in its own process."""

    def __init__(self, peer: Peer, fleet: Fleet) -> None:
        self._peer = peer
        peer.ask("fleet", fleet.hosts, fleet.aggregate_sets, fleet.members, comparable.SUPPORTED)

    def set(self, settings: Mapping[str, Any]) -> None:
        """Decide with these options from now on."""
        self._peer.ask("settings", settings)

    def decide(self, wish: Wish, instances: int = 1) -> Turn:
        """Decide; what it takes does not stay taken."""
        return self._asked(wish, instances, keep=False)

    def answer(self, wish: Wish) -> Turn:
        """Decide for one instance, which takes from the hosts what it takes."""
        return self._asked(wish, 1, keep=True)

    def _asked(self, wish: Wish, instances: int, keep: bool) -> Turn:
        seconds, hosts = self._peer.ask("decide", asdict(wish), instances, keep)
        return Turn(1000 * seconds, hosts)


class Numpy:
    """What one would write by hand for this one question: masks, a sum of shares, the best host.

    For each instance all hosts are looked at again. There are no plug-ins, no reasons, no names
    but those of the hosts, and nobody else who could want something else.
    """

    _TAKEN = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_io_ops")

    def __init__(self, fleet: Fleet) -> None:
        names = [name for name in fleet.hosts[0] if name != "host"]
        self._columns = {name: np.array([each[name] for each in fleet.hosts]) for name in names}
        self._names = [each["host"] for each in fleet.hosts]
        self._up = np.ones(len(self._names), np.bool_)
        self._age = np.zeros(len(self._names))
        sets = [_io_ops_multiplier(each) for each in fleet.aggregate_sets]
        self._io_ops = np.array([sets[row % len(sets)] for row in range(len(self._names))])

    def decide(self, wish: Wish, instances: int = 1, times: int = 1) -> Turn:
        """Decide so many times in a row; copying what is taken is not counted."""
        took = 0.0
        for _ in range(times):
            columns = self._columns | {name: self._columns[name].copy() for name in self._TAKEN}
            began = time.process_time()
            chosen = [self._place(columns, wish.flavor) for _ in range(instances)]
            took += time.process_time() - began
        return Turn(1000 * took / times, [self._names[row] for row in chosen])

    def _place(self, columns: Mapping[str, Any], flavor: Mapping[str, int]) -> int:
        row = self._best(columns, flavor)
        columns["free_ram_mb"][row] -= flavor["memory_mb"]
        columns["free_disk_mb"][row] -= 1024 * flavor["root_gb"]
        columns["vcpus_used"][row] += flavor["vcpus"]
        columns["num_io_ops"][row] += 1
        return row

    def _best(self, columns: Mapping[str, Any], flavor: Mapping[str, int]) -> int:
        vcpus = columns["vcpus_total"] * columns["cpu_allocation_ratio"] - columns["vcpus_used"]
        ram = _free(columns, "ram", columns["total_usable_ram_mb"], columns["free_ram_mb"])
        disk = _free(
            columns, "disk", 1024 * columns["total_usable_disk_gb"], columns["free_disk_mb"]
        )
        passing = self._up & (self._age < 60.0)
        passing &= (ram >= flavor["memory_mb"]) & (vcpus >= flavor["vcpus"])
        passing &= disk >= 1024 * flavor["root_gb"]
        rows = np.flatnonzero(passing)
        weights = _share(columns["free_ram_mb"][rows], low=0)
        weights += _share(vcpus[rows], low=0)
        weights += _share(columns["free_disk_mb"][rows], low=0)
        weights += self._io_ops[rows] * _share(columns["num_io_ops"][rows])
        weights -= 1_000_000.0 * _share(columns["failed_builds"][rows])
        weights += _share(columns["hypervisor_version"][rows])
        return int(rows[weights.argmax()])


def _free(columns: Mapping[str, Any], name: str, total: Any, free: Any) -> Any:
    """Return what is free of a resource, overcommit included."""
    return total * columns[f"{name}_allocation_ratio"] - (total - free)


def _share(raw: Any, low: float | None = None) -> Any:
    least, most = raw.min() if low is None else low, raw.max()
    return (raw - least) / (most - least) if most > least else np.zeros(len(raw))


def _io_ops_multiplier(aggregates: Sequence[tuple[int, Mapping[str, str]]]) -> float:
    found = [words.get("io_ops_weight_multiplier") for _, words in aggregates]
    return min((float(each) for each in found if each is not None), default=-1.0)
