# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How many hosts a plan empties, and how many it could at most."""

from itertools import chain, repeat
from random import Random

import pytest

from scheduler.operators.planning.consolidation import consolidate, most_emptied
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import Budget
from tests.fleets import Guest, a_fleet

HOSTS = {"h1": 4, "h2": 16, "h3": 16}


def a_fleet_in_use(share: float, seed: int) -> Fleet:
    """Return 60 hosts of 32 GB with instances anywhere, which take such a share of the memory."""
    chance, free = Random(seed), {f"h{number:02}": 32 for number in range(60)}
    hosts, guests = dict(free), list[Guest]()
    while sum(hosts.values()) - sum(free.values()) < share * sum(hosts.values()):
        host, gb = chance.choice([*free]), chance.choice([1, 2, 4])
        if free[host] >= gb:
            free[host] -= gb
            guests.append(Guest(f"i{len(guests)}", host, gb))
    return a_fleet(hosts, guests)


@pytest.mark.parametrize("share", [0.2, 0.35, 0.5, 0.7])
def test_almost_as_many_hosts_are_emptied_as_could_be_by_volume(share: float) -> None:
    fleet = a_fleet_in_use(share, 1)
    most = most_emptied(fleet)
    # There is no time to search for something better.
    plan = consolidate(fleet, Budget(), 0, chain(repeat(True, 60), repeat(False)).__next__)
    assert most - 1 <= len(plan.result["emptied"]) <= most


@pytest.mark.parametrize(
    ("guests", "emptied"),
    [
        ([Guest("a", "h1", 4), Guest("b", "h2", 4), Guest("c", "h3", 8)], 2),
        # Both large hosts are needed.
        ([Guest("a", "h1", 4), Guest("b", "h2", 8), Guest("c", "h3", 5)], 1),
        # h1 is empty already, so that it neither counts nor takes anything.
        ([Guest("b", "h2", 16), Guest("c", "h3", 1)], 0),
        # More vCPUs are in use than hosts may give: they are not what bounds.
        ([Guest("a", "h2", 4, vcpus=200), Guest("b", "h3", 4)], 1),
        ([], 0),
    ],
)
def test_what_is_in_use_has_to_fit_on_the_hosts_that_stay(
    guests: list[Guest], emptied: int
) -> None:
    assert most_emptied(a_fleet(HOSTS, guests)) == emptied
