# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The smallest changes with which an instance without a host would have fitted."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inventory.errors import counted, joined
from inventory.fits import whole_gb
from scheduler.analysis.diagnosis import Rejection, host_name
from scheduler.decision.plugin_calls import applies, mask_of
from scheduler.hosts.columns import total
from scheduler.hosts.host_state import HostState
from scheduler.hosts.resources import KINDS
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

# The column that changes, and its direction, when some of a resource is freed.
_FREED = {
    **{kind.name: (kind.column, 1 if kind.counts_free else -1) for kind in KINDS},
    "instances": ("num_instances", -1),
    "io_ops": ("num_io_ops", -1),
}
_WORDS = {
    **{kind.name: kind.words for kind in KINDS},
    "instances": ("instance", "instances"),
    "io_ops": ("instance busy with input and output", "instances busy with input and output"),
}
# The resources of which no request can ask for less.
_COUNTED = ("instances", "io_ops")
# How many hosts are tried for each that is returned: other filters may refuse the change.
_TRIES = 20


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A host on which the instance would fit but for some amounts, or for a single rule.

    lacks says how much is missing of each resource; see ResourceShortfall. smaller is set where the
    request without these amounts passes all filters, freed where the same request does once the
    host has these amounts more free.
    Without lacks there is the only_obstacle: the filter or rule that refuses the host, and why.
    hosts counts this host and those of which the same can be said.
    """

    host: str
    nodename: str
    lacks: Mapping[str, int]
    smaller: bool = False
    freed: bool = False
    only_obstacle: tuple[str, str] | None = None
    text: str = ""
    hosts: int = 1


@dataclass(frozen=True, slots=True)
class RefusedInstance:
    """An instance without a host, and all rules that reject hosts for it.

    hosts is a working copy of the table as of the decision; amounts change in it, and change back.
    """

    hosts: HostTable
    spec: RequestSpec
    rejections: Sequence[Rejection]

    def near_misses(
        self, rows: Iterable[int], most: int, pause: Callable[[], None] = lambda: None
    ) -> list[NearMiss]:
        """Return the hosts of these rows on which it almost fits: the nearest, at most `most`.

        They are followed by hosts with a single rejection, as many again: for each rule the first
        reasons before the second ones, those with an amount in front, the least one first. Hosts
        of which the same can be said are one near miss. pause is called before each try.
        """
        # By what is missing, and by the rule with its reason.
        amounts: dict[tuple[tuple[str, int], ...], list[int]] = {}
        single: dict[tuple[str, str], list[int]] = {}
        missing: dict[tuple[str, str], float] = {}
        for row in rows:
            here = [each for each in self.rejections if each.refused[row]]
            lacks = _lacks(here, row)
            if lacks:
                amounts.setdefault(tuple(lacks.items()), []).append(row)
            elif len(here) == 1:
                why = here[0].refusal(row)
                key = why.filter, why.reason
                if key not in single:
                    lack = here[0].lack(row)
                    missing[key] = lack.amount if lack else math.inf
                single.setdefault(key, []).append(row)
        found = self._possible(amounts, most, pause)
        single = dict(sorted(single.items(), key=lambda each: missing[each[0]]))
        return found + [self._single(*each) for each in _in_turns(single)[:most]]

    def _possible(
        self,
        amounts: Mapping[tuple[tuple[str, int], ...], list[int]],
        most: int,
        pause: Callable[[], None],
    ) -> list[NearMiss]:
        """Return the nearest of the changes that help, at most `most`."""
        found: list[NearMiss] = []
        tries = 0
        for key in sorted(
            amounts, key=lambda each: (_distance(dict(each), self.spec), amounts[each])
        ):
            for row in amounts[key]:
                if len(found) == most or tries == _TRIES * most:
                    return found
                pause()
                tries += 1
                miss = self._tried(row, dict(key), len(amounts[key]))
                if miss is not None:
                    found.append(miss)
                    break
        return found

    def _tried(self, row: int, lacks: Mapping[str, int], hosts: int) -> NearMiss | None:
        """Return a near miss with the changes that help, None where none does."""
        less = _less(self.spec, lacks)
        smaller = less is not None and self._passes(row, less)
        self._free(row, lacks, 1)
        freed = self._passes(row, self.spec)
        self._free(row, lacks, -1)
        if not smaller and not freed:
            return None
        host, node = self.hosts.get(row, "host"), self.hosts.get(row, "nodename")
        text = _sentence(_names(host, node, hosts), lacks, smaller, freed)
        return NearMiss(host, node, lacks, smaller, freed, text=text, hosts=hosts)

    def _single(self, why: tuple[str, str], rows: Sequence[int]) -> NearMiss:
        """Return the near miss of hosts that are refused for one reason only."""
        host, node = (self.hosts.get(rows[0], name) for name in ("host", "nodename"))
        text = f"{_names(host, node, len(rows))}, were it not for {why[0]}: {why[1]}"
        return NearMiss(host, node, {}, only_obstacle=why, text=text, hosts=len(rows))

    def _free(self, row: int, lacks: Mapping[str, int], sign: int) -> None:
        state = HostState.of(self.hosts, row)
        for resource, amount in lacks.items():
            column, direction = _FREED[resource]
            setattr(state, column, getattr(state, column) + sign * direction * amount)

    def _passes(self, row: int, spec: RequestSpec) -> bool:
        self.hosts.candidates = np.arange(self.hosts.size) == row
        filters = (each.rule for each in self.rejections if each.rule is not None)
        used = (each for each in filters if applies(each, spec))
        return all(mask_of(each, self.hosts, spec)[row] for each in used)


def _in_turns(
    single: Mapping[tuple[str, str], list[int]],
) -> list[tuple[tuple[str, str], list[int]]]:
    """Return reasons with their hosts: the first of each filter, then the second ones."""
    seen: Counter[str] = Counter()
    places: dict[tuple[str, str], int] = {}
    for key in single:
        seen[key[0]] += 1
        places[key] = seen[key[0]]
    return sorted(single.items(), key=lambda each: (places[each[0]], each[1][0]))


def _names(host: str, node: str, count: int) -> str:
    """Return the name of a host, and how many others there are instead of it."""
    others = f" or {count - 1} other {'host' if count == 2 else 'hosts'}" if count > 1 else ""
    return f"{host_name(host, node)}{others}"


def _lacks(rejections: Sequence[Rejection], row: int) -> Mapping[str, int] | None:
    """Return the amounts that a host lacks, None where a rejection is no matter of amounts."""
    lacks: dict[str, int] = {}
    for each in rejections:
        lack = each.lack(row)
        if lack is None or lack.resource not in _FREED:
            return None
        lacks[lack.resource] = max(lack.amount, lacks.get(lack.resource, 0))
    return lacks


def _distance(lacks: Mapping[str, int], spec: RequestSpec) -> float:
    """Return the sum of the changes, each as a part of the requested amount."""
    requested = {each: 1 if each in _COUNTED else max(1, getattr(spec, each)) for each in lacks}
    return total(amount / requested[name] for name, amount in lacks.items())


def _less(spec: RequestSpec, lacks: Mapping[str, int]) -> RequestSpec | None:
    """Return the request without what it lacks, None where nothing would remain of it."""
    flavor = spec.plain_flavor
    root_gb = flavor.root_gb - whole_gb(lacks.get("disk_mb", 0))
    vcpus = flavor.vcpus - lacks.get("vcpus", 0)
    memory_mb = flavor.memory_mb - lacks.get("memory_mb", 0)
    if vcpus < 1 or memory_mb < 1 or root_gb < 0 or not lacks.keys().isdisjoint(_COUNTED):
        return None
    less = replace(flavor, vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb)
    return replace(spec, flavor=less)


def _sentence(host: str, lacks: Mapping[str, int], smaller: bool, freed: bool) -> str:
    """Return what would have helped, as "1 vCPU less, or 1 vCPU more free on c12"."""
    less = joined(_amount(name, amount, whole=True) for name, amount in lacks.items())
    more = [_amount(name, lacks[name]) for name in lacks if name not in _COUNTED]
    fewer = [_amount(name, lacks[name]) for name in lacks if name in _COUNTED]
    parts = [f"{joined(more)} more free"] if more else []
    parts += [f"{joined(fewer)} fewer"] if fewer else []
    free = f"{joined(parts)} on {host}"
    if not smaller:
        return free
    return f"{less} less, or {free}" if freed else f"{less} less, for {host}"


def _amount(resource: str, amount: int, whole: bool = False) -> str:
    """Return an amount of a resource in words; whole rounds disk up to GB."""
    if resource == "disk_mb" and whole:
        return f"{whole_gb(amount)} GB of disk"
    return counted(amount, *_WORDS[resource])
