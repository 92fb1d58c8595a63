# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What callers of a storm wrote down: each time that they asked, and each answer that came.

A log has a line of JSON for each event. "asked" has request, build, attempt, instances, size,
group, zone, protected and promised; "answered" has request, build, attempt, outcome, reason and
places; "unanswered" says that the caller stopped waiting for an attempt, "left" that an instance
has ended. The same request id with a higher build is the
reschedule of an instance whose build has failed. All have at, in seconds of the callers' clock.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLACED, REFUSED, UNAVAILABLE = "placed", "NoValidHost", "ServiceUnavailable"
# What a request gets that comes after a later build of its own was claimed.
OUTDATED = "a later attempt of the same request holds the claim"


@dataclass(frozen=True, slots=True)
class Size:
    """What something takes of a node."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.vcpus + other.vcpus, self.memory_mb + other.memory_mb, self.disk_mb + other.disk_mb
        )

    def beyond(self, limits: Mapping[str, float | None]) -> list[str]:
        """Return what is above limits that are named and measured as those of filters."""
        used = {"vcpu": self.vcpus, "memory_mb": self.memory_mb, "disk_gb": self.disk_mb / 1024}
        return [
            f"{name} {used[name]:g} of {limits[name]:g}"
            for name in used
            if limits.get(name) is not None and used[name] > limits[name]
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """A server group with a hard policy; most is how many of it may share a host."""

    uuid: str
    policy: str
    most: int = 1

    def broken(self, hosts: Mapping[str, int]) -> list[str]:
        """Return the hosts on which so many members are too many, or one too far away."""
        if self.policy == "affinity":
            return sorted(hosts) if len(hosts) > 1 else []
        return sorted(host for host, number in hosts.items() if number > self.most)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instance was placed, and how far that node may be filled."""

    host: str
    node: str
    limits: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for an attempt; heard by the caller unless it waited no more for that."""

    at: float
    attempt: int
    outcome: str
    reason: str = ""
    places: tuple[Place, ...] = ()
    heard: bool = True

    @property
    def final(self) -> bool:
        """Tell whether the caller need not ask again."""
        return self.outcome != UNAVAILABLE

    @property
    def outdated(self) -> bool:
        """Tell whether it says that the caller has gone on since."""
        return self.outcome == "InvalidInput" and OUTDATED in self.reason

    @property
    def hosts(self) -> tuple[str, ...]:
        """The destinations, in the order of the instances."""
        return tuple(f"{each.host}/{each.node}" for each in self.places)


@dataclass(slots=True)
class Request:
    """One request, asked once or several times in the same words.

    For attempts up to given_up nobody waits any more; after is the request for the next build. left
    are the instances that have ended. With promised its instance has to be placed.
    """

    id: str
    build: int
    instances: list[str]
    size: Size
    group: Group | None = None
    began: float = 0.0
    zone: str | None = None
    protected: bool = False
    promised: bool = False
    attempts: int = 0
    given_up: int = 0
    after: "Request | None" = None
    answers: list[Answer] = field(default_factory=list)
    left: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"request {self.id} build {self.build}" if self.build > 1 else f"request {self.id}"

    @property
    def doubled(self) -> bool:
        """Tell whether there was an attempt that nobody waited for, or one delivered twice."""
        return self.given_up > 0 or any(not each.heard for each in self.answers)

    @property
    def rescheduled(self) -> bool:
        """Tell whether its build failed and the caller asked for another host."""
        return self.after is not None

    @property
    def over(self) -> bool:
        """Tell whether the caller has heard in the end that there is no host.

        An attempt that was late may find one after all; it holds it until its lease ends.
        """
        each: Request | None = self
        while each is not None:
            if each.ended and not each.placed:
                return True
            each = each.after
        return False

    @property
    def placed(self) -> Answer | None:
        """The answer that told the caller of destinations."""
        return self.ended if self.ended and self.ended.outcome == PLACED else None

    @property
    def ended(self) -> Answer | None:
        """The answer after which the caller did not ask again."""
        return next((each for each in self.answers if each.heard and each.final), None)


def read(paths: Iterable[Path]) -> list[Request]:
    """Return the requests of some logs in the order in which they were asked first."""
    return collected(sorted(events(paths), key=lambda event: event["at"]))


def events(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield what is written in logs."""
    for path in paths:
        yield from map(json.loads, path.read_text().splitlines())


def collected(logged: Iterable[Mapping[str, Any]]) -> list[Request]:
    """Return the requests that events, in the order of their times, tell of."""
    found: dict[tuple[str, int], Request] = {}
    for event in logged:
        # That is an operator's; see benchmarks.orders.
        if event["event"] == "ordered":
            continue
        key = event["request"], event["build"]
        if event["event"] == "asked":
            request = found.setdefault(key, _request(event))
            before = found.get((event["request"], event["build"] - 1))
            if before:
                before.after = request
            request.attempts = event["attempt"]
            request.given_up = request.attempts - 1
        elif event["event"] == "unanswered":
            found[key].given_up = event["attempt"]
        elif event["event"] == "left":
            found[key].left |= {*event["instances"]}
        elif event["event"] == "answered":
            request = found[key]
            # What the broker delivers again, after a connection was cut, is answered again.
            waits = not request.rescheduled and request.ended is None
            heard = waits and event["attempt"] > request.given_up
            request.answers.append(_answer(event, heard))
    return list(found.values())


def last_places(requests: Iterable[Request]) -> Iterator[tuple[str, Request, Place]]:
    """Yield each placed instance with its last request that has destinations, and its own one.

    A reschedule that is refused is the end of an instance: where it was before, it has failed.
    """
    last: dict[str, tuple[Request, Place]] = {}
    for request in sorted(requests, key=lambda each: each.build):
        if request.placed:
            for uuid, place in zip(request.instances, request.placed.places, strict=False):
                last[uuid] = request, place
        elif request.ended:
            for uuid in request.instances:
                last.pop(uuid, None)
    for uuid, (request, place) in last.items():
        if uuid not in request.left:
            yield uuid, request, place


def _request(event: Mapping[str, Any]) -> Request:
    group = Group(**event["group"]) if event["group"] else None
    size = Size(**event["size"])
    return Request(
        event["request"],
        event["build"],
        event["instances"],
        size,
        group,
        began=event["at"],
        zone=event.get("zone"),
        protected=event.get("protected", False),
        promised=event.get("promised", False),
    )


def _answer(event: Mapping[str, Any], heard: bool) -> Answer:
    places = tuple(Place(**each) for each in event["places"])
    return Answer(event["at"], event["attempt"], event["outcome"], event["reason"], places, heard)
