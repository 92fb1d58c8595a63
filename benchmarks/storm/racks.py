# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Racks that die one after the other, and the instances on their hosts, which are evacuated.

What is promised when a rack dies is found in the rows: a place for each instance that has arrived,
is on its way to nowhere and has a standby. Before the next rack dies the keeper has to have seen to
the standbys of the survivors.
"""

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from threading import Lock
from uuid import UUID

import sqlalchemy as sa

from benchmarks import check_rows
from benchmarks.storm import wishes
from benchmarks.storm.cloud import AGENT, Cloud, Fleet
from benchmarks.storm.wishes import Wish
from inventory.objects.aggregate import FAILURE_DOMAIN
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from tests.databases import open_at
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.played import Hosts, Size

KIND, RACKS = "kill a rack", 6
# Seconds until nobody asks for an evacuation any more, and until the keeper has been there: first
# the lease of one that was killed has to end.
ANSWERED, KEPT, LOOK_EVERY = 150.0, 90.0, 0.5
# How often an instance ends before the next one is asked for.
ENDING = 0.2


def racks_of(fleet: Fleet) -> Mapping[str, Sequence[str]]:
    """Return the hosts of each rack."""
    return {f"rack{number}": fleet.names[number::RACKS] for number in range(RACKS)}


def build(cloud: Cloud) -> None:
    """Make the racks the failure domains of a cloud."""

    def work(connection: sa.Connection) -> None:
        for rack, hosts in racks_of(cloud.fleet).items():
            aggregate_operations.create(connection, rack, {FAILURE_DOMAIN: rack})
            aggregate_operations.add_hosts(connection, rack, hosts, ZoneRules("nova"))

    with closing(open_at(cloud.check_url)) as database:
        database.write(work)


class Racks:
    """Racks and instances of one round; the threads of callers and of faults use it."""

    def __init__(self, cloud: Cloud, seed: int) -> None:
        self._cloud, self._seed = cloud, seed
        self._chance = random.Random(f"racks {seed}")
        self._played = Hosts(cloud.deployment, AGENT, cloud.fleet.hosts)
        self._lock = Lock()
        # By uuid, the wish by which an instance was placed last, and its host.
        self._instances: dict[str, tuple[Wish, str]] = {}
        # What callers are to ask for, and for which instances they have no answer yet.
        self._evacuations: deque[Wish] = deque()
        self._waiting: set[str] = set()
        # The hosts of the dead rack, and what was evacuated and is seen there still.
        self._dead: Sequence[str] = ()
        self._left_behind: list[tuple[str, str]] = []
        self.deaths = self.promised = 0
        self.violations: list[str] = []

    def wishes(self, note_left: Callable[[Wish, str], None]) -> Iterator[Wish]:
        """Yield requests without end, evacuations among them, and let instances end meanwhile."""
        for wish in wishes.protected(self._seed, self._cloud.fleet.names):
            with self._lock:
                if self._chance.random() < ENDING:
                    self._end_one(note_left)
                evacuation = self._evacuations.popleft() if self._evacuations else None
            if evacuation is not None:
                yield evacuation
            yield wish

    def ended(self, wish: Wish, hosts: Sequence[str], attempts: int) -> None:
        """Let the instances of a wish arrive on the hosts that it has got, if any.

        An attempt that is late may be decided after the instance has gone on: what was asked for
        more than once stays where it is.
        """
        flavor = wish.flavor
        size = Size(flavor.vcpus, flavor.memory_mb, flavor.root_gb)
        with self._lock:
            self._waiting -= {*wish.instances}
            for uuid, host in zip(wish.instances, hosts, strict=False):
                self._played.arrive(uuid, host, size)
                self._instances.pop(uuid, None)
                if attempts == 1:
                    self._instances[uuid] = (wish, host)
                if wish.lost:
                    self._left_behind.append((uuid, wish.lost))

    def die(self, _fault: object = None) -> None:
        """Let a rack die, when the one before is back, and its instances be evacuated."""
        self.come_back()
        self._wait_for_keeper()
        with self._lock:
            rack = self._chance.choice([*racks_of(self._cloud.fleet).values()])
            self._force_down(rack)
            self._evacuations.extend(self._promises())
            self._waiting |= {uuid for each in self._evacuations for uuid in each.instances}
            self.promised += len(self._evacuations)
            self.deaths += 1

    def is_over(self) -> bool:
        """Tell whether all evacuations are answered."""
        return not self._waiting

    def come_back(self) -> None:
        """Let the dead rack come back when its instances run elsewhere and all have standbys."""
        if not self._dead:
            return
        if not wait_until(self.is_over, ANSWERED):
            self.violations.append(f"late: {len(self._waiting)} evacuations are not answered")
        self._wait_for_keeper()
        with self._lock:
            for uuid, host in self._left_behind:
                self._played.leave(uuid, host)
            self._left_behind.clear()
            self._force_down(self._dead, down=False)

    def empty(self, within: float) -> bool:
        """Let all instances and leases end; tell whether claims and standbys are given back."""
        self._played.leave_all()
        return self._cloud.empty(within)

    def _end_one(self, note_left: Callable[[Wish, str], None]) -> None:
        at_rest = [
            uuid
            for uuid, (_, host) in self._instances.items()
            if host not in self._dead and uuid not in self._waiting
        ]
        if at_rest:
            uuid = self._chance.choice(at_rest)
            wish, host = self._instances.pop(uuid)
            self._played.leave(uuid, host)
            note_left(wish, uuid)

    def _promises(self) -> list[Wish]:
        """Return the evacuations of all instances that were promised a place."""
        rows = self._rows()
        hosts = {row.id: row.host for row in rows.nodes}
        claims = Counter(row.instance_uuid for row in rows.claims)
        arrived = {(row.instance_uuid, row.host) for row in rows.claims if row.state == "confirmed"}
        found = []
        for row in rows.standbys:
            uuid, host = row.instance_uuid, hosts[row.place_node_id]
            wish, at = self._instances.get(uuid, (None, ""))
            is_there = (uuid, host) in arrived and claims[uuid] == 1 and host == at
            if wish and is_there and host in self._dead and row.compute_node_id is not None:
                name = f"req-{UUID(int=self._chance.getrandbits(128), version=4)}"
                one = replace(wish, request_id=name, instances=(uuid,), host=None)
                found.append(replace(one, lost=host, promised=True))
        self._chance.shuffle(found)
        return found

    def _force_down(self, hosts: Sequence[str], down: bool = True) -> None:
        with closing(open_at(self._cloud.check_url)) as database:
            database.write(lambda each: service_operations.force_down(each, hosts, down))
        self._dead = hosts if down else ()

    def _wait_for_keeper(self) -> None:
        def is_kept() -> bool:
            time.sleep(LOOK_EVERY)
            try:
                return not [*check_rows.standbys_in_vain(self._rows())]
            # A member of a cluster that was killed may not be ready yet.
            except sa.exc.OperationalError:
                return False

        if not wait_until(is_kept, KEPT):
            self.violations += check_rows.standbys_in_vain(self._rows())

    def _rows(self) -> check_rows.Rows:
        return check_rows.read(self._cloud.check_url)
