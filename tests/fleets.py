# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Builders of fleets for plans of moves: hosts by their memory, instances by where they are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.decision.pipeline import Plan
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.server_group_affinity import ServerGroupAffinityFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.hosts.host_state import Consumption
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec
from scheduler.operators.occupancy import add_instance
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import Resident
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_group
from tests.hosts import a_host, a_table

GB = 1024
PLAN = Plan(
    [
        ComputeFilter(),
        AvailabilityZoneFilter(),
        RamFilter(),
        CoreFilter(),
        ServerGroupAntiAffinityFilter(),
        ServerGroupAffinityFilter(),
    ],
    [RAMWeigher()],
)


@dataclass(frozen=True)
class Guest:
    """An instance of so many GB of memory on a host, in a state, and how it is moved."""

    name: str
    host: str
    gb: int = 1
    vcpus: int = 1
    how: Mapping[str, Any] = field(default_factory=dict)
    state: str = "active"
    task: str | None = None


def a_fleet(
    hosts: Mapping[str, int | Mapping[str, Any]],
    guests: Iterable[Guest] = (),
    groups: Mapping[str, Sequence[str]] = {},
    plan: Plan = PLAN,
) -> Fleet:
    """Return a fleet of hosts of so many GB, or with these attributes.

    groups have the names of members by policy.
    """
    table = a_table(*(a_host(name, **_attributes(each)) for name, each in hosts.items()))
    made = {policy: a_group(policy, members=[*names]) for policy, names in groups.items()}
    residents = []
    for each in guests:
        row = table.row_of(each.host, each.host)
        assert row is not None
        spec = RequestSpec(Flavor(each.vcpus, each.gb * GB, 0), instance_uuid=each.name)
        for policy, names in groups.items():
            if each.name in names:
                spec.instance_group = made[policy]
        taken = Consumption(each.vcpus, each.gb * GB, 0)
        instance = Instance(each.name, each.host, each.host, vcpus=each.vcpus)
        instance.vm_state, instance.task_state = each.state, each.task
        add_instance(table, row, instance, taken)
        residents.append(Resident(instance, row, spec, taken, **each.how))
    return Fleet(table, residents, plan)


def _attributes(given: int | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(given, int):
        return given
    return {"total_usable_ram_mb": given * GB, "free_ram_mb": given * GB, "vcpus_total": 64}


def places(fleet: Fleet) -> dict[str, str]:
    """Return the host of each resident by its name."""
    return {uuid: fleet.place(each.row).host for uuid, each in fleet.residents.items()}
