# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Members of server groups that are booted and moved by two schedulers at the same time.

Every request knows the group as it was before; only the claims know of the others.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any
from uuid import uuid4

import pytest

from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.moving import SCHEDULERS, Moving, a_group, moving, request
from tests.fixtures.played import LARGE, VCPUS, Size

HOSTS = 80
ROUNDS = 4
TOGETHER, APART = "affinity", "anti-affinity"
MOVES = ["cold_migrate", "live_migrate", "evacuate", "unshelve"]


@pytest.fixture(scope="module")
def cloud(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moving]:
    with moving(rabbitmq, mariadb, tmp_path_factory.mktemp("races"), HOSTS) as found:
        yield found


class Group:
    """A server group, and where its members are."""

    def __init__(self, cloud: Moving, policy: str, members: int, most: int = 1) -> None:
        self.cloud, self.policy, self.most = cloud, policy, most
        self.uuid = str(uuid4())
        self.members = [str(uuid4()) for _ in range(members)]
        self.places: dict[str, str] = {}

    def request(
        self, operation: str, member: str, hosts: Sequence[str], **changes: Any
    ) -> dict[str, Any]:
        """Return a request for a member, which may go to these hosts."""
        group = a_group(self.policy, self.uuid, self.members, self.places.values(), self.most)
        ignored = self.cloud.but(*hosts)
        return request(operation, member, group=group, ignore_hosts=ignored, **changes)

    def boot(self, places: Mapping[str, str], forced: bool = False) -> None:
        """Let members be on hosts; forced does not ask whether they may."""
        for member, host in places.items():
            target = {"force_hosts": [host], "force_nodes": [host]} if forced else {}
            operation = "forced_host" if forced else "objects_no_alternates"
            assert self.cloud.ask(self.request(operation, member, [host], **target)) == [host]
            self.cloud.played.arrive(member, host)
            self.places[member] = host
        for member, host in places.items():
            claims = {host: "confirmed"}
            assert self.cloud.wait_until(
                lambda who=member, now=claims: self.cloud.claims(who) == now
            )

    def claimed(self) -> Counter[str]:
        """Return how many members each host has, or is to have."""
        return Counter(host for each in self.members for host in self.cloud.claims(each))


def at_once(cloud: Moving, requests: Sequence[dict[str, Any]]) -> list[str | None]:
    """Send requests to the schedulers in turn before any is answered; return the hosts."""
    sent = [cloud.send(*each) for each in zip(requests, cycle(SCHEDULERS))]
    return [(found or [None])[0] for found in map(cloud.answer, sent)]


@pytest.mark.parametrize("operation", MOVES)
def test_two_members_that_move_at_once_never_meet(cloud: Moving, operation: str) -> None:
    sources, targets = cloud.hosts(2), cloud.hosts(2)
    for _ in range(ROUNDS):
        group = Group(cloud, APART, 2)
        group.boot(dict(zip(group.members, sources, strict=True)))
        requests = [group.request(operation, each, targets) for each in group.members]
        found = at_once(cloud, requests)
        assert sorted(map(str, found)) == targets
        assert group.claimed() == Counter([*sources, *targets])
        # For one host there is a choice no more: one of them has to stay.
        left = at_once(
            cloud, [group.request(operation, each, targets[:1]) for each in group.members]
        )
        assert sorted(left, key=str) == [None, targets[0]]
        assert group.claimed() == Counter([*sources, targets[0]])


def test_all_operations_at_once_keep_the_members_apart(cloud: Moving) -> None:
    operations = ["objects_alternates", *MOVES, "cold_migrate", "live_migrate"]
    sources = cloud.hosts(len(operations))
    targets = cloud.hosts(len(operations) - 1)
    group = Group(cloud, APART, len(operations))
    group.boot(dict(list(zip(group.members, sources, strict=True))[1:]))
    requests = [
        group.request(*each, targets) for each in zip(operations, group.members, strict=True)
    ]
    found = at_once(cloud, requests)
    # There is one host less than there are members.
    assert found.count(None) == 1
    assert sorted(each for each in found if each) == targets
    assert max(group.claimed().values()) == 1


@pytest.mark.parametrize("most", [1, 2])
def test_a_member_that_is_alone_on_its_host_may_stay_there(cloud: Moving, most: int) -> None:
    host, other = cloud.hosts(2)
    group = Group(cloud, APART, most + 1, most)
    group.boot({**dict.fromkeys(group.members, host), group.members[-1]: other})
    resize = group.request("cold_migrate", group.members[0], [host], size=LARGE)
    assert cloud.ask(resize, "second") == [host]
    assert cloud.claims(group.members[0]) == {host: "confirmed+pending"}
    # The other one may not come.
    assert cloud.ask(group.request("cold_migrate", group.members[-1], [host])) is None


def test_a_member_may_go_back_to_the_host_that_it_has_not_left(cloud: Moving) -> None:
    source, destination = cloud.hosts(2)
    group = Group(cloud, APART, 2)
    member, other = group.members
    group.boot({member: source})
    assert cloud.ask(group.request("live_migrate", member, [destination])) == [destination]
    # Neither end of a move is anybody else's.
    assert cloud.ask(group.request("objects_alternates", other, [source, destination])) is None
    assert cloud.ask(group.request("cold_migrate", member, [source]), "second") == [source]
    assert cloud.claims(member) == {source: "confirmed+pending"}
    assert cloud.ask(group.request("objects_alternates", other, [destination])) == [destination]


def test_a_member_that_was_forced_to_another_ones_host_can_be_resized(cloud: Moving) -> None:
    host, other = cloud.hosts(2)
    # The better one of two hosts is that on which the policy is broken already.
    cloud.boot(str(uuid4()), other, Size(VCPUS // 2, 32768, 100))
    group = Group(cloud, APART, 2)
    group.boot(dict.fromkeys(group.members, host), forced=True)
    resize = group.request("cold_migrate", group.members[0], [host, other], size=LARGE)
    assert cloud.ask(resize) is not None


@pytest.mark.parametrize("most", [1, 2])
def test_members_are_evacuated_from_one_dead_host_at_once(cloud: Moving, most: int) -> None:
    (dead,), alive = cloud.hosts(1), cloud.hosts(2)
    group = Group(cloud, APART, 2 * most, most)
    group.boot(dict.fromkeys(group.members, dead), forced=True)
    requests = [group.request("evacuate", each, alive) for each in group.members]
    found = at_once(cloud, requests)
    assert Counter(found) == Counter(alive * most)
    assert group.claimed() == Counter([dead] * 2 * most + alive * most)


@pytest.mark.parametrize("most", [1, 2])
def test_members_are_booted_at_once_up_to_the_limit(cloud: Moving, most: int) -> None:
    hosts = cloud.hosts(4)
    group = Group(cloud, APART, 4 * most + 1, most)
    requests = [group.request("objects_alternates", each, hosts) for each in group.members]
    found = at_once(cloud, requests)
    assert Counter(found) == Counter([*hosts * most, None])
    assert group.claimed() == Counter(hosts * most)


def test_first_members_that_are_booted_at_once_end_on_one_host(cloud: Moving) -> None:
    hosts = cloud.hosts(4)
    for _ in range(ROUNDS):
        group = Group(cloud, TOGETHER, 8)
        requests = [group.request("objects_alternates", each, hosts) for each in group.members]
        found = at_once(cloud, requests)
        (host,) = {*found}
        assert group.claimed() == Counter({host: 8})
        for member in group.members:
            cloud.end_lease(member)
        assert cloud.wait_until(lambda ended=group: not ended.claimed())


@pytest.mark.parametrize("members", [1, 2])
def test_a_member_of_an_affinity_group_is_resized_where_it_is(cloud: Moving, members: int) -> None:
    host, other = cloud.hosts(2)
    group = Group(cloud, TOGETHER, members)
    group.boot(dict.fromkeys(group.members, host))
    found = at_once(
        cloud,
        [group.request("cold_migrate", each, [host, other], size=LARGE) for each in group.members],
    )
    assert found == [host] * members
    # Alone elsewhere nobody may be, also not after a death of their host.
    for operation in ("cold_migrate", "evacuate"):
        assert cloud.ask(group.request(operation, group.members[0], [other])) is None
    assert group.claimed() == Counter({host: members})


def test_one_that_is_unshelved_joins_its_group(cloud: Moving) -> None:
    host, other, third = cloud.hosts(3)
    group = Group(cloud, TOGETHER, 3)
    shelved, *rest = group.members
    requests = [group.request("objects_alternates", each, [other, third]) for each in rest]
    requests.insert(1, group.request("unshelve", shelved, [other, third]))
    (together,) = {*at_once(cloud, requests)}
    assert group.claimed() == Counter({together: 3})
    assert cloud.ask(group.request("unshelve", shelved, [host]), "second") is None
