# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A Nova cloud changes from its own scheduler to ours and back, while servers boot and after."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import pytest

from inventory import aggregates
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.switched_nova import SwitchedNova
from tests.fixtures.whole_nova import HOSTS

pytestmark = pytest.mark.matrix


def test_it_switches_under_load_and_back(switched: SwitchedNova) -> None:
    switched.serve_by("novas")
    assert switched.statuses(*switched.boot(6)) == ["ACTIVE"] * 6
    switched.assert_agreement()
    for name in ("ours", "novas"):
        with ThreadPoolExecutor(1) as pool:
            booting = pool.submit(switched.boot, 20, 512)
            assert wait_until(switched.is_booting)
            switched.serve_by(name)
            servers = booting.result()
        assert Counter(switched.statuses(*servers)) == {"ACTIVE": 20}
        switched.assert_agreement()
        assert switched.statuses(*switched.boot(3)) == ["ACTIVE"] * 3
    switched.assert_nothing_to_heal()


def test_two_schedulers_give_each_place_once(ours: SwitchedNova) -> None:
    """There is room for 8 on each host."""
    second = ours.start_one_of_ours()
    found = ours.statuses(*ours.boot(30, 8000))
    assert Counter(found) == {"ACTIVE": 24, "ERROR": 6}
    ours.assert_agreement()
    assert second.stop() == 0


def test_placement_dies_while_servers_boot(ours: SwitchedNova) -> None:
    with ThreadPoolExecutor(1) as pool:
        booting = pool.submit(ours.boot, 20, 512)
        assert wait_until(ours.is_booting)
        ours.nova.placement_process.kill()
        ours.nova.start_placement()
        servers = booting.result()
    # Builds that a compute service gives up since Placement was away for it are none of ours.
    assert "Request failed" not in ours.log()
    assert "ACTIVE" in ours.statuses(*servers)
    # Nor are allocations that it could not delete.
    ours.nova.manage("placement", "audit", "--delete")


def test_server_groups(ours: SwitchedNova) -> None:
    policy = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    group = ours.nova.call("POST", "/os-server-groups", policy)["server_group"]["id"]
    apart = ours.boot(3, hints={"group": group})
    assert {*ours.hosts(*apart)} == {*HOSTS}
    assert ours.statuses(*ours.boot(1, hints={"group": group})) == ["ERROR"]


@contextmanager
def aggregate(ours: SwitchedNova, name: str, host: str, **metadata: str) -> Iterator[None]:
    """An aggregate with one host that our scheduler knows of; empty before it goes."""
    nova = ours.nova
    number = nova.call("POST", "/os-aggregates", {"aggregate": {"name": name}})["aggregate"]["id"]
    path = f"/os-aggregates/{number}"
    nova.call("POST", f"{path}/action", {"set_metadata": {"metadata": metadata}})
    nova.call("POST", f"{path}/action", {"add_host": {"host": host}})

    def known() -> bool:
        found = ours.cloud.database.read(aggregates.everything)
        return any(
            (each.name, each.hosts, each.metadata) == (name, [host], metadata) for each in found
        )

    assert wait_until(known), ours.cloud.database.read(aggregates.everything)
    yield
    ours.delete_all()
    nova.call("POST", f"{path}/action", {"remove_host": {"host": host}})
    nova.call("DELETE", path)


def test_zones(ours: SwitchedNova) -> None:
    with aggregate(ours, "south", HOSTS[1], availability_zone="south"):
        assert {*ours.hosts(*ours.boot(3, availability_zone="south"))} == {HOSTS[1]}


def test_properties_of_aggregates(ours: SwitchedNova) -> None:
    wanted = {"aggregate_instance_extra_specs__ssd": "true"}
    with aggregate(ours, "fast", HOSTS[2], ssd="true"):
        assert {*ours.hosts(*ours.boot(3, extra_specs=wanted))} == {HOSTS[2]}
    assert ours.statuses(*ours.boot(1, extra_specs=wanted)) == ["ERROR"]


@contextmanager
def builds_failing(switched: SwitchedNova, *hosts: str) -> Iterator[None]:
    files = [switched.nova.directory / f"{host}.failing" for host in hosts]
    for each in files:
        each.touch()
    yield
    for each in files:
        each.unlink()


def test_failed_builds_go_to_alternates(ours: SwitchedNova) -> None:
    with builds_failing(ours, HOSTS[0], HOSTS[1]):
        found = ours.boot(4)
        assert ours.statuses(*found) == ["ACTIVE"] * 4
        assert {*ours.hosts(*found)} == {HOSTS[2]}
    ours.assert_agreement()


def test_builds_that_fail_everywhere_leave_nothing(ours: SwitchedNova) -> None:
    with builds_failing(ours, *HOSTS):
        assert ours.statuses(*ours.boot(3)) == ["ERROR"] * 3
    ours.assert_agreement()


def test_resize_confirmed_and_reverted(ours: SwitchedNova) -> None:
    first, second = ours.boot(2)
    for server in (first, second):
        ours.act(server, "resize", {"flavorRef": ours.nova.flavor(2048)})
    ours.wait(first, second, states=("VERIFY_RESIZE",))
    ours.assert_agreement()
    ours.act(first, "confirmResize")
    ours.act(second, "revertResize")
    ours.wait(first, second)
    ours.assert_agreement()


@pytest.mark.parametrize("forced", [False, True])
def test_live_migration(ours: SwitchedNova, forced: bool) -> None:
    (server,) = ours.boot(1)
    (source,) = ours.hosts(server)
    target = next(each for each in HOSTS if each != source)
    body = {"host": target if forced else None, "block_migration": False}
    if forced:
        body["force"] = True
    ours.act(server, "os-migrateLive", body, "2.60")
    assert wait_until(lambda: ours.hosts(server) != [source])
    ours.wait(server)
    ours.assert_agreement()


def test_rebuild_shelve_and_unshelve(ours: SwitchedNova) -> None:
    (server,) = ours.boot(1)
    hosts = ours.hosts(server)
    image = {"imageRef": "155d900f-4e14-4e4c-a73d-069cbf4541e6"}
    ours.act(server, "rebuild", image)
    ours.wait(server)
    assert ours.hosts(server) == hosts
    ours.assert_agreement()
    ours.act(server, "shelve")
    ours.wait(server, states=("SHELVED_OFFLOADED",))
    ours.assert_agreement()
    ours.act(server, "unshelve")
    ours.wait(server)
    ours.assert_agreement()


@pytest.mark.parametrize("forced", [False, True])
def test_evacuation(ours: SwitchedNova, forced: bool) -> None:
    nova, (server,) = ours.nova, ours.boot(1)
    (source,) = ours.hosts(server)
    target = next(each for each in HOSTS if each != source)
    ours.cloud.force_down(str(source))
    body = {"host": target, "force": True} if forced else {}
    ours.act(server, "evacuate", body, "2.60")
    assert wait_until(lambda: ours.hosts(server) != [source])
    ours.wait(server)
    ours.cloud.force_up(str(source))
    assert wait_until(lambda: nova.is_up and not ours.differences()), ours.differences()


def test_what_only_placement_knows_is_found_there(ours: SwitchedNova) -> None:
    ask = ours.placement.session.request
    root = next(each for each in ours.placement.providers() if each.name == HOSTS[1])
    child = str(uuid4())
    own = {"name": f"{HOSTS[1]}_card", "uuid": child, "parent_provider_uuid": root.uuid}
    ask("PUT", "/resource_classes/CUSTOM_CARD", None)
    ask("PUT", "/traits/CUSTOM_FAST", None)
    ask("POST", "/resource_providers", own)
    cards = {"resource_provider_generation": 0, "inventories": {"CUSTOM_CARD": {"total": 2}}}
    ask("PUT", f"/resource_providers/{child}/inventories", cards)
    fast = {"resource_provider_generation": 1, "traits": ["CUSTOM_FAST"]}
    ask("PUT", f"/resource_providers/{child}/traits", fast)
    extra_specs = {"resources1__CUSTOM_CARD": "1", "trait1__CUSTOM_FAST": "required"}
    found = ours.boot(3, extra_specs=extra_specs)
    statuses = dict(zip(found, ours.statuses(*found), strict=True))
    assert sorted(statuses.values()) == ["ACTIVE", "ACTIVE", "ERROR"]
    placed = [each for each, status in statuses.items() if status == "ACTIVE"]
    assert ours.hosts(*placed) == [HOSTS[1]] * 2
    assert ours.placement.allocations_of(child) == {each: {"CUSTOM_CARD": 1} for each in placed}


def test_what_an_operator_tries_is_given_back(ours: SwitchedNova) -> None:
    deployment = ours.cloud.deployment
    deployment.config = deployment.write_config("operator", {"placement": ours.nova.placement})
    for each in deployment.cli_json("select", "--num-instances", "2", "-c", "Instance"):
        assert not ours.placement.allocations_for(each["Instance"]).resources
    assert not ours.cloud.claims()
    ((kept,),) = (
        each.values() for each in deployment.cli_json("select", "--keep", "-c", "Instance")
    )
    assert ours.placement.allocations_for(kept).resources
    assert ours.placement.delete_allocations(kept)
    ours.cloud.release_all()


def test_only_hosts_that_are_not_disabled_get_servers(ours: SwitchedNova) -> None:
    nova = ours.nova
    found = nova.call("GET", "/os-services?binary=nova-compute")["services"]
    numbers = {each["host"]: each["id"] for each in found}

    def disable_only(*hosts: str) -> None:
        for host, number in numbers.items():
            status = "disabled" if host in hosts else "enabled"
            nova.call("PUT", f"/os-services/{number}", {"status": status})
        assert wait_until(lambda: sorted(ours.dead()) == sorted(hosts)), ours.dead()

    first, *others = HOSTS
    disable_only(first)
    assert {*ours.hosts(*ours.boot(6))} <= {*others}
    disable_only(*others)
    assert {*ours.hosts(*ours.boot(3))} == {first}
    disable_only()
