# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a seed draws: a cloud, what is asked of it and when, and what breaks.

All of it is a list of events with numbers, so that a history can be played with some left out.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from scheduler.operators.reserving import SPREADS
from tests.simulation import broker, database

REQUEST, MOVE, OPERATOR, FAULT = "request", "move", "operator", "fault"
# A host dies with its guests, which are evacuated; it comes back empty.
LOSS = "loss of a host"
# The cloud is one of Nova's from the beginning.
NOVA = "a Nova cloud"
# (vCPUs, memory in MB, disk in GB) of the flavors, the small ones more often.
FLAVORS = ((1, 1024, 1), (1, 1024, 1), (2, 2048, 2), (4, 2048, 4))
# Those without an owner of their own, and those that reservations and aggregates are for.
PROJECTS = ("red", "red", "blue")
# Who may use isolated hosts, and whom reservations are for.
TENANT = "red"
# Seconds for which an instance lives that is not deleted.
FOREVER = 1e9
# How many faults there are for each request, and operations.
FAULTS, OPERATIONS = 0.5, 0.4
# Faults of processes and of the whole cloud, besides those of a transaction and of a message.
KILL, STALL, SKEW, SILENCE, NO_BROKER = "kill", "stall", "clock jumps", "database", "broker"
STOP = "stop"
# Of a Nova cloud: its databases do not answer, or a transaction of a mirror there is lost.
NOVA_SILENCE, NOVA_LOST = "Nova's databases", "Nova's database lost"
CALM = 0.2
MIRRORS = ("mirror-0", "mirror-1")
# How many histories are of a Nova cloud.
NOVA_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Event:
    """What happens at a time, in seconds since the beginning; how is by its kind."""

    number: int
    at: float
    kind: str
    how: dict[str, Any] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.kind} " + ", ".join(f"{key} {each}" for key, each in self.how.items())


@dataclass(frozen=True, slots=True)
class Plan:
    """A cloud and its events. Each host has these vCPUs, and 2 GB and 4 GB of disk for each."""

    seed: int
    schedulers: int
    hosts: int
    vcpus: int
    events: tuple[Event, ...]
    # How many NUMA cells each host has, and two devices then.
    cells: int = 0

    @classmethod
    def of(cls, seed: int, requests: int) -> "Plan":
        """Return what a seed draws."""
        chance = random.Random(f"plan {seed}")
        schedulers, hosts = chance.choice((2, 2, 3)), chance.choice((2, 3, 4))
        names = [f"scheduler-{each}" for each in range(schedulers)]
        agents = [f"host-{each}" for each in range(hosts)]
        # Many in a short time contend for the same hosts.
        duration = requests * chance.choice((0.01, 0.05, 0.2, 0.5))
        found = [
            (0.5 + 0.3 * each, OPERATOR, how) for each, how in enumerate(_prepared(chance, agents))
        ]
        found += [_request(chance, number, duration) for number in range(requests)]
        for _ in range(int(OPERATIONS * requests)):
            at = 1 + chance.uniform(0, duration + 2)
            found.append((at, OPERATOR, _operation(chance, agents, requests)))
        if chance.random() > CALM:
            for _ in range(int(FAULTS * requests)):
                at = chance.uniform(0, duration + 3)
                found.append((at, FAULT, _fault(chance, names, agents)))
        found.sort(key=lambda each: each[0])
        # Drawn apart and numbered behind, so that the numbers of all others stay what they were.
        found += sorted(_further(random.Random(f"further {seed}"), agents, requests, duration))
        more = random.Random(f"more {seed}")
        cells = more.choice((0, 2))
        also = [*_more(more, (names, agents), requests, duration)]
        also += _exact(more, requests, duration) if cells else []
        found += sorted(also, key=lambda each: each[0])
        # No two losses: what is evacuated is not evacuated again meanwhile.
        lost = [] if any(kind == LOSS for _, kind, _ in found) else agents
        apart = random.Random(f"places {seed}")
        places = _protected_places(apart, (agents, lost), requests, duration)
        found += sorted(places, key=lambda each: each[0])
        found += [*_nova(random.Random(f"Nova {seed}"), requests, duration)]
        events = tuple(Event(number, *each) for number, each in enumerate(found))
        return cls(seed, schedulers, hosts, chance.choice((4, 6, 24)), events, cells)

    def only(self, numbers: Collection[int]) -> "Plan":
        """Return the plan with these events alone, and with cells if one of them asks for some."""
        kept = tuple(each for each in self.events if each.number in numbers)
        cells = self.cells if any("cells" in each.how for each in kept) else 0
        return replace(self, events=kept, cells=cells)

    @property
    def is_nova(self) -> bool:
        """Whether it is a Nova cloud, whose hosts have no cells and do not die."""
        return any(each.kind == NOVA for each in self.events)

    @property
    def ends(self) -> float:
        """When the last event is."""
        return max((each.at for each in self.events), default=0.0)


def uuid_of(number: int, place: int) -> str:
    """Return the uuid of an instance of a request."""
    return str(UUID(int=number * 100 + place + 1))


def _prepared(chance: random.Random, hosts: list[str]) -> Iterator[dict[str, Any]]:
    if len(hosts) > 2 and chance.random() < 0.5:
        yield {"does": "rack", "hosts": hosts[:2]}
    if chance.random() < 0.4:
        yield {"does": "reserve", "name": "first", "places": chance.randint(1, 2)}
    if chance.random() < 0.3:
        yield {"does": "isolate", "host": chance.choice(hosts)}


def _request(chance: random.Random, number: int, duration: float) -> tuple[float, str, Any]:
    at = 1 + chance.uniform(0, duration)
    if number > 3 and chance.random() < 0.1:
        return at, MOVE, {"of": chance.randrange(number)}
    group = chance.choice((None, None, None, "apart", "apart", "together"))
    how: dict[str, Any] = {
        "request": number,
        "instances": chance.choice((1, 1, 1, 2, 3)),
        "flavor": chance.randrange(len(FLAVORS)),
        "project": chance.choice(PROJECTS),
        "lives": chance.choice((0.5, 3.0, 20.0, FOREVER)),
    }
    if group:
        how["group"] = f"{group}-{chance.randrange(2)}"
    elif chance.random() < 0.25:
        how["protected"] = chance.choice(("required", "preferred"))
    if chance.random() < 0.25:
        # How many builds fail: then alternates are tried, and then another request.
        how["fails"] = chance.randint(1, 3)
    if chance.random() < 0.1:
        how["abandoned"] = True
    return at, REQUEST, how


def _further(
    chance: random.Random, hosts: list[str], requests: int, duration: float
) -> Iterator[tuple[float, str, Any]]:
    def at() -> float:
        return 1 + chance.uniform(0, duration + 3)

    if chance.random() < 0.3:
        yield at(), LOSS, {"of": chance.choice(hosts), "seconds": chance.choice((8.0, 40.0))}
    for _ in range(requests // 6):
        how = {"of": chance.randrange(requests), "flavor": chance.randrange(len(FLAVORS))}
        yield at(), MOVE, how | {"goes": chance.random() < 0.5, "reverts": chance.random() < 0.3}
    for _ in range(requests // 6):
        yield at(), OPERATOR, {"does": "look"}
    for number in range(requests // 6):
        _, _, how = _request(chance, 0, duration)
        more = {"group": "apart-2", "protected": chance.choice(("required", "preferred"))}
        yield at(), REQUEST, how | more | {"request": requests + number, "instances": 1}


def _more(
    chance: random.Random, names: tuple[list[str], list[str]], requests: int, duration: float
) -> Iterator[tuple[float, str, Any]]:
    def at() -> float:
        return 1 + chance.uniform(0, duration + 3)

    schedulers, hosts = names
    for _ in range(max(1, requests // 12)):
        yield at(), OPERATOR, {"does": "look", "host": chance.choice(hosts)}
        yield at(), OPERATOR, {"does": "prune"}
        yield at(), OPERATOR, {"does": "release", "of": chance.randrange(requests)}
        how = {"of": chance.choice(schedulers), "seconds": chance.choice((0.1, 2.0))}
        yield at(), FAULT, {"breaks": STOP, **how}
        how = {"does": "plan", "of": chance.randrange(requests), "host": chance.choice(hosts)}
        yield at(), OPERATOR, how | {"logged": True}
        yield at(), OPERATOR, _operation(chance, hosts, requests) | {"logged": True}
    if chance.random() < 0.5:
        yield from _unreported(at(), hosts, 3 * requests)


def _unreported(at: float, hosts: list[str], number: int) -> Iterator[tuple[float, str, Any]]:
    """Move an instance while all agents are away, which have not reported it; others want room."""
    how = {"flavor": len(FLAVORS) - 1, "project": PROJECTS[0]}
    for host in hosts:
        yield at, FAULT, {"breaks": KILL, "of": host, "seconds": 10.0}
    yield at + 0.1, REQUEST, {"request": number, "instances": 1, "lives": FOREVER, **how}
    yield at + 3.5, MOVE, {"of": -1}
    yield at + 4.5, REQUEST, {"request": number + 1, "instances": 2, "lives": 3.0, **how}


def _exact(
    chance: random.Random, requests: int, duration: float
) -> Iterator[tuple[float, str, Any]]:
    """Draw requests for instances with NUMA cells and devices, in no group and without standbys."""
    for number in range(requests // 3):
        at, _, how = _request(chance, 0, duration)
        how |= {"request": 2 * requests + number, "cells": chance.randint(1, 2)}
        how |= {"pinned": chance.random() < 0.5, "devices": chance.choice((0, 0, 1, 2))}
        how.pop("group", None)
        how.pop("protected", None)
        # Where a build has failed, the first call comes once more after the second.
        yield at, REQUEST, how | {"late": True}


def _protected_places(
    chance: random.Random, hosts: tuple[list[str], list[str]], requests: int, duration: float
) -> Iterator[tuple[float, str, Any]]:
    """Draw reservations whose places have standbys, instances for these, and a loss.

    hosts are all, and those that may be lost.
    """

    def at() -> float:
        return 1 + chance.uniform(0, duration + 3)

    if chance.random() < 0.4:
        return
    kind = {"flavor": chance.choice((0, 2)), "failover": True}
    for when, name in ((0.9, "vital"), (at(), chance.choice(("vital", "spare")))):
        how = {"does": "reserve", "name": name, "places": chance.randint(1, 3), **kind}
        yield when, OPERATOR, how | {"spread": chance.choice((None, *SPREADS))}
    if chance.random() < 0.4:
        yield at() + 3, OPERATOR, {"does": "unreserve", "name": "vital"}
    for number in range(requests // 4):
        when, _, how = _request(chance, 0, duration)
        how |= {"request": 4 * requests + number, "project": TENANT, "flavor": kind["flavor"]}
        how.pop("group", None)
        yield when, REQUEST, how
    for number in range(requests // 12):
        yield at(), MOVE, {"of": -1 - number, "flavor": 2, "goes": chance.random() < 0.5}
    yield at(), OPERATOR, {"does": "look", "host": chance.choice(hosts[0])}
    if hosts[1] and chance.random() < 0.8:
        how = {"of": chance.choice(hosts[1]), "seconds": chance.choice((8.0, 40.0))}
        yield at() + 1, LOSS, how


def _nova(
    chance: random.Random, requests: int, duration: float
) -> Iterator[tuple[float, str, Any]]:
    """Draw whether it is a Nova cloud, and what breaks of its mirrors and databases then."""
    if chance.random() >= NOVA_SHARE:
        return
    yield 0.0, NOVA, {}
    for _ in range(requests // 2 if chance.random() > CALM else 0):
        at, of = chance.uniform(0, duration + 20), chance.choice(MIRRORS)
        how: dict[str, Any] = {"seconds": chance.choice((0.1, 1.0, 8.0)), "of": of}
        drawn = chance.random()
        if drawn < 0.4:
            how = {"breaks": chance.choice(database.FAULTS), "of": of}
        elif drawn < 0.8:
            how["breaks"] = chance.choice((KILL, KILL, STOP, STALL, SKEW, NOVA_LOST))
        else:
            how = {"breaks": NOVA_SILENCE, "seconds": chance.choice((1.0, 8.0, 40.0))}
        yield at, FAULT, how


def _operation(chance: random.Random, hosts: list[str], requests: int) -> dict[str, Any]:
    does = chance.choice(
        ("plan", "plan", "disable", "disable", "enable", "isolate", "share", "reserve", "unreserve")
    )
    if does in ("reserve", "unreserve"):
        more = {"places": chance.randint(1, 3)} if does == "reserve" else {}
        return {"does": does, "name": chance.choice(("first", "second")), **more}
    if does == "plan":
        return {"does": does, "of": chance.randrange(requests), "host": chance.choice(hosts)}
    return {"does": does, "host": chance.choice(hosts)}


def _fault(chance: random.Random, schedulers: list[str], agents: list[str]) -> dict[str, Any]:
    of = chance.choice((*schedulers, *schedulers, *agents))
    seconds = chance.choice((0.1, 1.0, 8.0))
    drawn = chance.random()
    if drawn < 0.4:
        return {"breaks": chance.choice(database.FAULTS), "of": of}
    if drawn < 0.8:
        return {"breaks": chance.choice(broker.FAULTS)}
    breaks = chance.choice((KILL, KILL, STALL, SKEW, SILENCE, NO_BROKER))
    if breaks in (SILENCE, NO_BROKER):
        return {"breaks": breaks, "seconds": chance.choice((1.0, 1.0, 8.0, 40.0))}
    return {"breaks": breaks, "of": of, "seconds": seconds}
