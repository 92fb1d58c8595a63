# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Room that nodes hold for instances that are not there: for standbys and for reservations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from inventory.errors import counted, joined, some
from inventory.objects.amounts import NAMES, NOTHING, Amounts, amounts_facts, plus
from inventory.objects.standby import DomainSums


@dataclass(frozen=True, slots=True)
class Promises:
    """What a node holds, or several do.

    standbys is the room for all standbys, of which domains have what each failure domain would
    bring. places has what is held for reservations, by (name, project).
    """

    standbys: Amounts = NOTHING
    domains: DomainSums = field(default_factory=dict)
    places: Mapping[tuple[str, str], Amounts] = field(default_factory=dict)

    @property
    def reserved(self) -> Amounts:
        """What is held for all reservations."""
        return reduce(plus, self.places.values(), NOTHING)

    @property
    def held(self) -> Amounts:
        """All that is held, which is part of what is used of the node."""
        return plus(self.standbys, self.reserved)

    def lines(self, resource: int | None = None) -> list[tuple[str, Amounts]]:
        """Return for what room is held, and how much: for standbys, then for each reservation.

        With the place of a resource among the amounts, only those that hold some of it.
        """

        def holds(amounts: Amounts) -> bool:
            return any(amounts) if resource is None else amounts[resource] > 0

        domains = [name for name, amounts in self.domains.items() if holds(amounts)]
        noun = "domain" if len(domains) == 1 else "domains"
        found = [(f"standbys of {noun} {some(domains)}", self.standbys)] if domains else []
        for (name, project), amounts in sorted(self.places.items()):
            if holds(amounts):
                found.append((f"reservation {name} of project {project}", amounts))
        return found

    def holders(self, resource: int | None = None) -> str:
        """Return for what room is held: "standbys of domain a and reservation b of project c"."""
        return joined(what for what, _ in self.lines(resource))

    def facts(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "standbys": amounts_facts(self.standbys),
            "domains": {name: amounts_facts(each) for name, each in self.domains.items()},
            "reservations": [
                {"name": name, "project": project, **amounts_facts(each)}
                for (name, project), each in sorted(self.places.items())
            ],
        }


def total(every: Iterable[Promises]) -> Promises:
    """Return what several nodes hold together."""
    domains: defaultdict[str, Amounts] = defaultdict(lambda: NOTHING)
    places: defaultdict[tuple[str, str], Amounts] = defaultdict(lambda: NOTHING)
    standbys = NOTHING
    for each in every:
        standbys = plus(standbys, each.standbys)
        for name, amounts in each.domains.items():
            domains[name] = plus(domains[name], amounts)
        for key, amounts in each.places.items():
            places[key] = plus(places[key], amounts)
    return Promises(standbys, domains, places)


def amounts_text(amounts: Amounts) -> str:
    """Return amounts as "2 vCPUs, 4096 MB of memory, 0 MB of disk"."""
    vcpus, memory_mb, disk_mb = amounts
    return f"{counted(vcpus, 'vCPU')}, {memory_mb} MB of memory, {disk_mb} MB of disk"


def facts_text(facts: Mapping[str, Any]) -> str:
    """Return amounts_text() of what has amounts by their names."""
    vcpus, memory_mb, disk_mb = (facts[name] for name in NAMES)
    return amounts_text((vcpus, memory_mb, disk_mb))
