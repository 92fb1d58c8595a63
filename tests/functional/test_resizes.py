# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is claimed for instances that are booted and resized, from the request to the last audit."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.databases import execute
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.moving import Moving, Seen, moving, request
from tests.fixtures.played import LARGE, SMALL, Size
from tests.records import change_migration, manage, migrate

HOSTS = 40
FREE = (0, 0, 0, 0)
# What instances take, and how many claims count.
ONE, ONE_CLAIMED = (2, 2048, 20, 0), (2, 2048, 20, 1)
GROWN, GROWN_CLAIMED = (4, 8192, 40, 0), (4, 8192, 40, 1)


@pytest.fixture(scope="module")
def cloud(
    rabbitmq: RabbitMQ, mariadb: MariaDB, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moving]:
    with moving(rabbitmq, mariadb, tmp_path_factory.mktemp("resizes"), HOSTS) as found:
        yield found


@pytest.fixture
def uuid() -> str:
    return str(uuid4())


@pytest.fixture(params=[False, True], ids=["guests", "rows"])
def seen(cloud: Moving, request: pytest.FixtureRequest) -> Seen:
    return Seen(cloud, request.param)


def test_a_boot_counts_once_from_the_answer_until_the_instance_is_gone(
    cloud: Moving, seen: Seen, uuid: str
) -> None:
    (host,) = cloud.hosts(1)
    message = request("objects_alternates", uuid, ignore_hosts=cloud.but(host))
    assert cloud.ask(message) == [host]
    assert cloud.claims(uuid) == {host: "pending"}
    assert cloud.taken(host) == ONE_CLAIMED
    # The same once more, to the other scheduler.
    assert cloud.ask(message, "second") == [host]
    assert cloud.taken(host) == ONE_CLAIMED
    seen.arrive(uuid, host)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {host: "confirmed"})
    assert cloud.taken(host) == ONE
    # A late repetition gets the answer, and nothing else.
    assert cloud.ask(message, "second") == [host]
    assert (cloud.claims(uuid), cloud.taken(host)) == ({host: "confirmed"}, ONE)
    seen.leave(uuid, host)
    assert cloud.wait_until(lambda: cloud.taken(host) == FREE)
    assert cloud.claims(uuid) == {}


@pytest.mark.parametrize("operation", ["cold_migrate", "cold_migrate_targeted"])
def test_a_resize_to_another_host_counts_on_both_until_the_source_is_left(
    cloud: Moving, seen: Seen, uuid: str, operation: str
) -> None:
    source, destination = cloud.hosts(2)
    _boot(cloud, seen, uuid, source)
    target = {"destination": destination} if operation.endswith("targeted") else {}
    ignored = [source] if target else cloud.but(destination)
    message = request(operation, uuid, LARGE, ignore_hosts=ignored, **target)
    assert cloud.ask(message, "second") == [destination]
    assert cloud.claims(uuid) == {source: "confirmed", destination: "pending"}
    assert cloud.taken(source) == ONE
    assert cloud.taken(destination) == GROWN_CLAIMED
    seen.arrive(uuid, destination, LARGE)
    confirmed = {source: "confirmed", destination: "confirmed"}
    assert cloud.wait_until(lambda: cloud.claims(uuid) == confirmed)
    assert cloud.taken(source) == ONE
    assert cloud.taken(destination) == GROWN
    seen.leave(uuid, source)
    assert cloud.wait_until(lambda: cloud.taken(source) == FREE)
    assert cloud.claims(uuid) == {destination: "confirmed"}
    assert cloud.taken(destination) == GROWN


def test_a_resize_where_it_is_counts_both_sizes_until_the_guest_has_the_new_one(
    cloud: Moving, seen: Seen, uuid: str
) -> None:
    (host,) = cloud.hosts(1)
    _boot(cloud, seen, uuid, host)
    message = request("cold_migrate", uuid, LARGE, ignore_hosts=cloud.but(host))
    assert cloud.ask(message, "second") == [host]
    both = (6, 10240, 60, 1)
    assert cloud.taken(host) == both
    cloud.audited(host)
    assert cloud.claims(uuid) == {host: "confirmed+pending"}
    assert cloud.taken(host) == both
    seen.arrive(uuid, host, LARGE)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {host: "confirmed"})
    assert cloud.taken(host) == GROWN


def test_a_resize_counts_both_sizes_also_before_schedulers_have_seen_the_instance(
    cloud: Moving, uuid: str
) -> None:
    (host,) = cloud.hosts(1)
    late = {"scheduler": {"view_max_age": 3600, "view_reload_interval": 3600}}
    scheduler = cloud.deployment.scheduler("threading", late, name="late")
    # It looks at the hosts now, and at rows of conductors never again.
    spare = request("objects_alternates", str(uuid4()), ignore_hosts=cloud.but(*cloud.hosts(1)))
    assert cloud.ask(spare, "late")
    boot = request("objects_no_alternates", uuid, ignore_hosts=cloud.but(host))
    assert cloud.ask(boot) == [host]
    manage(cloud.database, uuid, host, host, **SMALL._asdict())
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {host: "confirmed"})
    message = request("cold_migrate", uuid, LARGE, ignore_hosts=cloud.but(host))
    assert cloud.ask(message, "late") == [host]
    cloud.audited(host)
    assert cloud.claims(uuid) == {host: "confirmed+pending"}
    assert cloud.taken(host) == (6, 10240, 60, 1)
    scheduler.stop()


@pytest.mark.parametrize("where", ["same", "other"])
def test_what_a_reverted_resize_has_claimed_ends_with_its_lease(
    cloud: Moving, uuid: str, where: str
) -> None:
    source, other = cloud.hosts(2)
    destination = source if where == "same" else other
    cloud.boot(uuid, source)
    message = request("cold_migrate", uuid, LARGE, ignore_hosts=cloud.but(destination))
    assert cloud.ask(message) == [destination]
    cloud.audited(destination)
    assert "pending" in cloud.claims(uuid)[destination]
    cloud.end_lease(uuid)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {source: "confirmed"})
    assert cloud.taken(source) == ONE
    assert cloud.taken(other) == FREE


@pytest.mark.parametrize("end", ["confirmed", "reverted"])
@pytest.mark.parametrize("where", ["same", "other"])
def test_a_resize_that_conductors_record_keeps_the_room_to_go_back(
    cloud: Moving, uuid: str, where: str, end: str
) -> None:
    hosts = cloud.hosts(2)
    source, destination = hosts[0], hosts[where == "other"]
    both, both_claimed = (6, 10240, 60, 0), (6, 10240, 60, 1)
    _boot(cloud, Seen(cloud, by_rows=True), uuid, source)
    message = request("cold_migrate", uuid, LARGE, ignore_hosts=cloud.but(destination))
    assert cloud.ask(message) == [destination]
    manage(cloud.database, uuid, source, source, task_state="resize_prep")
    number = migrate(cloud.database, uuid, source, destination, **_sizes(SMALL, LARGE))
    cloud.audited(destination)
    # Claim and migration are one and the same.
    expected = [both_claimed, FREE] if where == "same" else [ONE, GROWN_CLAIMED]
    assert [cloud.taken(each) for each in hosts] == expected
    _move_row(cloud, uuid, destination, LARGE, "resized")
    assert cloud.wait_until(lambda: cloud.claims(uuid).get(destination) == "confirmed")
    expected = [both, FREE] if where == "same" else [ONE, GROWN]
    assert cloud.wait_until(lambda: [cloud.taken(each) for each in hosts] == expected)
    last, size = (destination, LARGE) if end == "confirmed" else (source, SMALL)
    _move_row(cloud, uuid, last, size, "active")
    change_migration(cloud.database, number, status=end)
    expected = [FREE, FREE]
    expected[hosts.index(last)] = GROWN if end == "confirmed" else ONE
    assert cloud.wait_until(lambda: [cloud.taken(each) for each in hosts] == expected)
    assert cloud.wait_until(lambda: {*cloud.claims(uuid)} <= {last})


def _boot(cloud: Moving, seen: Seen, uuid: str, host: str) -> None:
    boot = request("objects_no_alternates", uuid, ignore_hosts=cloud.but(host))
    assert cloud.ask(boot) == [host]
    seen.arrive(uuid, host)
    assert cloud.wait_until(lambda: cloud.claims(uuid) == {host: "confirmed"})
    assert cloud.taken(host) == ONE


def _sizes(old: Size, new: Size) -> dict[str, int]:
    """Return the sizes of an instance as a migration records them."""
    return {
        f"{age}_{name}": number
        for age, size in (("old", old), ("new", new))
        for name, number in zip(
            ("vcpus", "memory_mb", "disk_mb"), (*size[:2], 1024 * size.root_gb), strict=True
        )
    }


def _move_row(cloud: Moving, uuid: str, host: str, size: Size, state: str) -> None:
    """Let a conductor's row say that an instance is on another host, with another size."""
    execute(
        cloud.database,
        "UPDATE instances SET host = :host, node = :host, vm_state = :state, task_state = NULL,"
        " vcpus = :vcpus, memory_mb = :memory_mb, root_gb = :root_gb, updated_at = now()"
        " WHERE uuid = :uuid",
        uuid=uuid,
        host=host,
        state=state,
        **size._asdict(),
    )
