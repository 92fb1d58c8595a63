# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Standbys beside claims, audits and evacuations, decided by a scheduler's own pipeline."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from inventory import stored_documents, tables
from inventory.claims.claims import release
from inventory.claims.standbys import read_sums
from inventory.engine import Database
from inventory.operations import aggregate_operations, service_operations
from inventory.operations.aggregate_operations import Change, ZoneRules
from scheduler.claims.protection import ProtectionSettings
from scheduler.claims.standby_keeper import StandbyKeeper
from tests.builders import a_group
from tests.contract.database.standby_cloud import HOSTS, RACKS, StandbyCloud, domain_of
from tests.databases import a_uuid, execute

U = [a_uuid(f"protected {number}") for number in range(80)]
SMALL = (2, 4096, 10)
BIG = (8, 16384, 50)


@pytest.fixture
def cloud(database: Database, tmp_path: Path) -> StandbyCloud:
    found = StandbyCloud(database, tmp_path)
    found.begin()
    return found


def test_a_claim_holds_room_in_another_failure_domain(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    (row,) = cloud.standbys()
    assert (row.instance_uuid, row.mode, row.domains) == (U[0], "required", domain_name(host))
    assert domain_of(cloud.held()[U[0]]) != domain_of(host)
    assert cloud.usage() == cloud.expected_usage()
    assert sum(vcpus for vcpus, _, _ in cloud.usage().values()) == 4


def test_standbys_of_different_domains_share_their_room(cloud):
    for number in range(6):
        assert cloud.ask([U[number]], SMALL, scheduler=number % 2)
    assert cloud.usage() == cloud.expected_usage()
    held = sum(vcpus for vcpus, _, _ in cloud.usage().values()) - 6 * SMALL[0]
    assert held < 6 * SMALL[0]


@pytest.mark.parametrize(
    "text", ['{"=RequestSpec": {"flav', '{"=LaterSpec": {}}', "null", '{"=RequestSpec": []}', ""]
)
def test_an_unreadable_request_costs_its_own_standby_alone(cloud, caplog, text):
    """It was cut off, or a later release has written it."""
    stored_documents.warn.cache_clear()
    hosts = {uuid: cloud.ask([uuid], SMALL)[0] for uuid in U[:3]}
    for uuid, host in hosts.items():
        cloud.arrive(uuid, host, SMALL)
    broken = "UPDATE standbys SET request = :text WHERE instance_uuid = :uuid"
    execute(cloud.database, broken, text=text, uuid=U[0])
    before = cloud.held()
    cloud.force_down(sorted({*before.values()}))
    for _ in range(2):
        cloud.keep()
    after = cloud.held()
    assert after[U[0]] == before[U[0]]
    assert {after[U[1]], after[U[2]]}.isdisjoint({*before.values(), None})
    said = f"The stored request of the standby of instance or place {U[0]} cannot be read"
    assert caplog.text.count(said) == 1
    assert cloud.usage() == cloud.expected_usage()
    # Its next move stores it again.
    cloud.force_down(sorted({*before.values()}), down=False)
    (new,) = cloud.ask([U[0]], SMALL, ignore=[hosts[U[0]]])
    cloud.leave(U[0], hosts[U[0]])
    cloud.arrive(U[0], new, SMALL)
    cloud.keep()
    (row,) = [row for row in cloud.standbys() if row.instance_uuid == U[0]]
    assert row.request != text
    assert cloud.usage() == cloud.expected_usage()


def rename_domain(cloud: StandbyCloud, rack: str, domain: str) -> None:
    change = Change(properties={"failure_domain": domain})
    zones = ZoneRules("nova")
    cloud.write(aggregate_operations.change, f"rack {rack}", change, zones)


def test_domains_that_differ_by_letter_case_only_are_two_and_a_warning(cloud, caplog):
    """A case-insensitive database would count what is held for both together, and give it up."""
    rename_domain(cloud, "b", "A")
    placed = []
    for uuid, rack in ((U[0], "a"), (U[1], "b")):
        others = [each for each in HOSTS if domain_of(each) != rack]
        placed += cloud.ask([uuid], BIG, ignore=others)
    cloud.force_down([each for each in RACKS if each not in placed])
    cloud.keep()
    cloud.keep()
    assert cloud.held() == {U[0]: "lone", U[1]: "lone"}
    (sums,) = cloud.database.read(read_sums).values()
    assert sums.keys() == {"a", "A"}
    assert cloud.usage() == cloud.expected_usage()
    assert "Failure domains 'A' and 'a' differ by letter case or separators only" in caplog.text


def test_without_another_domain_a_required_one_is_refused_and_a_preferred_one_placed(cloud):
    outside = [host for host in (*RACKS, "lone") if domain_of(host) != "a"]
    for number, _ in enumerate(outside):
        assert cloud.ask([U[number]], BIG, mode=None, ignore=["a1", "a2"])
    before = cloud.usage()
    assert cloud.ask([U[20]], SMALL) is None
    assert cloud.usage() == before
    assert cloud.standbys() == []
    assert cloud.ask([U[20]], SMALL, mode="preferred")
    (row,) = cloud.standbys()
    assert row.compute_node_id is None
    assert row.reason == "no host of another failure domain could hold its standby"


def test_an_audit_counts_what_is_held(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    before = cloud.usage()
    cloud.arrive(U[0], host, SMALL)
    for each in (*RACKS, "lone"):
        cloud.audit(each)
    assert cloud.usage() == before == cloud.expected_usage()


def test_all_instances_of_a_domain_that_dies_have_a_place(cloud):
    """The cloud is full of others, and they go in any order."""
    placed = {}
    for number in range(8):
        (placed[U[number]],) = cloud.ask([U[number]], SMALL, scheduler=number % 2)
        cloud.arrive(U[number], placed[U[number]], SMALL)
    fill(cloud, U[10:])
    assert cloud.usage() == cloud.expected_usage()
    for domain in sorted({domain_of(host) for host in placed.values()}):
        with cloud.copy():
            dead = [host for host in (*RACKS, "lone") if domain_of(host) == domain]
            cloud.force_down(dead)
            for number, (uuid, host) in enumerate(reversed(placed.items())):
                if domain_of(host) == domain:
                    found = cloud.ask([uuid], SMALL, scheduler=number % 2, ignore=[host])
                    assert found, (domain, uuid)
                    assert domain_of(found[0]) != domain
                    assert cloud.usage() == cloud.expected_usage()


def test_evacuations_at_the_same_time_all_have_places(cloud):
    placed = {}
    for number in range(8):
        (placed[U[number]],) = cloud.ask([U[number]], SMALL, scheduler=number % 2)
        cloud.arrive(U[number], placed[U[number]], SMALL)
    fill(cloud, U[10:])
    domains = [domain_of(host) for host in placed.values()]
    domain = max(domains, key=domains.count)
    cloud.force_down([host for host in (*RACKS, "lone") if domain_of(host) == domain])
    lost = [uuid for uuid, host in placed.items() if domain_of(host) == domain]
    with ThreadPoolExecutor(4) as pool:
        found = [
            pool.submit(cloud.ask, [uuid], SMALL, "required", at % 2, [placed[uuid]])
            for at, uuid in enumerate(lost)
        ]
    assert all(each.result() for each in found)
    assert cloud.usage() == cloud.expected_usage()


def test_a_move_that_was_given_up_and_asked_for_again_leaves_one_standby_for_each_place(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, SMALL)
    first = cloud.ask([U[0]], SMALL, ignore=[host])
    second = cloud.ask([U[0]], SMALL, ignore=[host, *first])
    ids = {row.id: name for name, row in cloud.nodes().items()}
    assert sorted(ids[row.place_node_id] for row in cloud.standbys()) == sorted([host, *second])
    assert cloud.usage() == cloud.expected_usage()


def test_an_instance_that_comes_back_before_the_keeper_has_ended_its_standby_has_one(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, SMALL)
    cloud.leave(U[0], host)
    assert cloud.ask([U[0]], SMALL, ignore=[each for each in HOSTS if each != host]) == [host]
    assert [row.instance_uuid for row in cloud.standbys()] == [U[0]]
    assert cloud.usage() == cloud.expected_usage()


# SQLite alone would give the number of a row again.
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_keeper_ends_no_standby_of_an_instance_that_has_come_back_meanwhile(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.write(release, [U[0]])
    each = cloud.schedulers[0]

    def plan():
        # It has read that the instance is gone; another process claims for it before it ends.
        others = [other for other in HOSTS if other != host]
        assert cloud.ask([U[0]], SMALL, scheduler=1, ignore=others) == [host]
        return each.driver.plan

    StandbyKeeper(cloud.database, each.host_cache, plan, lambda: each.claimer).keep()
    assert cloud.held()[U[0]] is not None
    assert cloud.usage() == cloud.expected_usage()


def test_an_instance_that_is_resized_in_place_keeps_the_larger_standby_until_it_is_done(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, SMALL)
    others = [each for each in (*RACKS, "lone") if each != host]
    assert cloud.ask([U[0]], (1, 2048, 10), ignore=others) == [host]
    cloud.keep()
    (row,) = cloud.standbys()
    assert (row.vcpus, row.memory_mb) == SMALL[:2]
    assert cloud.usage() == cloud.expected_usage()
    cloud.drivers[host].remove_guest(host, U[0])
    cloud.arrive(U[0], host, (1, 2048, 10))
    cloud.keep()
    (row,) = cloud.standbys()
    assert (row.vcpus, row.memory_mb) == (1, 2048)
    assert cloud.usage() == cloud.expected_usage()
    assert cloud.keep().made == 0


def test_the_standby_of_a_resize_in_place_stays_as_long_as_nova_may_revert_it(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, SMALL)
    assert cloud.ask([U[0]], (1, 2048, 10), ignore=[each for each in HOSTS if each != host])
    cloud.drivers[host].remove_guest(host, U[0])
    cloud.arrive(U[0], host, (1, 2048, 10))
    for state, memory_mb in (("resized", 4096), ("active", 2048)):
        rows = sa.update(tables.instances).values(vm_state=state)
        cloud.write(lambda connection, query=rows: connection.execute(query))
        cloud.keep()
        assert [row.memory_mb for row in cloud.standbys()] == [memory_mb]


def test_a_resize_to_another_host_has_two_standbys_until_the_keeper_has_seen_its_end(cloud):
    larger = (4, 8192, 20)
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, SMALL)
    (new,) = cloud.ask([U[0]], larger, ignore=[host])
    cloud.arrive(U[0], new, larger)
    cloud.keep()
    assert [row.memory_mb for row in cloud.standbys()] == [4096, 8192]
    # Confirmed, the instance leaves its old host.
    cloud.leave(U[0], host)
    assert len(cloud.standbys()) == 2
    cloud.keep()
    assert [row.memory_mb for row in cloud.standbys()] == [8192]
    assert cloud.usage() == cloud.expected_usage()


def test_instances_that_were_there_before_are_protected_with_their_next_move(cloud):
    (host,) = cloud.ask([U[0]], SMALL, mode=None)
    cloud.arrive(U[0], host, SMALL)
    for each in cloud.schedulers:
        protection = ProtectionSettings("required")
        each.claimer.settings = replace(each.claimer.settings, protection=protection)
    assert cloud.ask([U[1]], SMALL, mode=None)
    cloud.keep()
    assert cloud.held().keys() == {U[1]}
    (new,) = cloud.ask([U[0]], SMALL, mode=None, ignore=[host])
    cloud.leave(U[0], host)
    cloud.arrive(U[0], new, SMALL)
    assert domain_of(cloud.held()[U[0]]) != domain_of(new)
    # Nor do those lose it that have one.
    for each in cloud.schedulers:
        each.claimer.settings = replace(each.claimer.settings, protection=ProtectionSettings())
    cloud.keep()
    assert cloud.held().keys() == {U[0], U[1]}
    assert cloud.usage() == cloud.expected_usage()


def test_one_spare_place_in_another_domain_survives_the_loss_of_any(cloud):
    """Places are no standbys: whoever needs room after a loss reserves a place more."""
    places = {"a1", "b1", "c1", "lone"}
    cloud.reserve("one", BIG, *sorted(places))
    placed = {uuid: cloud.ask([uuid], BIG, mode=None)[0] for uuid in U[:3]}
    (spare,) = places - {*placed.values()}
    for uuid, host in placed.items():
        cloud.arrive(uuid, host, BIG)
    fill(cloud, U[10:])
    for uuid, host in placed.items():
        with cloud.copy():
            dead = [each for each in HOSTS if domain_of(each) == domain_of(host)]
            cloud.force_down(dead)
            assert cloud.ask([uuid], BIG, mode=None, ignore=[host]) == [spare]
            assert cloud.usage() == cloud.expected_usage()


def test_an_instance_in_a_place_has_its_standby_elsewhere_or_is_refused(cloud):
    """A place holds room for one instance, not for its standby."""
    cloud.reserve("one", BIG, "a1")
    assert cloud.ask([U[0]], BIG) == ["a1"]
    assert domain_of(cloud.held()[U[0]]) != "a"
    cloud.write(release, [U[0]])
    cloud.keep()
    fill(cloud, U[10:])
    assert cloud.ask([U[0]], BIG) is None
    assert cloud.ask([U[0]], BIG, mode=None) == ["a1"]


def test_a_member_of_a_group_has_its_standby_apart_from_those_of_others(cloud):
    uuids = U[:3]
    group = a_group(members=uuids)
    for uuid in uuids:
        assert cloud.ask([uuid], SMALL, instance_group=group)
    held = cloud.held()
    assert len({held[uuid] for uuid in uuids}) == 3


def test_the_keeper_ends_what_nobody_needs_and_moves_what_does_not_hold(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, SMALL)
    assert cloud.ask([U[1]], SMALL)
    cloud.write(release, [U[1]])
    first = cloud.held()[U[0]]
    cloud.force_down([first])
    found = cloud.keep()
    assert (found.ended, found.made, found.without) == (1, 1, {})
    held = cloud.held()
    assert [*held] == [U[0]]
    assert held[U[0]] != first
    assert domain_of(held[U[0]]) != domain_of(host)
    assert cloud.usage() == cloud.expected_usage()


def test_the_keeper_takes_no_standby_for_an_evacuation_that_is_in_flight(cloud, monkeypatch):
    """Two standbys have room on a host; one is about to be taken when the keeper looks."""
    size = (3, 6144, 30)
    cloud.write(service_operations.disable, [each for each in HOSTS if each not in ("a1", "b1")])
    for uuid in U[:2]:
        assert cloud.ask([uuid], size, ignore=["b1"]) == ["a1"]
        cloud.arrive(uuid, "a1", size)
    cloud.force_down(["a1"])
    rounds = cloud.schedulers[0].loop
    claim, held = rounds._claim_together, []

    def late(decided):
        monkeypatch.undo()
        cloud.keep()
        held.append(cloud.held())
        return claim(decided)

    monkeypatch.setattr(rounds, "_claim_together", late)
    assert cloud.ask([U[0]], size, ignore=["a1"]) == ["b1"]
    assert held == [{U[0]: "b1", U[1]: "b1"}]


def test_the_keeper_follows_an_instance_to_where_it_is(cloud):
    assert cloud.ask([U[0]], SMALL)
    cloud.write(release, [U[0]])
    standby = cloud.held()[U[0]]
    cloud.arrive(U[0], standby, SMALL)
    found = cloud.keep()
    assert found.made == 1
    (row,) = cloud.standbys()
    assert row.place_node_id == cloud.nodes()[standby].id
    assert row.domains == domain_name(standby)
    assert domain_of(cloud.held()[U[0]]) != domain_of(standby)
    assert cloud.usage() == cloud.expected_usage()


def test_the_keeper_finds_a_standby_anew_for_an_instance_that_has_grown(cloud):
    (host,) = cloud.ask([U[0]], SMALL)
    cloud.arrive(U[0], host, (4, 8192, 10))
    assert cloud.keep().made == 1
    (row,) = cloud.standbys()
    assert (row.vcpus, row.memory_mb, row.disk_mb) == (4, 8192, 10 * 1024)
    assert cloud.keep().made == 0
    assert cloud.usage() == cloud.expected_usage()


def test_the_keeper_finds_a_standby_as_soon_as_there_is_room(cloud):
    outside = [host for host in (*RACKS, "lone") if domain_of(host) != "a"]
    for number, _ in enumerate(outside):
        assert cloud.ask([U[number]], BIG, mode=None, ignore=["a1", "a2"])
    (host,) = cloud.ask([U[20]], SMALL, mode="preferred")
    assert cloud.keep().without == {
        U[20]: "no host of another failure domain could hold its standby"
    }
    cloud.write(release, [U[0]])
    assert cloud.keep().without == {}
    assert domain_of(cloud.held()[U[20]]) != domain_of(host)


def test_after_an_evacuation_all_have_standbys_where_room_is_or_are_named(cloud):
    placed = {}
    for number in range(9):
        (placed[U[number]],) = cloud.ask([U[number]], SMALL, scheduler=number % 2)
        cloud.arrive(U[number], placed[U[number]], SMALL)
    dead = ["a1", "a2"]
    cloud.force_down(dead)
    for uuid, host in placed.items():
        if host in dead:
            (placed[uuid],) = cloud.ask([uuid], SMALL, ignore=[host])
            cloud.arrive(uuid, placed[uuid], SMALL)
    found = cloud.keep()
    assert cloud.usage() == cloud.expected_usage()
    held = cloud.held()
    assert held.keys() == placed.keys()
    # Whoever has none is named.
    assert {uuid for uuid, host in held.items() if host is None} == found.without.keys()
    for uuid, host in held.items():
        assert host not in dead
        assert domain_of(host) != domain_of(placed[uuid])


def fill(cloud: StandbyCloud, uuids: list[str]) -> None:
    """Boot ordinary instances of another project until there is no room for one more."""
    for uuid in uuids:
        if cloud.ask([uuid], (1, 2048, 5), mode=None, project_id="others") is None:
            return
    pytest.fail("the cloud is too large to be filled")


def domain_name(host: str) -> str:
    return RACKS.get(host, f"host:{host}")
