# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Placement forbids and allows holds for our scheduler as for Nova's, in a whole cloud."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from inventory import tables
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.switched_nova import SwitchedNova
from tests.fixtures.whole_nova import HOSTS

pytestmark = pytest.mark.matrix

SCHEDULERS = ("novas", "ours")
# What each compute of the cloud reserves.
RESERVED_MB = 512


@contextmanager
def service_with(switched: SwitchedNova, host: str, set_: Any, unset: Any) -> Iterator[None]:
    """The compute service of a host with a setting that our scheduler knows of."""
    nova = switched.nova
    found = nova.call("GET", f"/os-services?binary=nova-compute&host={host}")["services"]
    path = f"/os-services/{found[0]['id']}"
    nova.call("PUT", path, set_)
    try:
        assert wait_until(lambda: switched.dead() == [host]), switched.dead()
        yield
    finally:
        nova.call("PUT", path, unset)
    assert wait_until(lambda: not switched.dead()), switched.dead()


@pytest.mark.parametrize("name", SCHEDULERS)
def test_nobody_is_forced_onto_a_disabled_host(switched: SwitchedNova, name: str) -> None:
    switched.serve_by(name)
    first, second, _ = HOSTS
    with service_with(switched, first, {"status": "disabled"}, {"status": "enabled"}):
        forced = switched.boot(1, availability_zone=f"nova:{first}")
        assert switched.statuses(*forced) == ["ERROR"]
        forced = switched.boot(1, availability_zone=f"nova:{second}")
        assert switched.hosts(*forced) == [second]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_host_that_is_down_may_be_forced(switched: SwitchedNova, name: str) -> None:
    """Its service runs here, whatever the state of it in Nova's database."""
    switched.serve_by(name)
    with service_with(switched, HOSTS[0], {"forced_down": True}, {"forced_down": False}):
        forced = switched.boot(1, availability_zone=f"nova:{HOSTS[0]}")
        assert switched.hosts(*forced) == [HOSTS[0]]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_ratio_of_placement_bounds_how_many_vcpus_fit(
    switched: SwitchedNova, name: str
) -> None:
    """With the ratio of Nova's databases 12 fit."""
    switched.serve_by(name)
    deployment = switched.cloud.deployment
    sections = {"placement": switched.nova.placement, "api_database": switched.cloud.api_database}
    deployment.config = deployment.write_config("operator", sections)
    nova, ask = switched.nova, switched.placement.session.request

    def set_ratio(ratio: float) -> None:
        for each in switched.placement.providers():
            path = f"/resource_providers/{each.uuid}/inventories/VCPU"
            found = switched.placement.inventories(each.uuid)["VCPU"]
            fields = {key: getattr(found, key) for key in found.__slots__}
            generation = {"resource_provider_generation": each.generation}
            ask("PUT", path, {**fields, **generation, "allocation_ratio": ratio})

    set_ratio(5.0)
    flavor = nova.flavor(512, vcpus=64)
    if name == "ours":
        assert wait_until(lambda: switched.cloud.ratios() == {5.0})
    with ThreadPoolExecutor(15) as pool:
        servers = list(pool.map(lambda _: nova.boot(flavor), range(15)))
    switched.wait(*servers)
    assert switched.statuses(*servers) == ["ACTIVE"] * 15
    if name == "ours":
        checked = deployment.cli("nova", "check").stdout
        assert f"other values for 3 nodes: {HOSTS[0]} (VCPU allocation_ratio 5, not 4), " in checked
    switched.delete_all()
    set_ratio(4.0)


def test_amounts_in_place_of_a_flavor_s_are_allocated_and_counted(ours: SwitchedNova) -> None:
    """At boot, while a resize is under way, and when it is confirmed."""
    nova = ours.nova
    small = nova.flavor(512, vcpus=48, resources__VCPU="0", resources__DISK_GB="0")
    large = nova.flavor(512, vcpus=48, resources__VCPU="3", resources__MEMORY_MB="1024")
    servers = [nova.boot(small) for _ in range(4)]
    ours.wait(*servers)
    assert ours.statuses(*servers) == ["ACTIVE"] * 4
    assert held(ours, servers[0]) == {"MEMORY_MB": 512}
    assert wait_until(lambda: counted(ours) == (0, 4 * 512, 0)), counted(ours)
    ours.act(servers[0], "resize", {"flavorRef": large})
    ours.wait(servers[0], states=("VERIFY_RESIZE", "ERROR"))
    assert held(ours, servers[0]) == {"VCPU": 3, "MEMORY_MB": 1024, "DISK_GB": 1}
    assert wait_until(lambda: counted(ours) == (3, 4 * 512 + 1024, 1)), counted(ours)
    ours.act(servers[0], "confirmResize")
    assert wait_until(lambda: counted(ours) == (3, 3 * 512 + 1024, 1)), counted(ours)
    # Nova's own rows count what the flavors have, so usage agrees only without them.
    ours.delete_all()


def held(ours: SwitchedNova, server: str) -> dict[str, int]:
    """Return what a server has in Placement."""
    (found,) = ours.placement.allocations_for(server).resources.values()
    return dict(found)


def counted(ours: SwitchedNova) -> tuple[int, int, int]:
    """Return the vCPUs, MB and GB that our rows count for instances, on all nodes."""
    rows = ours.cloud.rows(tables.compute_nodes)
    memory_mb = sum(row.memory_mb_used for row in rows) - RESERVED_MB * len(rows)
    return sum(row.vcpus_used for row in rows), memory_mb, sum(row.local_gb_used for row in rows)
