# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Fleets for plans of moves: alike hosts, instances anywhere on them, and schedulers' filters."""

from collections.abc import Sequence
from random import Random

import numpy as np
from oslo_config import cfg

from conf import loading
from inventory.objects.instance_group import InstanceGroup
from scheduler import plugins
from scheduler.decision.pipeline import Plan
from scheduler.hosts.host_state import Consumption
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import add_instance
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import Resident
from scheduler.operators.simulation.fleet import HostKind, make_hosts

VCPUS, MEMORY_MB, DISK_GB = 64, 262_144, 2_000
# vCPUs, MB of memory and GB of disk of what is asked for, each as often.
FLAVORS = (
    (1, 2048, 10),
    (2, 4096, 20),
    (4, 8192, 40),
    (4, 16384, 80),
    (8, 32768, 80),
    (2, 8192, 20),
)
# Of so many instances, the first MEMBERS are a group of anti-affinity.
GROUPED, MEMBERS = 30, 3


def default_plan() -> Plan:
    """Return the filters and weighers of a scheduler without any configuration."""
    conf = cfg.ConfigOpts()
    loading.read(conf, "berthmaster-scheduler", [], "")
    return plugins.load_driver(conf).plan


def a_fleet(hosts: int, instances: int, seed: int) -> Fleet:
    """Return a fleet as one is after a while: each instance is on any host that has room.

    A tenth of the instances are in groups of anti-affinity. The same seed gives the same fleet.
    """
    chance, table = Random(seed), make_hosts([HostKind(hosts, VCPUS, MEMORY_MB, DISK_GB)])
    free = np.array([[VCPUS, MEMORY_MB, DISK_GB]] * hosts)
    rows, residents = [*table.rows()], []
    group, taken = None, set[int]()
    for number in range(instances):
        if number % GROUPED in (0, MEMBERS):
            names = [_name(number + each) for each in range(MEMBERS)]
            group = None if number % GROUPED else anti_affinity(f"group-{number}", names)
            taken = set()
        size = chance.choice(FLAVORS)
        at = chance.randrange(hosts)
        while at in taken or (free[at] < size).any():
            at = chance.randrange(hosts)
        free[at] -= size
        if group:
            taken.add(at)
        residents.append(place(table, rows[at], _name(number), Flavor(*size), group))
    return Fleet(table, residents, default_plan())


def _name(number: int) -> str:
    return f"instance-{number:05}"


def anti_affinity(name: str, members: Sequence[str]) -> InstanceGroup:
    """Return a group whose members may not share a host."""
    return InstanceGroup(uuid=name, name=name, policy="anti-affinity", members=[*members])


def place(
    hosts: HostTable, row: int, uuid: str, flavor: Flavor, group: InstanceGroup | None
) -> Resident:
    """Place an instance on the host of a row, whether it fits or not, and return it."""
    spec = RequestSpec(flavor, instance_uuid=uuid, instance_group=group)
    taken = Consumption(spec.vcpus, spec.memory_mb, spec.disk_mb)
    instance = Instance(uuid, vcpus=spec.vcpus, memory_mb=spec.memory_mb, root_gb=flavor.root_gb)
    add_instance(hosts, row, instance, taken)
    return Resident(instance, row, spec, taken)
