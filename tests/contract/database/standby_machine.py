# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Histories of protected instances: whichever failure domain dies, its instances have places."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from inventory import reservations, tables
from inventory.claims import claims
from inventory.claims.types import CONFIRMED
from inventory.operations import reservation_operations, service_operations
from scheduler.claims.protection import request_from_text
from scheduler.operators.reserving import SPREADS, NoRoom
from tests.builders import a_group
from tests.claimed import age_claims
from tests.contract.database.standby_cloud import HOSTS, Size, StandbyCloud, domain_of
from tests.databases import a_uuid

SIZES: tuple[Size, ...] = ((1, 2048, 5), (2, 4096, 10), (3, 2048, 30), (4, 12288, 20))
MODES = ("required", "required", "preferred", None)
GROUP = [a_uuid(f"member {number}") for number in range(3)]

host_names, sizes = st.sampled_from(HOSTS), st.sampled_from(SIZES)
modes, whiches = st.sampled_from(MODES), st.integers(0, 15)
schedulers = st.integers(0, 1)


class StandbyMachine(RuleBasedStateMachine):
    """One history on one database."""

    def __init__(self, cloud: StandbyCloud) -> None:
        super().__init__()
        self.cloud = cloud
        self.numbers = count()
        # What was asked for: (size, mode, is in the group), by uuid.
        self.asked: dict[str, tuple[Size, str | None, bool]] = {}
        # The hosts of guests, by uuid.
        self.guests: dict[str, tuple[str, Size]] = {}
        self.dead: set[str] = set()

    @initialize()
    def begin(self) -> None:
        self.cloud.begin()

    def ask(
        self, uuids: list[str], size: Size, mode: str | None, scheduler: int, **changes: Any
    ) -> list[str] | None:
        is_member = uuids[0] in GROUP
        if is_member:
            changes["instance_group"] = a_group(members=GROUP)
        found = self.cloud.ask(uuids, size, mode, scheduler, **changes)
        if found:
            self.asked.update(dict.fromkeys(uuids, (size, mode, is_member)))
        return found

    def new(self) -> str:
        return a_uuid(f"instance {next(self.numbers)}")

    @rule(size=sizes, mode=modes, scheduler=schedulers, number=st.integers(1, 3))
    def boot(self, size, mode, scheduler, number) -> None:
        self.ask([self.new() for _ in range(number)], size, mode, scheduler)

    @rule(size=sizes, scheduler=schedulers)
    def boot_a_member(self, size, scheduler) -> None:
        free = [uuid for uuid in GROUP if uuid not in self.asked]
        if free:
            self.ask(free[:1], size, "required", scheduler)

    @rule(size=sizes, number=st.integers(1, 12))
    def fill(self, size, number) -> None:
        for _ in range(number):
            if self.ask([self.new()], size, None, 0) is None:
                return

    @rule(size=sizes, other=sizes, mode=modes)
    def boot_at_the_same_time(self, size, other, mode) -> None:
        with ThreadPoolExecutor(2) as pool:
            for number, each in enumerate((size, other)):
                pool.submit(self.ask, [self.new()], each, mode, number)

    @staticmethod
    def one_of(things: list[Any], which: int) -> Any:
        """Return one of the things that are there, None without any.

        That is no precondition: what comes of two requests at the same time may differ.
        """
        return things[which % len(things)] if things else None

    def pending(self) -> list[Any]:
        table = tables.allocations
        query = sa.select(table).where(table.c.state != CONFIRMED).order_by(table.c.id)
        query = query.where(table.c.reservation_uuid.is_(None))
        return self.cloud.database.read(lambda connection: connection.execute(query).all())

    @rule(which=whiches)
    def arrive(self, which) -> None:
        """A guest starts where it was claimed for, and leaves the place where it was."""
        row = self.one_of(self.pending(), which)
        if row is None:
            return
        size, *_ = self.asked[row.instance_uuid]
        before = self.guests.get(row.instance_uuid)
        self.guests[row.instance_uuid] = (row.host, size)
        self.cloud.arrive(row.instance_uuid, row.host, size)
        if before is not None:
            self.cloud.leave(row.instance_uuid, before[0])

    @rule(which=whiches)
    def release(self, which) -> None:
        if (row := self.one_of(self.pending(), which)) is not None:
            self.cloud.write(claims.release, [row.instance_uuid])

    @rule(which=whiches)
    def end(self, which) -> None:
        if (uuid := self.one_of([*self.guests], which)) is not None:
            host, _ = self.guests.pop(uuid)
            self.cloud.leave(uuid, host)

    @rule(which=whiches, scheduler=schedulers, size=st.none() | sizes)
    def move(self, which, scheduler, size) -> None:
        """Migrate an instance, or resize it elsewhere."""
        uuid = self.one_of([*self.guests], which)
        if uuid is None:
            return
        host, own = self.guests[uuid]
        _, mode, _ = self.asked[uuid]
        if host in self.dead:
            # Nova resizes nothing there.
            size = None
        self.ask([uuid], size or own, mode, scheduler, ignore=[host])

    @rule(host=host_names)
    def audit(self, host) -> None:
        age_claims(self.cloud.database)
        self.cloud.audit(host)

    @rule(host=host_names, down=st.booleans())
    def switch(self, host, down) -> None:
        """A host is disabled for a while, or enabled again."""
        work = service_operations.disable if down else service_operations.enable
        self.cloud.write(work, [host])

    @rule(size=sizes, number=st.integers(1, 3), spread=st.sampled_from((None, *SPREADS)))
    def reserve(self, size, number, spread) -> None:
        with suppress(NoRoom):
            self.cloud.reserve_protected(f"r{next(self.numbers)}", size, number, spread=spread)

    @rule(which=whiches)
    def end_a_reservation(self, which) -> None:
        rows = self.cloud.database.read(reservations.rows)
        if (row := self.one_of([*rows], which)) is not None:
            self.cloud.write(reservation_operations.delete, [row.name])

    @rule(host=host_names, together=st.booleans(), scheduler=schedulers)
    def die(self, host, together, scheduler) -> None:
        """A host or its whole rack dies, and what was there is evacuated as far as possible."""
        dead = [each for each in HOSTS if each == host or together]
        dead = [each for each in dead if domain_of(each) == domain_of(host)]
        self.cloud.force_down(dead)
        self.dead |= {*dead}
        for uuid, (place, size) in list(self.guests.items()):
            if place in dead:
                _, mode, _ = self.asked[uuid]
                self.ask([uuid], size, mode, scheduler, ignore=[place])

    @rule(host=host_names)
    def come_back(self, host) -> None:
        self.cloud.force_down([host], down=False)
        self.dead -= {host}

    @rule(scheduler=schedulers)
    def keep(self, scheduler) -> None:
        self.cloud.keep(scheduler)

    @invariant()
    def usage_is_the_sum_of_what_is_there(self) -> None:
        assert self.cloud.usage() == self.cloud.expected_usage()

    @invariant()
    def no_standby_fails_with_its_place(self) -> None:
        names = {row.id: host for host, row in self.cloud.nodes().items()}
        for row in self.cloud.standbys():
            if row.compute_node_id is not None:
                assert domain_of(names[row.compute_node_id]) != domain_of(names[row.place_node_id])

    def teardown(self) -> None:
        if not hasattr(self.cloud, "schedulers"):
            return
        self.cloud.keep()
        if self.is_a_place_leaving():
            # Until it has left, another domain would be the second one to die at the same time, and
            # standbys of two domains share their room.
            self.cloud.keep()
        for domain in sorted({domain_of(host) for host in HOSTS}):
            with self.cloud.copy():
                self.a_domain_dies(domain)
        super().teardown()

    def is_a_place_leaving(self) -> bool:
        """Return whether a free place on a dead host has a standby, where the next look moves it.

        One look finds the standby of a place whose own is lost as well, the next one follows it.
        """
        places, held = self.cloud.places(), self.cloud.held()
        free = [each for each in places.values() if each.taken_by is None]
        return any(each.host in self.dead and held.get(each.instance_uuid) for each in free)

    def a_domain_dies(self, domain: str) -> None:
        """Evacuate all protected instances of a domain, and ask for others in between."""
        names = {row.id: host for host, row in self.cloud.nodes().items()}
        moving = {row.instance_uuid for row in self.pending()}
        lost, free, places = [], [], self.cloud.places()
        for row in self.cloud.standbys():
            place = places.get(row.instance_uuid)
            uuid = place.taken_by if place else row.instance_uuid
            host, _ = self.guests.get(uuid, (None, None))
            if domain_of(names[row.place_node_id]) != domain or row.compute_node_id is None:
                continue
            if place and uuid is None:
                free.append(place.instance_uuid)
            # An instance may need another standby than its place has.
            is_its_own = place is None or request_from_text(row.request).instance_uuid == uuid
            if host == names[row.place_node_id] and uuid not in moving and is_its_own:
                lost.append((uuid, host))
        self.cloud.force_down([host for host in HOSTS if domain_of(host) == domain])
        asked = dict(self.asked)
        for number, (uuid, host) in enumerate(reversed(lost)):
            size, mode, _ = self.asked[uuid]
            self.ask([self.new()], SIZES[number % len(SIZES)], None, number % 2)
            size = self.guests[uuid][1]
            found = self.ask([uuid], size, mode, number % 2, ignore=[host])
            assert found, f"{uuid} on {host} has no place"
            assert domain_of(found[0]) != domain
            self.usage_is_the_sum_of_what_is_there()
        self.cloud.keep()
        places = self.cloud.places()
        for uuid in free:
            # Others of the project may have taken it by now.
            assert domain_of(places[uuid].host) != domain, f"{uuid} is lost"
        self.usage_is_the_sum_of_what_is_there()
        self.asked = asked
