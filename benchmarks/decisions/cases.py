# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The cases that are decided, and who takes part in each how often."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks import comparable
from benchmarks.comparable import Fleet, Wish

SPREAD, STACK = "spread", "stack"
DEFAULT, COMPARABLE = "default", "comparable"
ANTI_AFFINITY, AFFINITY = "anti-affinity", "affinity"
# Options of filter_scheduler, which are called the same on either side.
STACKING = {f"{each}_weight_multiplier": -1.0 for each in ("ram", "cpu", "disk")}
COMMON = {
    "enabled_filters": ["ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter"]
}
# Nova takes part up to so many hosts times instances; numpy up to so many instances.
MOST_FOR_NOVA, MOST_FOR_NUMPY = 100_000, 100
# About how many hosts times instances Nova decides on in all turns of a case, one at least.
_OF_THE_MATRIX, _OF_A_VARIANT = 30_000, 20_000
# A case of so much does not warm up: what is warm is so by the smaller ones before.
_MUCH = 10_000


@dataclass(frozen=True, slots=True)
class Case:
    """So many hosts, so many instances of one request, and what makes it another one."""

    hosts: int
    instances: int = 1
    weighing: str = SPREAD
    grouped: float = 0
    aggregate_sets: int = 40
    list: str = DEFAULT
    policy: str = ANTI_AFFINITY
    rivals: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return what figures say of it; what goes without saying is left out."""
        words = ("hosts", "instances", "weighing", "grouped", "aggregate_sets")
        found = {each: getattr(self, each) for each in words}
        if self.list != DEFAULT:
            found["list"] = self.list
        if self.policy != ANTI_AFFINITY:
            found["policy"] = self.policy
        return found

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the matrix of hosts and instances."""
        return self == Case(self.hosts, self.instances, rivals=self.rivals)

    def fleet(self) -> Fleet:
        """Return the hosts."""
        return comparable.fleet(self.hosts, self.aggregate_sets, self.grouped)

    def wish(self, fleet: Fleet) -> Wish:
        """Return what is asked for."""
        if not self.grouped:
            return comparable.PLAIN
        return fleet.in_group(self.policy, self.instances)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the options to decide with."""
        stacking = STACKING if self.weighing == STACK else {}
        return {**stacking, **(COMMON if self.list == COMPARABLE else {})}

    @property
    def with_nova(self) -> bool:
        """Whether it is a matter of seconds for Nova."""
        return self.rivals and self.hosts * self.instances <= MOST_FOR_NOVA

    @property
    def with_numpy(self) -> bool:
        """Whether bare numpy has an answer to it."""
        return self.is_plain and self.rivals and self.instances <= MOST_FOR_NUMPY

    def turns_of_nova(self, turns: int) -> tuple[int, int]:
        """Return how often Nova decides to warm up, and how often it is measured after that."""
        work = self.hosts * self.instances
        most = _OF_THE_MATRIX if self.is_plain else _OF_A_VARIANT
        return int(work < _MUCH), min(turns, max(1, most // work))


def _matrix() -> Iterator[Case]:
    yield from (Case(*each) for each in product((100, 1_000, 10_000, 100_000), (1, 10, 100, 1_000)))


def _variants(hosts: int) -> Iterator[Case]:
    for instances in (1, 10):
        yield Case(hosts, instances, weighing=STACK)
        yield Case(hosts, instances, grouped=0.1)
        yield Case(hosts, instances, aggregate_sets=2_000)
    yield Case(hosts, list=COMPARABLE)


def _groups(hosts: int) -> Iterator[Case]:
    yield Case(hosts, rivals=False)
    yield Case(hosts, grouped=0.1, rivals=False)
    yield Case(hosts, grouped=0.1, policy=AFFINITY, rivals=False)


WHOLE: Sequence[Case] = (*_matrix(), *_variants(10_000), *_groups(5_000))
QUICK: Sequence[Case] = (Case(100), Case(100, 10), Case(1_000), Case(10_000))


def by_fleet(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Yield the cases that are about the same hosts."""
    found: dict[tuple[Any, ...], list[Case]] = {}
    for each in cases:
        found.setdefault((each.hosts, each.grouped, each.aggregate_sets), []).append(each)
    yield from found.values()
