# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is claimed for instances that are moved, or built elsewhere after a build that failed."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.databases import execute
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.moving import Moving, moving, request
from tests.fixtures.played import LARGE, SMALL, VCPUS, Size
from tests.records import manage, unmanage
from tests.unit.scheduler.wire import wire_samples

HOSTS = 40
FREE = (0, 0, 0, 0)
# What instances take, and how many claims count.
ONE, ONE_CLAIMED = (2, 2048, 20, 0), (2, 2048, 20, 1)
GROWN_CLAIMED = (4, 8192, 40, 1)


@pytest.fixture(scope="module")
def cloud(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moving]:
    with moving(rabbitmq, mariadb, tmp_path_factory.mktemp("moves"), HOSTS) as found:
        yield found


@pytest.fixture
def uuid() -> str:
    return str(uuid4())


def test_a_live_migration_leaves_the_hosts_that_failed_its_checks(cloud: Moving, uuid: str) -> None:
    source, *rest = cloud.hosts(4)
    cloud.boot(uuid, source)
    tried: list[str] = []
    request_id = f"req-{uuid4()}"
    for scheduler in ("first", "second", "first"):
        ignored = [source, *tried, *cloud.but(source, *rest)]
        message = request("live_migrate", uuid, request_id=request_id, ignore_hosts=ignored)
        ((chosen,),) = [cloud.ask(message, scheduler)]
        assert chosen in rest
        assert chosen not in tried
        assert cloud.claims(uuid) == {source: "confirmed", chosen: "pending"}
        assert cloud.taken(chosen) == ONE_CLAIMED
        assert [cloud.taken(each) for each in tried] == [FREE] * len(tried)
        tried.append(chosen)
    message = request(
        "live_migrate",
        uuid,
        request_id=request_id,
        ignore_hosts=[source, *tried, *cloud.but(source, *rest)],
    )
    # There is none left: nothing is held, and the instance stays where it is.
    assert cloud.ask(message, "second") is None
    assert cloud.claims(uuid) == {source: "confirmed"}
    assert [cloud.taken(each) for each in (source, *rest)] == [ONE, FREE, FREE, FREE]


def test_a_live_migration_that_comes_back_is_a_move_like_any_other(
    cloud: Moving, uuid: str
) -> None:
    hosts = cloud.hosts(2)
    cloud.boot(uuid, hosts[0])
    for source, destination in (hosts, hosts[::-1], hosts):
        message = request("live_migrate", uuid, ignore_hosts=cloud.but(destination))
        assert cloud.ask(message) == [destination]
        assert cloud.claims(uuid) == {source: "confirmed", destination: "pending"}
        cloud.played.arrive(uuid, destination)
        confirmed = {source: "confirmed", destination: "confirmed"}
        assert cloud.wait_until(lambda wanted=confirmed: cloud.claims(uuid) == wanted)
        cloud.played.leave(uuid, source)
        assert cloud.wait_until(lambda left=source: cloud.taken(left) == FREE)
        assert cloud.claims(uuid) == {destination: "confirmed"}
        assert cloud.taken(destination) == ONE


@pytest.mark.parametrize("named", [True, False])
def test_an_evacuation_claims_beside_what_nobody_can_take_back_yet(
    cloud: Moving, uuid: str, named: bool
) -> None:
    (destination,) = cloud.hosts(1)
    dying = cloud.add_hosts(f"dying{named}".lower(), 1)
    cloud.wait_for(dying)
    (source,) = dying.names
    boot = request("objects_no_alternates", uuid, ignore_hosts=cloud.but(source))
    assert cloud.ask(boot) == [source]
    dying.arrive(uuid, source)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {source: "confirmed"})
    dying.agent.kill()
    execute(
        cloud.database,
        "UPDATE services SET last_seen_up = '2000-01-01' WHERE host = :host",
        host=source,
    )
    ignored = {"destination": destination} if named else {}
    hosts = [source] if named else cloud.but(destination)
    message = request("evacuate", uuid, ignore_hosts=hosts, **ignored)
    assert cloud.ask(message, "second") == [destination]
    assert cloud.claims(uuid) == {source: "confirmed", destination: "pending"}
    cloud.played.arrive(uuid, destination)
    assert cloud.wait_until(lambda: cloud.claims(uuid)[destination] == "confirmed")
    assert cloud.taken(destination) == ONE
    # The host comes back, and what had been there is cleaned up.
    assert cloud.taken(source) == ONE
    dying.leave(uuid, source)
    dying.start()
    assert cloud.wait_until(lambda: cloud.taken(source) == FREE)
    assert cloud.claims(uuid) == {destination: "confirmed"}


def test_an_instance_that_is_unshelved_is_claimed_for_anew(cloud: Moving, uuid: str) -> None:
    before, after = cloud.hosts(2)
    cloud.boot(uuid, before)
    manage(cloud.database, uuid, before, before, **SMALL._asdict())
    # Shelved: its guest is gone, and its row has released the host.
    manage(cloud.database, uuid, before, before, vm_state="shelved_offloaded")
    cloud.played.leave(uuid, before)
    assert cloud.wait_until(lambda: cloud.taken(before) == FREE)
    assert cloud.claims(uuid) == {}
    message = request("unshelve", uuid, destination=after)
    assert cloud.ask(message) == [after]
    assert cloud.claims(uuid) == {after: "pending"}
    assert cloud.taken(after) == ONE_CLAIMED
    unmanage(cloud.database, uuid)
    manage(cloud.database, uuid, after, after, **SMALL._asdict())
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {after: "confirmed"})
    assert cloud.taken(after) == ONE


def test_an_instance_that_is_unshelved_where_it_was_is_claimed_for_as_well(
    cloud: Moving, uuid: str
) -> None:
    (host,) = cloud.hosts(1)
    cloud.boot(uuid, host)
    manage(cloud.database, uuid, host, host, vm_state="shelved_offloaded", **SMALL._asdict())
    cloud.played.leave(uuid, host)
    assert cloud.wait_until(lambda: cloud.taken(host) == FREE)
    assert cloud.ask(request("unshelve", uuid, LARGE, destination=host)) == [host]
    cloud.audited(host)
    assert (cloud.claims(uuid), cloud.taken(host)) == ({host: "pending"}, GROWN_CLAIMED)
    cloud.played.arrive(uuid, host, LARGE)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {host: "confirmed"})


def test_a_rebuild_claims_nothing(cloud: Moving, uuid: str) -> None:
    (host,) = cloud.hosts(1)
    cloud.boot(uuid, host)
    forced = {"force_hosts": [host], "force_nodes": [host]}
    assert cloud.ask(request("rebuild", uuid, **forced)) == [host]
    assert (cloud.claims(uuid), cloud.taken(host)) == ({host: "confirmed"}, ONE)


def test_a_forced_host_counts_what_it_cannot_hold(cloud: Moving) -> None:
    (host,) = cloud.hosts(1)
    uuids = [str(uuid4()) for _ in range(3)]
    half = Size(VCPUS // 2, 1024, 1)
    for each in uuids:
        message = request("forced_host", each, half, force_hosts=[host], force_nodes=[host])
        assert cloud.ask(message) == [host]
        assert cloud.claims(each) == {host: "pending"}
    assert cloud.taken(host) == (3 * VCPUS // 2, 3072, 3, 3)
    # Whoever has the choice sees that there is no room.
    ordinary = request("objects_alternates", str(uuid4()), ignore_hosts=cloud.but(host))
    assert cloud.ask(ordinary) is None


def test_what_an_older_request_holds_is_room_for_the_next_one(cloud: Moving, uuid: str) -> None:
    (host,) = cloud.hosts(1)
    full = Size(VCPUS, 1024, 1)
    for scheduler in ("first", "second"):
        message = request("objects_alternates", uuid, full, ignore_hosts=cloud.but(host))
        assert cloud.ask(message, scheduler) == [host]
        assert (cloud.claims(uuid), cloud.taken(host)) == ({host: "pending"}, (*full, 1))


def test_a_build_that_failed_is_tried_elsewhere_as_newton_does(cloud: Moving) -> None:
    for dialect in (_newton, _liberty):
        uuid, request_id, hosts = str(uuid4()), f"req-{uuid4()}", cloud.hosts(3)
        tried: list[str] = []
        for scheduler in ("first", "second", "first"):
            message = dialect(uuid, request_id, tried, cloud.but(*hosts))
            ((chosen,),) = [cloud.ask(message, scheduler)]
            assert chosen in hosts
            assert chosen not in tried
            # The message is sent again by a broker, and changes nothing.
            assert cloud.ask(message, "second") == [chosen]
            assert cloud.claims(uuid) == {chosen: "pending"}
            assert cloud.taken(chosen) == ONE_CLAIMED
            assert [cloud.taken(each) for each in tried] == [FREE] * len(tried)
            tried.append(chosen)
        assert cloud.ask(dialect(uuid, request_id, tried, cloud.but(*hosts))) is None
        assert cloud.claims(uuid) == {}
        assert [cloud.taken(each) for each in hosts] == [FREE] * 3


def test_alternates_are_not_held_where_that_is_wanted(cloud: Moving, uuid: str) -> None:
    hosts = cloud.hosts(3)
    options = {"claims": {"alternates": False}}
    scheduler = cloud.deployment.scheduler("threading", options, name="generous")
    message = request("objects_alternates", uuid, ignore_hosts=cloud.but(*hosts))
    found = cloud.ask(message, "generous") or []
    assert sorted(found) == hosts
    assert cloud.claims(uuid) == {found[0]: "pending"}
    # Nothing is held on an alternate. The guest counts as soon as it is seen there.
    cloud.played.arrive(uuid, found[1])
    assert cloud.wait_until(lambda: cloud.taken(found[1]) == ONE)
    assert cloud.taken(found[0]) == ONE_CLAIMED
    cloud.end_lease(uuid)
    assert cloud.wait_until(lambda: cloud.taken(found[0]) == FREE)
    scheduler.stop()


def test_a_build_that_failed_is_tried_on_an_alternate(cloud: Moving, uuid: str) -> None:
    hosts = cloud.hosts(3)
    # So small that one in twenty is enough for two alternates.
    small = Size(0, 16, 0)
    found = cloud.ask(request("objects_alternates", uuid, small, ignore_hosts=cloud.but(*hosts)))
    chosen, *alternates = found or []
    assert sorted([chosen, *alternates]) == hosts
    states = {chosen: "pending"} | dict.fromkeys(alternates, "alternate")
    assert cloud.claims(uuid) == states
    assert [cloud.taken(each) for each in hosts] == [(*small, 1)] * 3
    cloud.played.arrive(uuid, alternates[0], small)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {alternates[0]: "confirmed"})
    assert cloud.taken(alternates[0]) == (*small, 0)
    # Well before the lease ends.
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {alternates[0]: "confirmed"})
    free = [cloud.taken(each) for each in hosts if each != alternates[0]]
    assert free == [FREE, FREE]


def test_a_cast_claims_as_a_call_does(cloud: Moving, uuid: str) -> None:
    hosts = cloud.hosts(2)
    message = request("objects_alternates", uuid, ignore_hosts=cloud.but(*hosts))
    cast = {name: each for name, each in message.items() if name not in ("_msg_id", "_reply_q")}
    assert cloud.send(cast, "first") is None
    assert cloud.wait_until(lambda: bool(cloud.claims(uuid)))
    ((host, state),) = cloud.claims(uuid).items()
    assert host in hosts
    assert state == "pending"
    assert cloud.taken(host) == ONE_CLAIMED
    # Who asks the same wants to know what became of it.
    found = cloud.ask(message, "second") or []
    assert found[0] == host
    assert cloud.claims(uuid) == {host: "pending"}


def _newton(uuid: str, request_id: str, tried: list[str], ignored: list[str]) -> dict[str, Any]:
    """Return what a conductor of Newton sends after some builds have failed."""
    message: dict[str, Any] = wire_samples.sample("call_newton_select_destinations_4.3")["message"]
    data = message["args"]["spec_obj"]["nova_object.data"]
    retry = wire_samples.primitive("obj_request_spec_retry_limits")["nova_object.data"]["retry"]
    (node,) = retry["nova_object.data"]["hosts"]["nova_object.data"]["objects"]
    retry["nova_object.data"]["num_attempts"] = len(tried) + 1
    retry["nova_object.data"]["hosts"]["nova_object.data"]["objects"] = [
        {**node, "nova_object.data": {"host": each, "hypervisor_hostname": each}} for each in tried
    ]
    data |= {"instance_uuid": uuid, "ignore_hosts": ignored, "retry": retry}
    return message | {"_context_request_id": request_id}


def _liberty(uuid: str, request_id: str, tried: list[str], ignored: list[str]) -> dict[str, Any]:
    """Return the dictionaries of the same from before Newton."""
    sample = wire_samples.sample("call_select_destinations_4.0_raw_build_request_spec")
    message: dict[str, Any] = sample["message"]
    arguments = message["args"]
    properties = arguments["request_spec"]["instance_properties"]
    properties |= {"uuid": uuid, "availability_zone": None}
    hosts = [[each, each] for each in tried]
    arguments["filter_properties"] = {
        "retry": {"num_attempts": len(tried) + 1, "hosts": hosts},
        "ignore_hosts": ignored,
        "scheduler_hints": {},
        "instance_type": arguments["filter_properties"]["instance_type"],
    }
    return message | {"_context_request_id": request_id}
