# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The smallest changes with which an instance that was refused would have fitted."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable
from scheduler.decision.obstacles import Obstacle
from scheduler.decision.plugin_calls import applies, mask_of
from scheduler.objects.request_spec import RequestSpec

# The column that changes, and its direction, when some of a resource is given back.
_GIVEN_BACK = {
    "vcpus": ("vcpus_used", -1),
    "memory_mb": ("free_ram_mb", 1),
    "disk_mb": ("free_disk_mb", 1),
    "instances": ("num_instances", -1),
    "io_ops": ("num_io_ops", -1),
}
# The resources of which no request can ask for less.
_COUNTED = ("instances", "io_ops")
# So many hosts are tried for each that is told: other filters may not like the change.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A host on which the instance would fit but for some amounts, or for a single obstacle.

    lacks says how much is missing of each resource; see Lack. smaller says that a request for so
    much less passes all filters there, and freed that this one does once so much was given back.
    Without lacks there is the only_obstacle: the filter or rule that refuses the host, and why.
    """

    host: str
    nodename: str
    lacks: Mapping[str, int]
    smaller: bool = False
    freed: bool = False
    only_obstacle: tuple[str, str] | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Refused:
    """An instance that no host takes, and all that was in its way.

    hosts is a working copy of the table as it was then; amounts change in it, and change back.
    """

    hosts: HostTable
    spec: RequestSpec
    obstacles: Sequence[Obstacle]

    def near_misses(
        self, rows: Iterable[int], most: int, pause: Callable[[], None] = lambda: None
    ) -> list[NearMiss]:
        """Return the hosts of these rows on which it almost fits: the nearest, at most that many.

        They are followed by hosts with a single obstacle, as many again: for each rule the first
        ones before the second ones. pause is called before each try.
        """
        amounts: list[tuple[float, int, Mapping[str, int]]] = []
        single: list[tuple[int, int, Obstacle]] = []
        seen: Counter[str] = Counter()
        for row in rows:
            here = [each for each in self.obstacles if each.refused[row]]
            lacks = _lacks(here, row)
            if lacks:
                amounts.append((_distance(lacks, self.spec), row, lacks))
            elif len(here) == 1:
                seen[here[0].name] += 1
                single.append((seen[here[0].name], row, here[0]))
        found = []
        for _, row, lacks in sorted(amounts, key=lambda each: each[:2])[: _TRIES * most]:
            pause()
            miss = self._tried(row, lacks)
            if miss is not None:
                found.append(miss)
            if len(found) == most:
                break
        single.sort(key=lambda each: each[:2])
        return found + [self._single(row, each) for _, row, each in single[:most]]

    def _tried(self, row: int, lacks: Mapping[str, int]) -> NearMiss | None:
        """Return a near miss with what has been tried of it; None where no change is of use."""
        less = _less(self.spec, lacks)
        smaller = less is not None and self._passes(row, less)
        self._give_back(row, lacks, 1)
        freed = self._passes(row, self.spec)
        self._give_back(row, lacks, -1)
        if not smaller and not freed:
            return None
        place = self._place(row)
        text = _sentence(_called(*place), lacks, smaller, freed)
        return NearMiss(*place, lacks, smaller, freed, text=text)

    def _single(self, row: int, obstacle: Obstacle) -> NearMiss:
        place, reason = self._place(row), obstacle.reason(row)
        text = f"{_called(*place)}, were it not for {obstacle.name}: {reason}"
        return NearMiss(*place, {}, only_obstacle=(obstacle.name, reason), text=text)

    def _place(self, row: int) -> tuple[str, str]:
        return self.hosts.get(row, "host"), self.hosts.get(row, "nodename")

    def _give_back(self, row: int, lacks: Mapping[str, int], sign: int) -> None:
        state = HostState.of(self.hosts, row)
        for resource, amount in lacks.items():
            column, direction = _GIVEN_BACK[resource]
            setattr(state, column, getattr(state, column) + sign * direction * amount)

    def _passes(self, row: int, spec: RequestSpec) -> bool:
        self.hosts.candidates = np.arange(self.hosts.size) == row
        filters = (each.rule for each in self.obstacles if each.rule is not None)
        asked = (each for each in filters if applies(each, spec))
        return all(mask_of(each, self.hosts, spec)[row] for each in asked)


def _lacks(obstacles: Sequence[Obstacle], row: int) -> Mapping[str, int] | None:
    """Return what a host lacks, None where something else is in the way."""
    lacks: dict[str, int] = {}
    for each in obstacles:
        lack = each.lack(row)
        if lack is None or lack.resource not in _GIVEN_BACK:
            return None
        lacks[lack.resource] = max(lack.amount, lacks.get(lack.resource, 0))
    return lacks


def _distance(lacks: Mapping[str, int], spec: RequestSpec) -> float:
    """Return how large the changes are, beside what the request wants of each resource."""
    wanted = {each: 1 if each in _COUNTED else max(1, getattr(spec, each)) for each in lacks}
    return float(sum(amount / wanted[name] for name, amount in lacks.items()))


def _less(spec: RequestSpec, lacks: Mapping[str, int]) -> RequestSpec | None:
    """Return a request for so much less, None where nothing would be left of it."""
    flavor = spec.flavor
    root_gb = flavor.root_gb - _gigabytes(lacks.get("disk_mb", 0))
    vcpus = flavor.vcpus - lacks.get("vcpus", 0)
    memory_mb = flavor.memory_mb - lacks.get("memory_mb", 0)
    if vcpus < 1 or memory_mb < 1 or root_gb < 0 or not lacks.keys().isdisjoint(_COUNTED):
        return None
    less = replace(flavor, vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb)
    return replace(spec, flavor=less)


def _gigabytes(megabytes: int) -> int:
    """Return as much of whole GB; flavors have no smaller ones."""
    return -(-megabytes // 1024)


def _sentence(host: str, lacks: Mapping[str, int], smaller: bool, freed: bool) -> str:
    """Say what would have helped, as "1 vCPU less, or 1 vCPU more free on c12"."""
    less = " and ".join(_amount(name, amount, whole=True) for name, amount in lacks.items())
    more = [_amount(name, lacks[name]) for name in lacks if name not in _COUNTED]
    fewer = [_amount(name, lacks[name]) for name in lacks if name in _COUNTED]
    parts = [f"{' and '.join(more)} more free"] if more else []
    parts += [f"{' and '.join(fewer)} fewer"] if fewer else []
    there = f"{' and '.join(parts)} on {host}"
    if not smaller:
        return there
    return f"{less} less, or {there}" if freed else f"{less} less, for {host}"


def _amount(resource: str, amount: int, whole: bool = False) -> str:
    """Return so much of a resource in words; disk in GB if it must be whole ones."""
    match resource:
        case "vcpus":
            return f"{amount} vCPU{'s' if amount > 1 else ''}"
        case "memory_mb":
            return f"{amount} MB of memory"
        case "disk_mb":
            return f"{_gigabytes(amount)} GB of disk" if whole else f"{amount} MB of disk"
        case "instances":
            return f"{amount} instance{'s' if amount > 1 else ''}"
        case _:
            return f"{amount} instance{'s' if amount > 1 else ''} busy with input and output"


def _called(host: str, nodename: str) -> str:
    return host if host == nodename else f"{host} ({nodename})"
