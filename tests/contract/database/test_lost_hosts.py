# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which protected instances have lost a host, by what agents have seen and callers say."""

from pathlib import Path

import pytest

from inventory import services
from inventory.claims.claims import release
from inventory.engine import Database
from inventory.operations import service_operations
from tests.builders import a_group
from tests.contract.database.standby_cloud import HOSTS, StandbyCloud, domain_of
from tests.contract.database.test_standbys import SMALL, fill
from tests.databases import a_uuid

U = [a_uuid(f"instance {number}") for number in range(80)]


@pytest.fixture
def cloud(database: Database, tmp_path: Path) -> StandbyCloud:
    found = StandbyCloud(database, tmp_path)
    found.begin()
    return found


@pytest.mark.parametrize("is_released", [True, False])
def test_a_boot_that_is_asked_for_again_after_its_host_has_died_has_a_standby_too(
    cloud, is_released
):
    """Nobody has seen the instance anywhere: it has lost nothing."""
    group = a_group(members=U[:1])
    (host,) = cloud.ask([U[0]], SMALL, instance_group=group)
    standby = cloud.held()[U[0]]
    if is_released:
        cloud.write(release, [U[0]])
    others = [
        each for each in HOSTS if domain_of(each) not in (domain_of(host), domain_of(standby))
    ]
    cloud.force_down([each for each in HOSTS if each not in (standby, *others)])
    cloud.write(service_operations.disable, others)
    assert cloud.ask([U[0]], SMALL, instance_group=group) is None
    cloud.write(service_operations.enable, others)
    (new,) = cloud.ask([U[0]], SMALL, scheduler=1, instance_group=group)
    cloud.keep()
    assert domain_of(cloud.held()[U[0]]) != domain_of(new)
    assert cloud.usage() == cloud.expected_usage()


@pytest.mark.parametrize("how", ["unreported", "names no host", "on a move", "deleted"])
def test_an_evacuation_finds_the_standby_whatever_is_known_of_the_instance(cloud, how):
    group = a_group(members=U[:1])
    (host,) = cloud.ask([U[0]], SMALL, instance_group=group)
    standby = cloud.held()[U[0]]
    if how != "unreported":
        cloud.arrive(U[0], host, SMALL)
    if how == "on a move":
        spared = [each for each in HOSTS if domain_of(each) == domain_of(standby)]
        assert cloud.ask([U[0]], SMALL, ignore=[host, *spared], instance_group=group)
    fill(cloud, U[10:])
    ignore = [] if how == "names no host" else [host]
    if how == "deleted":
        cloud.write(service_operations.delete, [host], -1.0, services.COMPUTE[0], True)
    else:
        cloud.force_down([each for each in HOSTS if domain_of(each) == domain_of(host)])
    found = cloud.ask([U[0]], SMALL, scheduler=1, ignore=ignore, instance_group=group)
    assert found == [standby]
    assert cloud.usage() == cloud.expected_usage()


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_instance_has_lost_its_reserved_place_if_it_was_seen_there(cloud, is_seen):
    """Only then it gets the room of the standby, in a cloud that is full."""
    cloud.reserve_protected("r", SMALL, 1)
    (host,) = cloud.ask([U[0]], SMALL, mode=None)
    if is_seen:
        cloud.arrive(U[0], host, SMALL)
    (standby,) = cloud.held().values()
    fill(cloud, U[10:])
    cloud.force_down([each for each in HOSTS if domain_of(each) == domain_of(host)])
    group = a_group(members=U[:1])
    found = cloud.ask([U[0]], SMALL, mode=None, scheduler=1, instance_group=group)
    assert found == ([standby] if is_seen else None)
    assert cloud.usage() == cloud.expected_usage()
