# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's own client calls the running scheduler for instances of groups, and for moves.

The specs of moves are those of section 12.1 of the reference: stored ones, which come changed from
tests/peer/moves.py as from Nova's API and conductor.
"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures.nova_accounts import BOTH, CONFIRMED, PENDING
from tests.fixtures.nova_client import NovaClient, a_cell
from tests.fixtures.nova_cloud import CAPS, CELL, NovaCloud, Zone, hosts_of, uuids

NOVA_ZONES = {"plain": 60, "numa": 4}
OTHER_CELL = "00000000-0000-0000-0000-0000000000c2"
HERE = {"cell": a_cell(CELL)}


class Moved:
    """An instance that was booted in a zone and is seen there by now."""

    def __init__(self, cloud: NovaCloud, nova: NovaClient, zone: Zone, **spec: Any) -> None:
        self.cloud, self.nova, self.zone = cloud, nova, zone
        self.uuid = str(uuid4())
        self.spec: dict[str, Any] = {"availability_zone": zone.name, **spec}
        # The alternate of a boot would be held until the scheduler has read that it is not.
        booted = cloud.ask(
            nova, [self.uuid], {"num_instances": 1} | self.spec, return_alternates=False
        )
        (self.source,) = hosts_of(booted)
        cloud.accounts.confirm(self.uuid)

    def ask(self, operation: str, request_id: str = "", **move: Any) -> dict[str, Any]:
        """Ask for a host for an operation."""
        asked = self._words(operation, move, request_id)
        return self.cloud.ask(self.nova, [self.uuid], **asked)

    def goes_to(self, operation: str, request_id: str = "", **move: Any) -> str:
        """Return where an operation takes it."""
        (host,) = hosts_of(self.ask(operation, request_id, **move))
        return host

    def stays(self, operation: str, request_id: str = "", **move: Any) -> bool:
        """Tell whether there is no host for an operation."""
        asked = self._words(operation, move, request_id)
        return self.cloud.refuses(self.nova, [self.uuid], **asked)

    @property
    def claims(self) -> dict[str, str]:
        return self.cloud.claims(self.uuid)

    def _words(self, operation: str, move: dict[str, Any], request_id: str) -> dict[str, Any]:
        # It is of several that were booted together, which old callers have no way to unsay.
        several = {"num_instances": 3} if self.nova.cap in ("", "4.4") else {"num_instances": 1}
        words = {"operation": operation, "source": self.source, **HERE, **move}
        return {
            "spec": self.spec | several,
            "move": {name: each for name, each in words.items() if each is not None},
            "request_id": request_id or f"req-{uuid4()}",
        }


@pytest.fixture
def moved(nova_cloud: NovaCloud, nova: NovaClient) -> Moved:
    return Moved(nova_cloud, nova, nova_cloud.zone())


@pytest.fixture
def newest_moved(nova_cloud: NovaCloud, newest_nova: NovaClient) -> Moved:
    return Moved(nova_cloud, newest_nova, nova_cloud.zone())


def test_a_cold_migration(moved: Moved) -> None:
    host = moved.goes_to("cold_migrate")
    assert host in {*moved.zone.hosts} - {moved.source}
    assert moved.claims == {moved.source: CONFIRMED, host: PENDING}
    # It is asked for once more, for a larger flavor now: what the first one held is void.
    larger = moved.goes_to("cold_migrate", flavor={"vcpus": 16})
    assert moved.claims == {moved.source: CONFIRMED, larger: PENDING}
    assert moved.stays("cold_migrate", flavor={"vcpus": 17})
    assert moved.claims == {moved.source: CONFIRMED}


def test_a_cold_migration_is_tried_on_its_alternates(newest_moved: Moved) -> None:
    moved = newest_moved
    words = moved._words("cold_migrate", {}, "")
    result = moved.cloud.ask(moved.nova, [moved.uuid], build=True, **words)
    ((chosen, *alternates),), (build,) = result["answer"], result["builds"]
    hosts = [each["service_host"] for each in (chosen, *alternates)]
    # There is room for 24 more: for one in twenty an alternate is held.
    assert len(hosts) == 2
    assert {*hosts} < {*moved.zone.hosts} - {moved.source}
    assert [each["host"] for each in build["tried"]] == hosts
    assert {each["zone"] for each in build["tried"]} == {moved.zone.name}
    assert {each["cell_uuid"] for each in (chosen, *alternates)} == {CELL}


def test_a_resize_where_it_is(moved: Moved) -> None:
    target = {"host": moved.source, "node": moved.source, "same_host": True}
    assert moved.goes_to("cold_migrate", flavor={"vcpus": 4}, **target) == moved.source
    assert moved.claims == {moved.source: BOTH}
    # The instance has 2 of 16 already.
    assert moved.stays("cold_migrate", flavor={"vcpus": 15}, **target)


def test_a_resize_to_pinned_cpus(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone = nova_cloud.zone("numa")
    special, plain, *_ = zone.hosts
    moved = Moved(nova_cloud, nova, zone, destination={"host": plain})
    pinned = {"vcpus": 4, "extra_specs": {"hw:cpu_policy": "dedicated"}}
    assert moved.goes_to("cold_migrate", flavor=pinned) == special
    assert moved.stays("cold_migrate", flavor=pinned | {"vcpus": 9})


def test_a_cold_migration_to_a_named_host(moved: Moved) -> None:
    *_, wanted = sorted({*moved.zone.hosts} - {moved.source})
    target = {"host": wanted, "node": wanted}
    assert moved.goes_to("cold_migrate", **target) == wanted
    assert moved.stays("cold_migrate", flavor={"vcpus": 17}, **target)
    assert moved.stays("cold_migrate", host=moved.source, node=moved.source)
    assert moved.stays("cold_migrate", host="unknown", node="unknown")


def test_a_move_keeps_to_its_cell(moved: Moved) -> None:
    other = {"cell": a_cell(OTHER_CELL)}
    for operation in ("cold_migrate", "live_migrate", "evacuate"):
        assert moved.stays(operation, **other)
    # Unless it may leave it.
    assert moved.goes_to("cold_migrate", cross_cell=True, **other) in moved.zone.hosts
    *_, wanted = sorted({*moved.zone.hosts} - {moved.source})
    target = {"host": wanted, "node": wanted}
    assert moved.goes_to("cold_migrate", cross_cell=True, **other, **target) == wanted


def test_a_live_migration_leaves_out_what_has_failed_its_checks(moved: Moved) -> None:
    # All within the same request of a user.
    tried, request_id = [], f"req-{uuid4()}"
    while len(tried) < 3:
        host = moved.goes_to("live_migrate", request_id, tried=tried)
        assert host in {*moved.zone.hosts} - {moved.source, *tried}
        assert moved.claims == {moved.source: CONFIRMED, host: PENDING}
        tried.append(host)
    assert moved.stays("live_migrate", request_id, tried=tried)
    assert moved.claims == {moved.source: CONFIRMED}


@pytest.mark.parametrize("operation", ["live_migrate", "evacuate"])
def test_a_move_to_a_named_host(newest_moved: Moved, operation: str) -> None:
    moved = newest_moved
    *_, wanted = sorted({*moved.zone.hosts} - {moved.source})
    result = moved.ask(operation, host=wanted, node=wanted)
    ((selection,),) = result["answer"]
    assert selection["service_host"] == wanted
    assert selection["compute_node_uuid"] == moved.cloud.node_uuid(wanted)
    assert moved.claims == {moved.source: CONFIRMED, wanted: PENDING}


def test_an_evacuation(moved: Moved) -> None:
    host = moved.goes_to("evacuate")
    assert host in {*moved.zone.hosts} - {moved.source}
    assert moved.claims == {moved.source: CONFIRMED, host: PENDING}


def test_a_move_keeps_its_server_group_apart(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, uuid = nova_cloud.zone(), str(uuid4())
    group: dict[str, Any] = {"uuid": str(uuid4()), "members": [uuid]}
    (near,) = nova_cloud.boot(nova, [uuid], availability_zone=zone.name, group=group)
    nova_cloud.accounts.confirm(uuid)
    moved = Moved(nova_cloud, nova, zone, group=group | {"hosts": [near]})
    assert moved.source != near
    members = {"members": [uuid, moved.uuid], "hosts": [near, moved.source]}
    moved.spec["group"] = group | members
    assert moved.stays("cold_migrate", host=near, node=near)
    assert moved.goes_to("cold_migrate") in {*zone.hosts} - {near, moved.source}
    # It is no obstacle to itself.
    target = {"host": moved.source, "node": moved.source, "same_host": True}
    assert moved.goes_to("cold_migrate", **target) == moved.source


def test_a_rebuild_asks_only_whether_the_image_suits(
    nova_cloud: NovaCloud, nova: NovaClient
) -> None:
    moved = Moved(nova_cloud, nova, nova_cloud.zone(), flavor={"vcpus": 16})
    # There is no room for another one of it, nor is any needed.
    assert moved.goes_to("rebuild", image={"hw_architecture": "x86_64"}) == moved.source
    assert moved.stays("rebuild", image={"hw_architecture": "aarch64"})
    assert moved.claims == {moved.source: CONFIRMED}


def test_a_rebuild_claims_nothing_in_placement(newest_moved: Moved) -> None:
    moved = newest_moved
    ((selection,),) = moved.ask("rebuild")["answer"]
    assert selection["service_host"] == moved.source
    assert selection["allocation_request"] is None


def test_an_unshelving(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    before, after = nova_cloud.zone(), nova_cloud.zone()
    uuid, spec = str(uuid4()), {"availability_zone": before.name}
    (host,) = nova_cloud.boot(nova, [uuid], **spec)
    # Its host tells of it when it has given it up.
    nova_cloud.loses(nova, uuid, host)
    back = nova_cloud.ask(nova, [uuid], spec, {"operation": "unshelve", **HERE})
    assert hosts_of(back)[0] in before.hosts
    *_, wanted = after.hosts
    elsewhere = {"operation": "unshelve", "availability_zone": after.name, **HERE}
    assert hosts_of(nova_cloud.ask(nova, [uuid], spec, elsewhere))[0] in after.hosts
    assert hosts_of(nova_cloud.ask(nova, [uuid], spec, elsewhere | {"host": wanted})) == [wanted]
    assert nova_cloud.claims(uuid) == {wanted: PENDING}
    # It is not in the zone that was asked for.
    assert nova_cloud.refuses(nova, [uuid], spec, elsewhere | {"host": before.hosts[0]})


def test_members_of_a_group_do_not_share_hosts(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, (first, second, third, fourth, fifth) = nova_cloud.zone(), uuids(5)
    group: dict[str, Any] = {"uuid": str(uuid4()), "policy": "anti-affinity"}
    spec: dict[str, Any] = {"availability_zone": zone.name}
    members = [first, second, third]
    hosts = nova_cloud.boot(nova, members, group=group | {"members": members}, **spec)
    # The conductor knows of no hosts yet, since none of these has been built.
    members = [*members, fourth]
    hosts += nova_cloud.boot(nova, [fourth], group=group | {"members": members}, **spec)
    assert sorted(hosts) == zone.hosts
    members = [*members, fifth]
    assert nova_cloud.refuses(nova, [fifth], spec | {"group": group | {"members": members}})


def test_members_share_hosts_as_far_as_their_rules_allow(
    nova_cloud: NovaCloud, nova: NovaClient
) -> None:
    zone, members = nova_cloud.zone(), uuids(8)
    group = {"uuid": str(uuid4()), "rules": {"max_server_per_host": "2"}, "members": members}
    spec: dict[str, Any] = {"availability_zone": zone.name, "group": group}
    if nova.cap == "liberty":
        # The dictionaries of that time have no place for rules.
        assert nova_cloud.refuses(nova, members, spec)
    else:
        assert Counter(nova_cloud.boot(nova, members, **spec)) == Counter(zone.hosts * 2)


def test_requests_at_once_of_a_group_do_not_share_a_host(nova_cloud: NovaCloud) -> None:
    zone, members = nova_cloud.zone(), uuids(len(CAPS))
    group = {"uuid": str(uuid4()), "policy": "anti-affinity", "members": members}
    spec = {"availability_zone": zone.name, "group": group}
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(nova_cloud.boot, nova, [uuid], **spec)
            for nova, uuid in zip(nova_cloud.clients.values(), members, strict=True)
        ]
    assert sorted(each.result()[0] for each in asked) == zone.hosts


def test_members_of_a_group_stay_together(nova_cloud: NovaCloud, nova: NovaClient) -> None:
    zone, (first, second) = nova_cloud.zone(), uuids(2)
    group = {"uuid": str(uuid4()), "policy": "affinity", "members": [first, second]}
    spec = {"availability_zone": zone.name, "group": group}
    assert nova_cloud.boot(nova, [first], **spec) == nova_cloud.boot(nova, [second], **spec)
