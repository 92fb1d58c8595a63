# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Builds that fail in a whole Nova cloud: nothing is placed twice, and no claim is left behind."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.served_nova import ServedNova, open_served_nova
from tests.fixtures.whole_nova import HOSTS

# Six programs of Nova begin for it. The gate has Nova's own client and its moves.
pytestmark = pytest.mark.matrix

MEMORY_MB = 65536
# Seconds: what Nova may take for 20 servers here, and how soon claims have to be right after that.
PATIENCE, AGREE = 120.0, 10.0


@pytest.fixture(scope="module")
def cloud(
    nova_installed: None,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    schema: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ServedNova]:
    """A cloud with three computes, which end before their broker and database do."""
    directory = tmp_path_factory.mktemp("whole")
    url = mariadb.copy_database(schema, directory.name)
    with open_served_nova(rabbitmq.transport_url, mariadb, url, directory) as found:
        yield found


@pytest.fixture(autouse=True)
def emptied(cloud: ServedNova) -> Iterator[None]:
    """No server and no claim is there when a test is over."""
    yield
    for uuid in cloud.nova.servers():
        cloud.nova.call("DELETE", f"/servers/{uuid}")
    assert wait_until(lambda: not cloud.nova.servers(), PATIENCE)
    cloud.release_all()
    assert wait_until(lambda: not cloud.claims(), AGREE), cloud.claims()


@contextmanager
def builds_failing(cloud: ServedNova, *hosts: str) -> Iterator[None]:
    """Let all builds on some hosts fail."""
    files = [cloud.nova.directory / f"{host}.failing" for host in hosts]
    for each in files:
        each.touch()
    yield
    for each in files:
        each.unlink()


def build(cloud: ServedNova, memory_mb: int, count: int) -> list[str]:
    """Ask for so many servers at once; return their states when all have come to an end."""
    flavor = cloud.nova.flavor(memory_mb)
    with ThreadPoolExecutor(count) as pool:
        uuids = list(pool.map(lambda _: cloud.nova.boot(flavor), range(count)))

    def over() -> bool:
        assert all(used <= MEMORY_MB for used in cloud.nova.memory_used().values())
        return all(cloud.nova.servers()[uuid].status in ("ACTIVE", "ERROR") for uuid in uuids)

    assert wait_until(over, PATIENCE)
    return [cloud.nova.servers()[uuid].status for uuid in uuids]


def agree(cloud: ServedNova) -> bool:
    """Tell whether exactly those have claims who are there, each on its host."""
    there = {(uuid, each.host) for uuid, each in cloud.nova.servers().items() if each.host}
    return cloud.claims() == there


def test_as_many_as_there_is_room_for_are_placed_at_once(cloud: ServedNova) -> None:
    """Room for 12: no alternate is in the way of any."""
    states = build(cloud, 16000, 20)
    assert Counter(states) == {"ACTIVE": 12, "ERROR": 8}
    assert {*cloud.nova.memory_used().values()} == {4 * 16000}
    assert wait_until(lambda: agree(cloud), AGREE), cloud.claims()


def test_builds_that_fail_take_nobody_s_room(cloud: ServedNova) -> None:
    with builds_failing(cloud, HOSTS[0]):
        states = build(cloud, 16000, 20)
    assert {each: cloud.nova.memory_used()[each] for each in HOSTS} == {
        HOSTS[0]: 0,
        HOSTS[1]: 4 * 16000,
        HOSTS[2]: 4 * 16000,
    }
    assert states.count("ACTIVE") == 8
    assert wait_until(lambda: agree(cloud), AGREE), cloud.claims()


def test_builds_that_fail_go_to_alternates_that_hold_room_for_them(cloud: ServedNova) -> None:
    with builds_failing(cloud, HOSTS[0]):
        states = build(cloud, 512, 5)
    assert states == ["ACTIVE"] * 5
    assert cloud.nova.memory_used()[HOSTS[0]] == 0
    assert wait_until(lambda: agree(cloud), AGREE), cloud.claims()


def test_builds_that_fail_on_all_hosts_leave_no_claim(cloud: ServedNova) -> None:
    with builds_failing(cloud, *HOSTS):
        assert build(cloud, 512, 5) == ["ERROR"] * 5
    assert wait_until(lambda: agree(cloud), AGREE), cloud.claims()


def test_servers_that_are_deleted_at_once_leave_no_claim(cloud: ServedNova) -> None:
    flavor = cloud.nova.flavor(512)

    def boot_and_delete(_: int) -> None:
        uuid = cloud.nova.boot(flavor)
        cloud.nova.call("DELETE", f"/servers/{uuid}")

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(boot_and_delete, range(20)))
    assert wait_until(lambda: not cloud.nova.servers(), PATIENCE)
    assert wait_until(lambda: not cloud.claims(), AGREE), cloud.claims()


def test_a_resize_that_fails_leaves_no_claim(cloud: ServedNova) -> None:
    flavor = cloud.nova.flavor(1024)
    assert build(cloud, 512, 1) == ["ACTIVE"]
    ((uuid, server),) = cloud.nova.servers().items()
    assert wait_until(lambda: agree(cloud), AGREE), cloud.claims()
    with builds_failing(cloud, str(server.host)):
        resize = {"resize": {"flavorRef": flavor}}
        cloud.nova.call("POST", f"/servers/{uuid}/action", resize)
        assert wait_until(lambda: len(cloud.claims()) > 1, PATIENCE)
        assert wait_until(lambda: cloud.nova.servers()[uuid].status != "RESIZE", PATIENCE)
    assert cloud.nova.servers()[uuid] == server
    assert wait_until(lambda: agree(cloud), AGREE), cloud.claims()
