# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Evacuate the hosts of a failure domain as though they died now: what has a place, and where."""

from typing import Any, NamedTuple

from scheduler.hosts.failure_domains import named_domains
from scheduler.hosts.table import HostTable
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import KeepGoing, MovePlan, Resident
from scheduler.operators.planning.unplanned import explain_unplanned


class FailureDomain(NamedTuple):
    """The rows of hosts that fail together, or of one host for itself."""

    name: str
    rows: list[int]
    is_host: bool = False

    def facts(self, hosts: HostTable, outcome: "Outcome") -> dict[str, Any]:
        """Return what programs are told of the loss of the domain."""
        names = sorted({hosts.get(row, "host") for row in self.rows})
        return {"domain": self.name, "hosts": names, **outcome._asdict()}


class Outcome(NamedTuple):
    """How many instances a domain has, and how many of them would have a place and would not.

    Where the search was interrupted, these are not all.
    """

    instances: int
    placed: int
    refused: int


def failure_domains(hosts: HostTable) -> list[FailureDomain]:
    """Return the domains that aggregates name, then each host that is in none of them, by name.

    A host is in all domains that its aggregates name.
    """
    named: dict[str, list[int]] = {}
    alone: dict[str, list[int]] = {}
    for row in sorted(hosts.rows()):
        names = named_domains(hosts.get(row, "aggregates"))
        for name in names:
            named.setdefault(name, []).append(row)
        if not names:
            alone.setdefault(hosts.get(row, "host"), []).append(row)
    found = [FailureDomain(name, named[name]) for name in sorted(named)]
    return found + [FailureDomain(name, alone[name], is_host=True) for name in sorted(alone)]


def simulate(fleet: Fleet, domain: FailureDomain, keep_going: KeepGoing) -> MovePlan:
    """Return the evacuations after the loss of a domain, and why other instances have no place.

    The largest instances go first, as in all plans. Nothing else moves to make room for them.
    """
    with fleet.losing(domain.rows):
        outcome, refused = _evacuate(fleet, domain, keep_going)
        unplanned = explain_unplanned(fleet, refused)
    result = {**domain.facts(fleet.hosts, outcome), "reached": outcome.placed == outcome.instances}
    return MovePlan("failover", fleet.moves, unplanned, result)


def count_places(fleet: Fleet, domain: FailureDomain, keep_going: KeepGoing) -> Outcome:
    """Return what the loss of a domain would come to; the fleet stays as it is."""
    mark = fleet.mark()
    with fleet.losing(domain.rows):
        outcome, _ = _evacuate(fleet, domain, keep_going)
    fleet.roll_back(mark)
    return outcome


def _evacuate(
    fleet: Fleet, domain: FailureDomain, keep_going: KeepGoing
) -> tuple[Outcome, list[Resident]]:
    """Evacuate the residents of a domain that is lost; return those that have no place, too."""
    residents = [each for row in domain.rows for each in fleet.on(row)]
    refused = []
    for each in sorted(residents, key=lambda each: each.size_order):
        if not keep_going():
            break
        row = None if each.fixed else fleet.best(fleet.request(each))
        if row is None:
            refused.append(each)
        else:
            fleet.move(each, row, f"{domain.name} is lost")
    return Outcome(len(residents), len(fleet.moves), len(refused)), refused
