# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Histories of reservations, requests, guests, moves and audits on two hosts.

After each step the sum of what is there is used, no host is over its limits, and places are those
of the model, which is kept in plain Python.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import Guest
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, reservations
from inventory.claims import claims
from inventory.claims.types import Claim, ClaimLost, ClaimRequest
from inventory.engine import Database
from inventory.objects.amounts import Amounts
from inventory.operations import reservation_operations
from inventory.operations.reservation_operations import NewReservation
from inventory.tables import allocations
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from scheduler.host_cache.cache import HostCache
from scheduler.select_destinations.destinations import Destinations
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.claimed import let_pass
from tests.databases import a_uuid, empty, serve
from tests.fixtures import agent

HOSTS = ("alpha", "beta")
CPUS = 6
PROJECTS = ("p1", "p2", "p3")
SIZES = (1, 2, 3)
LONG_AGO = "2020-01-01 00:00:00.000000"
LATER = datetime(2090, 1, 1)
PLAN = Plan([RamFilter(), CoreFilter(), DiskFilter()], [RAMWeigher()])
names, hosts, sizes = st.sampled_from("abc"), st.sampled_from(HOSTS), st.sampled_from(SIZES)
projects, whiches = st.sampled_from(PROJECTS), st.integers(0, 9)


def amounts(size: int) -> Amounts:
    return (size, 1024 * size, 1024 * size)


@dataclass
class Place:
    """A place as the model has it."""

    project: str
    host: str
    size: int
    by: str | None = None
    begun: bool = True
    # The name of the reservation that has it next, and how it is then.
    next: tuple[str, "Place"] | None = None


@dataclass
class Model:
    """What is there: sizes of pending claims and of guests by (instance, host).

    seen are the guests that agents have seen.
    """

    places: dict[str, dict[str, Place]] = field(default_factory=dict)
    pending: dict[tuple[str, str], int] = field(default_factory=dict)
    guests: dict[tuple[str, str], int] = field(default_factory=dict)
    seen: dict[tuple[str, str], int] = field(default_factory=dict)
    # The places of pending claims.
    claim_places: dict[tuple[str, str], str] = field(default_factory=dict)
    projects: dict[str, str] = field(default_factory=dict)

    def all_places(self) -> list[tuple[str, Place]]:
        return [pair for each in self.places.values() for pair in each.items()]

    def counted(self, host: str) -> int:
        """Return what is used of a host as agents have counted it, or claims have changed it."""
        used = sum(
            size for (_, at), size in (*self.pending.items(), *self.seen.items()) if at == host
        )
        return used + sum(
            self.held(uuid) for uuid, place in self.all_places() if place.host == host
        )

    def held(self, uuid: str) -> int:
        """Return what a place has more than what has taken it: a claim, or the guest since."""
        place = dict(self.all_places())[uuid]
        if place.by is None:
            return place.size
        at = place.by, place.host
        takes = self.pending[at] if self.claim_places.get(at) == uuid else self.seen.get(at, 0)
        return max(0, place.size - takes)

    def fitting(self, project: str, size: int) -> list[str]:
        return [
            uuid
            for uuid, place in self.all_places()
            if place.by is None and place.begun and place.project == project
            if place.size >= size
        ]

    def end(self, name: str, begins: bool) -> None:
        """Let a reservation end, and the next ones have its places."""
        for uuid, place in self.places.pop(name).items():
            if place.next is not None:
                following, then = place.next
                then.by, then.begun = place.by, begins
                self.places[following][uuid] = then
        for _, place in self.all_places():
            if place.next is not None and place.next[0] == name:
                place.next = None


class PlacesMachine(RuleBasedStateMachine):
    """One history on one database."""

    def __init__(self, database: Database, confs: dict[str, cfg.ConfigOpts]) -> None:
        super().__init__()
        self.database, self.confs = database, confs
        self.numbers = count()

    @initialize()
    def begin(self) -> None:
        empty(self.database)
        self.model = Model()
        self.drivers = {host: FakeDriver(conf) for host, conf in self.confs.items()}
        self.services = dict(zip(HOSTS, serve(self.database, *HOSTS), strict=True))
        self.trackers = {
            host: ResourceTracker(conf, self.database, self.drivers[host])
            for host, conf in self.confs.items()
        }
        for host in HOSTS:
            self.audit(host)
        self.schedulers = [self._scheduler() for _ in range(2)]

    def _scheduler(self) -> Destinations:
        cache = HostCache(self.database, max_age=1e9)
        settings = ClaimSettings(alternates=False)
        claimer = Claimer(self.database, settings, cache.apply_changes)
        return Destinations(self.database, cache, FilterScheduler(PLAN), claimer=claimer)

    # Reservations.

    @rule(
        name=names,
        project=st.sampled_from(PROJECTS[:2]),
        size=sizes,
        where=st.lists(hosts, min_size=1, max_size=3),
    )
    def reserve(self, name: str, project: str, size: int, where: list[str]) -> None:
        if name in self.model.places:
            return
        fits = all(self.model.counted(host) + size * where.count(host) <= CPUS for host in {*where})
        made = {a_uuid(f"place {next(self.numbers)}"): Place(project, host, size) for host in where}
        nodes = {row.host: row.id for row in self.database.read(compute_nodes.all_live)}
        limits = {"vcpu": float(CPUS)}
        wanted = [
            Claim(uuid, nodes[each.host], each.host, each.host, *amounts(size), limits)
            for uuid, each in made.items()
        ]
        new, request = (
            NewReservation(name, project, amounts(size), ends_at=LATER),
            ClaimRequest(None, "", wanted, 0),
        )
        try:
            self.database.write(lambda c: reservation_operations.create(c, new, request))
        except ClaimLost:
            assert not fits
        else:
            assert fits
            self.model.places[name] = made

    @precondition(lambda self: self.model.places)
    @rule(which=whiches)
    def delete(self, which: int) -> None:
        name = sorted(self.model.places)[which % len(self.model.places)]
        self.database.write(lambda c: reservation_operations.delete(c, [name]))
        self.model.end(name, begins=False)
        for host in HOSTS:
            self.audit(host)

    @precondition(lambda self: self.model.places)
    @rule(name=names, project=st.sampled_from(PROJECTS[:2]), size=sizes, which=whiches)
    def reserve_later(self, name: str, project: str, size: int, which: int) -> None:
        """The free places of a reservation are promised to another one when that ends."""
        before = sorted(self.model.places)[which % len(self.model.places)]
        free = {
            uuid: place
            for uuid, place in self.model.places[before].items()
            if place.by is None and place.next is None and place.size >= size
        }
        (row,) = (each for each in self.database.read(reservations.rows) if each.name == before)
        if name in self.model.places or not free or row.ends_at is None:
            return
        nodes = {each.host: each.id for each in self.database.read(compute_nodes.all_live)}
        wanted = [
            Claim(
                *(a_uuid(f"later {uuid}"), nodes[each.host], each.host, each.host, *amounts(size)),
                place=uuid,
            )
            for uuid, each in free.items()
        ]
        new = NewReservation(name, project, amounts(size), starts_at=row.ends_at)
        request = ClaimRequest(None, "", wanted, 0)
        self.database.write(lambda c: reservation_operations.create(c, new, request))
        self.model.places[name] = {}
        for place in free.values():
            place.next = name, Place(project, place.host, size)

    @precondition(lambda self: self.model.places)
    @rule(which=whiches)
    def end_by_time(self, which: int) -> None:
        """The time of a reservation comes; both hosts are audited."""
        name = sorted(self.model.places)[which % len(self.model.places)]
        (row,) = (each for each in self.database.read(reservations.rows) if each.name == name)
        if row.ends_at is None:
            return
        for change in (
            f"UPDATE allocations SET expires_at = '{LONG_AGO}' WHERE reservation_uuid = :uuid",
            f"UPDATE reservations SET ends_at = '{LONG_AGO}' WHERE uuid = :uuid",
            f"UPDATE reservations SET starts_at = '{LONG_AGO}' WHERE uuid IN (SELECT"
            " next_reservation_uuid FROM allocations WHERE reservation_uuid = :uuid)",
        ):
            self.database.write(
                lambda c, change=change: c.execute(sa.text(change), {"uuid": row.uuid})
            )
        self.model.end(name, begins=True)
        for host in HOSTS:
            self.audit(host)
        self.database.write(lambda c: reservation_operations.delete(c, [name]))

    # Instances.

    @rule(project=projects, size=sizes, number=st.integers(1, 2), which=st.integers(0, 1))
    def request(self, project: str, size: int, number: int, which: int) -> None:
        """Request instances of a project: they take its places, and get into no other project's."""
        uuids = [a_uuid(f"instance {next(self.numbers)}") for _ in range(number)]
        self._ask(project, size, uuids, which)

    @precondition(lambda self: self.model.seen)
    @rule(which=whiches, scheduler=st.integers(0, 1), grows=st.booleans())
    def move(self, which: int, scheduler: int, grows: bool) -> None:
        """An instance that was seen is to go to another host, or may stay as it grows."""
        places = sorted(self.model.seen)
        uuid, host = places[which % len(places)]
        if (uuid, host) not in self.model.guests or self._pending_of(uuid):
            return
        size = min(3, self.model.seen[uuid, host] + grows)
        ignored = None if grows else [host]
        self._ask(self.model.projects[uuid], size, [uuid], scheduler, ignore_hosts=ignored)

    def _ask(self, project, size, uuids, which, **changes) -> None:
        model = self.model
        free = {host: CPUS - model.counted(host) for host in HOSTS}
        out = {*(changes.get("ignore_hosts") or ())}
        fitting = [
            each for each in model.fitting(project, size) if self._place(each).host not in out
        ]
        room = sum(max(0, free[host]) // size for host in HOSTS if host not in out)
        sizes = {"vcpus": size, "memory_mb": 1024 * size, "root_gb": size}
        spec = a_request(project_id=project, **sizes, **changes)
        context = RequestContext(request_id=f"req-{next(self.numbers)}")
        if not which:
            self.schedulers[which].host_cache.refresh_if_older(0, fresh=True)
        try:
            answers = self.schedulers[which].select(SelectArguments(spec, uuids), context)
        except NoValidHost:
            assert len(fitting) + room < len(uuids)
            return
        assert len(fitting) + room >= len(uuids)
        taken = self._taken()
        for uuid, (selection, *_) in zip(uuids, answers, strict=True):
            model.projects[uuid] = project
            model.pending[uuid, selection.service_host] = size
            mine = [each for each, by in taken.items() if by == uuid]
            fresh = [each for each in mine if self._place(each).by is None]
            assert len(fresh) <= 1
            assert {*fresh} <= {*fitting}
            if fitting and not which:
                # The cache is new: the smallest place comes first.
                (place,) = fresh
                assert self._place(place).size == min(self._place(each).size for each in fitting)
            for place in fresh:
                fitting.remove(place)
                self._place(place).by = uuid
                model.claim_places[uuid, selection.service_host] = place

    @precondition(lambda self: self.model.pending)
    @rule(which=whiches)
    def release(self, which: int) -> None:
        uuid, _ = sorted(self.model.pending)[which % len(self.model.pending)]
        self.database.write(lambda c: claims.release(c, [uuid]))
        for at in self._pending_of(uuid):
            del self.model.pending[at]
            place = self.model.claim_places.pop(at, None)
            for each, mine in self.model.all_places():
                if each == place:
                    mine.by = None

    @precondition(lambda self: self.model.pending)
    @rule(which=whiches)
    def a_lease_ends(self, which: int) -> None:
        uuid, host = sorted(self.model.pending)[which % len(self.model.pending)]
        late = sa.text(
            f"UPDATE allocations SET expires_at = '{LONG_AGO}'"
            " WHERE instance_uuid = :uuid AND state = 'pending'"
        )
        self.database.write(lambda c: c.execute(late, {"uuid": uuid}))
        at = uuid, host
        if self.model.guests.get(at) != self.model.pending[at]:
            del self.model.pending[at]
            self.model.claim_places.pop(at, None)
        self.audit(host)

    @precondition(lambda self: self.model.pending)
    @rule(which=whiches)
    def start(self, which: int) -> None:
        """The guest comes, or is resized where it is."""
        uuid, host = sorted(self.model.pending)[which % len(self.model.pending)]
        size = self.model.pending[uuid, host]
        if (uuid, host) in self.model.guests:
            self.drivers[host].remove_guest(host, uuid)
        self.model.guests[uuid, host] = size
        self.drivers[host].add_guest(host, Guest(uuid, uuid, size, 1024 * size, root_gb=size))
        self.audit(host)

    @precondition(lambda self: self.model.guests)
    @rule(which=whiches)
    def end(self, which: int) -> None:
        """A guest ends, or has left for where it has come."""
        uuid, host = sorted(self.model.guests)[which % len(self.model.guests)]
        if (uuid, host) in self.model.pending:
            return
        del self.model.guests[uuid, host]
        self.drivers[host].remove_guest(host, uuid)
        self.audit(host)

    @rule(host=hosts)
    def audit(self, host: str) -> None:
        let_pass(self.database, 30)
        self.trackers[host].audit({host: self.services[host]})
        model = self.model
        model.seen = {at: size for at, size in model.seen.items() if at[1] != host}
        model.seen |= {at: size for at, size in model.guests.items() if at[1] == host}
        for uuid, at in [*model.pending]:
            if at == host and model.guests.get((uuid, at)) == model.pending[uuid, at]:
                del model.pending[uuid, at]
                model.claim_places.pop((uuid, at), None)
        for _, place in model.all_places():
            if place.host == host and place.by and not self._is_on(place.by, host):
                place.by = None
        # An instance keeps the smallest place that it fits into.
        by: dict[str, list[Place]] = defaultdict(list)
        for uuid, place in sorted(model.all_places(), key=lambda pair: pair[0]):
            is_claimed = model.claim_places.get((place.by or "", host)) == uuid
            if place.host == host and place.by and not is_claimed:
                by[place.by].append(place)
        for uuid, taken in by.items():
            size = model.seen[uuid, host]
            kept = min(taken, key=lambda each, size=size: (each.size < size, each.size))
            for place in taken:
                place.by = uuid if place is kept else None

    # What holds after every step.

    @invariant()
    def usage_is_the_sum(self) -> None:
        rows = {row.host: row for row in self.database.read(compute_nodes.all_live)}
        for host in HOSTS:
            used = self.model.counted(host)
            row = rows[host]
            found = row.vcpus_used, row.memory_mb_used, row.disk_mb_used, row.claims
            pending = sum(at == host for _, at in self.model.pending)
            assert found == (*amounts(used), pending), host

    @invariant()
    def no_host_is_over_its_limits(self) -> None:
        for host in HOSTS:
            assert self.model.counted(host) <= CPUS

    @invariant()
    def places_are_those_of_the_model(self) -> None:
        expected = {uuid: place.by for uuid, place in self.model.all_places()}
        assert self._taken() == expected

    def _taken(self) -> dict[str, str | None]:
        c = allocations.c
        query = sa.select(c.instance_uuid, c.taken_by).where(c.reservation_uuid.is_not(None))
        return dict(map(tuple, self.database.read(lambda each: each.execute(query).all())))

    def _place(self, uuid: str) -> Place:
        return dict(self.model.all_places())[uuid]

    def _pending_of(self, uuid: str) -> list[tuple[str, str]]:
        return [each for each in self.model.pending if each[0] == uuid]

    def _is_on(self, uuid: str, host: str) -> bool:
        return (uuid, host) in self.model.pending or (uuid, host) in self.model.seen


def configurations(directory: Path) -> dict[str, cfg.ConfigOpts]:
    """Return the options of the agents of both hosts."""
    found = {}
    for host in HOSTS:
        (directory / host).mkdir()
        options = {"compute_driver": "fake", "host": host, "reserved_host_memory_mb": 0}
        fake = {"vcpus": CPUS, "memory_mb": 1024 * CPUS, "local_gb": CPUS}
        ratios = {f"initial_{each}_allocation_ratio": 1.0 for each in ("cpu", "ram", "disk")}
        found[host] = agent.options(directory / host, DEFAULT=options | ratios, fake=fake)
    return found
