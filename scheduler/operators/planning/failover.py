# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Evacuate the hosts of a failure domain as though they died now: what has a place, and where."""

from collections.abc import Iterator
from typing import NamedTuple

from inventory.objects.aggregate import FAILURE_DOMAIN
from scheduler.hosts.aggregate_metadata import split_values
from scheduler.hosts.table import HostTable
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import KeepGoing, MovePlan, Resident
from scheduler.operators.planning.unplanned import explain_unplanned


class FailureDomain(NamedTuple):
    """The rows of hosts that fail together, or of one host for itself."""

    name: str
    rows: list[int]
    is_host: bool = False


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
        names = split_values(hosts.get(row, "aggregates"), FAILURE_DOMAIN) - {""}
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
    residents = _residents(fleet, domain)
    with fleet.losing(domain.rows):
        refused = [*_refused(fleet, domain, keep_going)]
        unplanned = explain_unplanned(fleet, refused)
    outcome = Outcome(len(residents), len(fleet.moves), len(refused))
    hosts = sorted({fleet.place(row).host for row in domain.rows})
    result = {"domain": domain.name, "hosts": hosts, **outcome._asdict()}
    result["reached"] = outcome.placed == outcome.instances
    return MovePlan("failover", fleet.moves, unplanned, result)


def count_places(fleet: Fleet, domain: FailureDomain, keep_going: KeepGoing) -> Outcome:
    """Return what the loss of a domain would come to; the fleet stays as it is."""
    residents, mark = _residents(fleet, domain), fleet.mark()
    with fleet.losing(domain.rows):
        refused = len([*_refused(fleet, domain, keep_going)])
    placed = len(fleet.moves)
    fleet.roll_back(mark)
    return Outcome(len(residents), placed, refused)


def _residents(fleet: Fleet, domain: FailureDomain) -> list[Resident]:
    found = [each for row in domain.rows for each in fleet.on(row)]
    return sorted(found, key=lambda each: each.size_order)


def _refused(fleet: Fleet, domain: FailureDomain, keep_going: KeepGoing) -> Iterator[Resident]:
    """Evacuate the residents of a domain that is lost; yield those that have no place."""
    for each in _residents(fleet, domain):
        if not keep_going():
            return
        row = None if each.fixed else fleet.best(fleet.request(each))
        if row is None:
            yield each
        else:
            fleet.move(each, row, f"{domain.name} is lost")
