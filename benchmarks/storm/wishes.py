# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the callers of a storm ask for; the same seed asks for the same."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from benchmarks.history import Group, Size
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.standby import EXTRA_SPEC, PREFERRED, REQUIRED
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import Destination, RequestSpec, SchedulerRetries, TriedHost
from scheduler.wire.arguments import SelectArguments, encode_select_arguments

SLOT = Flavor(1, 512, 1, id=1, name="slot", flavorid="slot")
# From one that fits anywhere to one that only fits where little else is. Swap is no whole GB.
FLAVORS = (
    SLOT,
    Flavor(1, 1024, 2, swap=100, id=2, name="small", flavorid="small"),
    Flavor(2, 2048, 5, ephemeral_gb=1, id=3, name="medium", flavorid="medium"),
    Flavor(4, 4096, 10, swap=512, id=4, name="large", flavorid="large"),
)
WEIGHTS = (8, 6, 4, 2)
ANTI_AFFINITY, AFFINITY = "anti-affinity", "affinity"
HOT_HOSTS = 8
MODES = (REQUIRED, REQUIRED, PREFERRED, None)
# Of how many requests one is for a group; groups take their time to come together.
GROUPED, APART_IN_TIME = 0.1, 12


@dataclass(frozen=True, slots=True)
class Wish:
    """One request; failing is how many builds of it come to nothing, and are rescheduled.

    members are the instances of the whole group, as whoever keeps groups knows them beforehand.
    mode says how the instances are protected. lost is the host from which the instance is
    evacuated; where that is promised there is room for it.
    """

    request_id: str
    instances: tuple[str, ...]
    flavor: Flavor
    group: Group | None = None
    members: tuple[str, ...] = ()
    host: str | None = None
    failing: int = 0
    zone: str | None = None
    mode: str | None = None
    lost: str | None = None
    promised: bool = False

    @property
    def size(self) -> Size:
        """What each of the instances takes."""
        flavor = self.flavor
        disk_mb = 1024 * (flavor.root_gb + flavor.ephemeral_gb) + flavor.swap
        return Size(flavor.vcpus, flavor.memory_mb, disk_mb)

    def arguments(self, tried: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the arguments of select_destinations after builds on these hosts have failed."""
        specs = {EXTRA_SPEC: self.mode} if self.mode else {}
        spec = RequestSpec(
            replace(self.flavor, extra_specs=specs),
            self.instances[0],
            num_instances=len(self.instances),
            project_id="storm",
            user_id="storm",
        )
        spec.availability_zone = self.zone
        spec.ignore_hosts = [self.lost] if self.lost else None
        if self.host:
            spec.requested_destination = Destination(host=self.host, node=self.host)
        if self.failing:
            hosts = [TriedHost(host, node) for host, node in tried]
            spec.retry = SchedulerRetries(1 + len(hosts), hosts)
        if self.group:
            rules = {"max_server_per_host": self.group.most} if self.group.most > 1 else {}
            spec.instance_group = InstanceGroup(
                self.group.uuid, self.group.policy, [*self.members], rules=rules
            )
        return encode_select_arguments(SelectArguments(spec, [*self.instances], True, False))


def slots(seed: int, number: int) -> Iterator[Wish]:
    """Yield requests for one instance of one slot each."""
    chance = random.Random(f"slots {seed}")
    for _ in range(number):
        yield Wish(_request_id(chance), (_uuid(chance),), SLOT)


def grouped(seed: int, groups: int, callers: int) -> list[Wish]:
    """Return requests of so many callers for each group, mixed; most groups keep apart.

    Of ten groups one wants to be together, and two allow two members on a host.
    """
    chance = random.Random(f"grouped {seed}")
    found = []
    for number in range(groups):
        group = _group(chance, number)
        members = tuple(_uuid(chance) for _ in range(callers))
        found += [Wish(_request_id(chance), (each,), SLOT, group, members) for each in members]
    chance.shuffle(found)
    return found


def mixed(seed: int, hosts: Sequence[str]) -> Iterator[Wish]:
    """Yield requests of all kinds without end: sizes, numbers, groups, moves to another host.

    Some members of groups are protected. Those of several groups come in any order.
    """
    chance = random.Random(f"mixed {seed}")
    hot = chance.sample(sorted(hosts), min(HOT_HOSTS, len(hosts)))
    number, members = 0, list[Wish]()
    while True:
        kind = chance.random()
        if kind < GROUPED:
            number += 1
            members += _group_of(chance, number)
        while len(members) > APART_IN_TIME:
            yield members.pop(chance.randrange(len(members)))
        if kind < GROUPED:
            continue
        if kind < 0.3:
            # Where nobody has a choice, the last place is contended for long before all is full.
            yield Wish(_request_id(chance), (_uuid(chance),), SLOT, host=chance.choice(hot))
        elif kind < 0.4:
            failing = chance.randint(1, 2)
            flavor = chance.choices(FLAVORS, WEIGHTS)[0]
            yield Wish(_request_id(chance), (_uuid(chance),), flavor, failing=failing)
        else:
            many = chance.choice((1, 1, 1, 2, 3, 5))
            uuids = tuple(_uuid(chance) for _ in range(many))
            yield Wish(_request_id(chance), uuids, chance.choices(FLAVORS, WEIGHTS)[0])


def zoned(seed: int, hosts: Sequence[str], zones: Sequence[str]) -> Iterator[Wish]:
    """Yield the same, two thirds of those that may go anywhere for one of these zones."""
    chance = random.Random(f"zoned {seed}")
    for wish in mixed(seed, hosts):
        anywhere = wish.group is None and wish.host is None
        zone = chance.choice(zones) if anywhere and chance.random() < 2 / 3 else None
        yield replace(wish, zone=zone)


def protected(seed: int, hosts: Sequence[str]) -> Iterator[Wish]:
    """Yield the same as mixed(), most of it protected; no build fails."""
    chance = random.Random(f"protected {seed}")
    for wish in mixed(seed, hosts):
        mode = wish.mode if wish.group else chance.choice(MODES)
        yield replace(wish, failing=0, mode=mode)


def _group_of(chance: random.Random, number: int) -> list[Wish]:
    """Return the requests of one group, some of them for two instances."""
    group = _group(chance, number)
    batches = [tuple(_uuid(chance) for _ in range(chance.choice((1, 1, 2)))) for _ in range(4)]
    members = tuple(each for batch in batches for each in batch)
    # Members that have to share a host cannot be protected.
    modes = MODES if group.policy == ANTI_AFFINITY else (PREFERRED, None)
    return [
        Wish(_request_id(chance), batch, SLOT, group, members, mode=chance.choice(modes))
        for batch in batches
    ]


def _group(chance: random.Random, number: int) -> Group:
    if number % 10 == 0:
        return Group(_uuid(chance), AFFINITY)
    return Group(_uuid(chance), ANTI_AFFINITY, 2 if number % 5 == 1 else 1)


def _uuid(chance: random.Random) -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def _request_id(chance: random.Random) -> str:
    return f"req-{_uuid(chance)}"
