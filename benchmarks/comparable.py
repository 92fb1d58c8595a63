# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A fleet that we and Nova can both decide on: plain values, the same for the same seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

import numpy as np

from inventory.objects.aggregate import Aggregate
from inventory.objects.instance_group import InstanceGroup
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec

VCPUS, RAM_MB, DISK_GB = 64, 262_144, 4_000
FLAVOR = {"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 0, "swap": 0}
IMAGE = {"hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "hvm"}
SUPPORTED = [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]
ZONES = ("z1", "z2", "z3")
_GROUP = str(UUID(int=2**64))
# Members of a group have numbers of their own, far from those of requests.
_MEMBERS_FROM = 2**32


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for each instance, in the words that both are told."""

    flavor: Mapping[str, int]
    image: Mapping[str, str]
    zone: str | None = None
    group: Mapping[str, Any] | None = None


PLAIN = Wish(FLAVOR, IMAGE)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts, the sets of aggregates that they are in by turns, and the members of one group.

    An aggregate is its number and its metadata; members are uuids by host.
    """

    hosts: Sequence[Mapping[str, Any]]
    aggregate_sets: Sequence[Sequence[tuple[int, Mapping[str, str]]]]
    members: Mapping[str, str]

    def table(self) -> HostTable:
        """Return the fleet as we decide on it."""
        hosts = a_table(self.hosts)
        sets = [
            [
                Aggregate(each, f"uuid-{each}", f"a-{each}", metadata={**words})
                for each, words in some
            ]
            for some in self.aggregate_sets
        ]
        for row, each in enumerate(self.hosts):
            number = row % len(sets)
            hosts.set(row, "aggregates", sets[number])
            uuid = self.members.get(each["host"])
            if uuid is not None:
                hosts.instances.add(row, uuid, Instance(uuid, host=each["host"]))
        return hosts

    def in_group(self, policy: str, instances: int) -> Wish:
        """Return the wish for so many instances of the group, with this policy.

        They are members when they are placed: Nova's API adds them before it asks for places.
        """
        members = [*self.members.values(), *uuids(instances)]
        words = {"uuid": _GROUP, "policy": policy, "members": members, "hosts": [*self.members]}
        return Wish(FLAVOR, IMAGE, group=words)


def fleet(size: int, aggregate_sets: int = 40, grouped: float = 0.0, seed: int = 1) -> Fleet:
    """Return so many hosts, of which this share has a member of the group each."""
    hosts = a_fleet(size, seed)
    sets = [_aggregates(number) for number in range(min(size, aggregate_sets))]
    some = Random(seed).sample(range(size), round(size * grouped))
    members = {hosts[each]["host"]: str(UUID(int=_MEMBERS_FROM + each)) for each in some}
    return Fleet(hosts, sets, members)


def _aggregates(number: int) -> list[tuple[int, Mapping[str, str]]]:
    """Return a zone and a rack; every fourth rack minds busy disks twice as much."""
    zone = number % len(ZONES)
    rack = {"rack": f"r{number}"}
    if number % 4 == 0:
        rack["io_ops_weight_multiplier"] = "-2.0"
    return [(zone, {"availability_zone": ZONES[zone]}), (len(ZONES) + number, rack)]


def a_fleet(size: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return so many hosts, each with up to thirty instances and room for more."""
    chance = Random(seed)
    return [_a_host(number, chance.randrange(30)) for number in range(size)]


def _a_host(number: int, instances: int) -> dict[str, Any]:
    return {
        "host": f"compute-{number:06}",
        "total_usable_ram_mb": RAM_MB,
        "free_ram_mb": RAM_MB - 2048 * instances - number % 997,
        "total_usable_disk_gb": DISK_GB,
        "free_disk_mb": 1024 * (DISK_GB - 20 * instances) - number % 991,
        "vcpus_total": VCPUS,
        "vcpus_used": 2 * instances,
        "num_instances": instances,
        "num_io_ops": instances % 8,
        "failed_builds": int(number % 50 == 0),
        "hypervisor_version": (6_002_000, 8_000_000, 9_001_000)[number % 3],
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
    }


def a_table(fleet: Iterable[Mapping[str, Any]]) -> HostTable:
    """Return hosts as we decide on them, in no aggregates."""
    hosts = HostTable()
    for each in fleet:
        row = hosts.add(each["host"], each["host"])
        for name, value in each.items():
            hosts.set(row, name, value)
        hosts.set(row, "supported_instances", SUPPORTED)
    hosts.fill("heartbeat_age", np.zeros(hosts.size))
    return hosts


def a_request(wish: Wish = PLAIN) -> RequestSpec:
    """Return the request that is decided."""
    return RequestSpec(
        Flavor(id=1, name="m1.small", **wish.flavor),
        project_id="p",
        image=ImageMeta(id="image", properties=ImageMetaProps({**wish.image})),
        availability_zone=wish.zone,
        instance_group=InstanceGroup(**wish.group) if wish.group else None,
    )


def uuids(count: int) -> list[str]:
    """Return the uuids of the instances of a request."""
    return [str(UUID(int=number + 1)) for number in range(count)]
