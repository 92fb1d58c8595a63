# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A whole Nova cloud: builds that fail leave nothing behind, and allocations can be cured."""

import shlex
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from inventory.nova.allocation_audit import Disagreement, Kind, audit
from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable
from inventory.nova.placement import PlacementClient
from inventory.nova.records import read_records
from tests.fixtures.command import Command, Done
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.served_nova import Backends, ServedNova, open_served_nova
from tests.fixtures.whole_nova import HOSTS

# Six programs of Nova begin for it. The gate has Nova's own client and its moves.
pytestmark = pytest.mark.matrix

MEMORY_MB = 65536


@pytest.fixture(scope="module")
def cloud(backends: Backends) -> Iterator[ServedNova]:
    """A cloud with three computes, which end before their broker and database do."""
    with open_served_nova(backends) as found:
        yield found


@pytest.fixture(autouse=True)
def emptied(cloud: ServedNova) -> Iterator[None]:
    """No server and no claim is there when a test is over."""
    yield
    for uuid in cloud.nova.servers():
        cloud.nova.call("DELETE", f"/servers/{uuid}")
    assert wait_until(lambda: not cloud.nova.servers())
    cloud.release_all()
    assert wait_until(lambda: not cloud.claims()), cloud.claims()


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
        return {*cloud.nova.statuses(*uuids)} <= {"ACTIVE", "ERROR"}

    assert wait_until(over)
    return cloud.nova.statuses(*uuids)


def agree(cloud: ServedNova) -> bool:
    """Tell whether exactly those have claims who are there, each on its host."""
    there = {(uuid, each.host) for uuid, each in cloud.nova.servers().items() if each.host}
    return cloud.claims() == there


def test_as_many_as_there_is_room_for_are_placed_at_once(cloud: ServedNova) -> None:
    """Room for 12: no alternate is in the way of any."""
    states = build(cloud, 16000, 20)
    assert Counter(states) == {"ACTIVE": 12, "ERROR": 8}
    assert {*cloud.nova.memory_used().values()} == {4 * 16000}
    assert wait_until(lambda: agree(cloud)), cloud.claims()


def test_builds_that_fail_take_nobody_s_room(cloud: ServedNova) -> None:
    with builds_failing(cloud, HOSTS[0]):
        states = build(cloud, 16000, 20)
    assert {each: cloud.nova.memory_used()[each] for each in HOSTS} == {
        HOSTS[0]: 0,
        HOSTS[1]: 4 * 16000,
        HOSTS[2]: 4 * 16000,
    }
    assert states.count("ACTIVE") == 8
    assert wait_until(lambda: agree(cloud)), cloud.claims()


def test_builds_that_fail_go_to_alternates_that_hold_room_for_them(cloud: ServedNova) -> None:
    with builds_failing(cloud, HOSTS[0]):
        states = build(cloud, 512, 5)
    assert states == ["ACTIVE"] * 5
    assert cloud.nova.memory_used()[HOSTS[0]] == 0
    assert wait_until(lambda: agree(cloud)), cloud.claims()


def test_builds_that_fail_on_all_hosts_leave_no_claim(cloud: ServedNova) -> None:
    with builds_failing(cloud, *HOSTS):
        assert build(cloud, 512, 5) == ["ERROR"] * 5
    assert wait_until(lambda: agree(cloud)), cloud.claims()


def test_servers_that_are_deleted_at_once_leave_no_claim(cloud: ServedNova) -> None:
    flavor = cloud.nova.flavor(512)

    def boot_and_delete(_: int) -> None:
        uuid = cloud.nova.boot(flavor)
        cloud.nova.call("DELETE", f"/servers/{uuid}")

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(boot_and_delete, range(20)))
    assert wait_until(lambda: not cloud.nova.servers())
    assert wait_until(lambda: not cloud.claims()), cloud.claims()


def test_a_resize_that_fails_leaves_no_claim(cloud: ServedNova) -> None:
    flavor = cloud.nova.flavor(1024)
    assert build(cloud, 512, 1) == ["ACTIVE"]
    ((uuid, server),) = cloud.nova.servers().items()
    assert wait_until(lambda: agree(cloud)), cloud.claims()
    with builds_failing(cloud, str(server.host)):
        resize = {"resize": {"flavorRef": flavor}}
        cloud.nova.call("POST", f"/servers/{uuid}/action", resize)
        assert wait_until(lambda: len(cloud.claims()) > 1)
        assert wait_until(lambda: cloud.nova.servers()[uuid].status != "RESIZE")
    assert cloud.nova.servers()[uuid] == server
    assert wait_until(lambda: agree(cloud)), cloud.claims()


@pytest.fixture
def reader(mariadb: MariaDB, cloud: ServedNova) -> Iterator[str]:
    """An account that may only read the databases of Nova."""
    mariadb.execute_as_root("CREATE USER 'reader'@'%' IDENTIFIED BY 'a password'")
    for name in ("nova_api", "nova_cell1"):
        database = sa.make_url(cloud.nova.urls[name]).database
        mariadb.execute_as_root(f"GRANT SELECT ON {database}.* TO 'reader'@'%'")
    yield "reader"
    mariadb.execute_as_root("DROP USER 'reader'@'%'")


def checked(cloud: ServedNova, path: Path, user: str | None = None) -> Done:
    """Return what nova check says, with an account in place of Nova's own."""
    api = sa.make_url(cloud.nova.urls["nova_api"])
    lines = ["[nova]"]
    if user:
        api = api.set(username=user, password="a password")
        lines += [f"cell_username = {user}", "cell_password = a password"]
    url = api.render_as_string(hide_password=False)
    lines += ["[placement]", *(f"{name} = {value}" for name, value in cloud.nova.placement.items())]
    path.write_text("\n".join(["[api_database]", f"connection = {url}", *lines]))
    return Command(path).run("nova", "check")


def test_a_cloud_in_order_is_ready_for_the_switch(
    cloud: ServedNova, reader: str, tmp_path: Path
) -> None:
    def agree_with_inventories() -> bool:
        """Compute nodes count a server that was deleted while it was built until the next audit."""
        found = checked(cloud, tmp_path / "conf", reader)
        return "ok       inventories: agree with 3 compute nodes\n" in found.stdout

    assert wait_until(agree_with_inventories)
    done = checked(cloud, tmp_path / "conf", reader)
    assert (done.status, done.stderr) == (0, ""), done.stdout
    assert "ok       cell cell1: 3 compute services, 3 nodes\n" in done.stdout
    assert "ok       allocations: agree with 0 instances on 3 nodes\n" in done.stdout
    assert done.stdout.endswith("Ready for the switch: 0 errors, 0 warnings.\n")
    done = checked(cloud, tmp_path / "conf")
    assert "warning  API database: the account may write" in done.stdout
    assert "warning  cell cell1: the account may write" in done.stdout


def test_a_host_that_was_not_discovered_is_in_the_way(
    cloud: ServedNova, mariadb: MariaDB, reader: str, tmp_path: Path
) -> None:
    mappings = f"{sa.make_url(cloud.nova.urls['nova_api']).database}.host_mappings"
    mariadb.execute(f"UPDATE {mappings} SET host = 'other' WHERE host = '{HOSTS[2]}'")
    try:
        done = checked(cloud, tmp_path / "conf", reader)
    finally:
        mariadb.execute(f"UPDATE {mappings} SET host = '{HOSTS[2]}' WHERE host = 'other'")
    assert done.status == 1
    assert f"no instances there: 1 host ({HOSTS[2]})\n" in done.stdout
    assert "-> nova-manage cell_v2 discover_hosts" in done.stdout


def test_what_reads_nova_cannot_write_whatever_its_account_may(cloud: ServedNova) -> None:
    with closing(NovaDatabase("cell1", cloud.nova.urls["nova_cell1"])) as database:
        assert len(database.rows("services", "host")) > len(HOSTS)
        with pytest.raises(NovaDatabaseUnavailable, match="READ ONLY"):
            database.read(lambda each: each.exec_driver_sql("DELETE FROM services"))


def disagreements(cloud: ServedNova, client: PlacementClient) -> list[Disagreement]:
    """Compare what Nova's databases and Placement say."""
    urls = cloud.nova.urls
    with (
        closing(NovaDatabase("API", urls["nova_api"])) as api,
        closing(NovaDatabase("cell1", urls["nova_cell1"])) as cell,
    ):
        return audit(read_records(api, [cell], is_complete=True), client.records())


def test_nova_s_own_commands_cure_what_disagrees_in_placement(
    cloud: ServedNova, tmp_path: Path
) -> None:
    """A scheduler of ours writes no allocations yet, so at first none is there."""
    assert build(cloud, 512, 2) == ["ACTIVE"] * 2
    conf = cfg.ConfigOpts()
    conf([f"--config-file={cloud.nova.directory}/nova.conf"], project="nova")

    def cured(*kinds: Kind) -> None:
        found = disagreements(cloud, client)
        assert tuple(each.kind for each in found) == kinds
        for each in found:
            cloud.nova.manage(*shlex.split(each.command)[1:])
        assert disagreements(cloud, client) == []

    with closing(PlacementClient(conf)) as client:
        done = checked(cloud, tmp_path / "conf")
        assert done.status == 1
        assert "allocations: 2 consumers, whose instances have no allocation: " in done.stdout
        assert "-> nova-manage placement heal_allocations --instance" in done.stdout
        cured(Kind.MISSING, Kind.MISSING)
        assert checked(cloud, tmp_path / "conf").status == 0
        uuid = min(cloud.nova.servers())
        own = client.allocations_for(uuid)
        ((place, resources),) = own.resources.items()
        other = next(each.uuid for each in client.providers() if each.uuid != place)
        owner = {"project_id": own.project_id, "user_id": own.user_id}

        def put(consumer: str, generation: int | None, host: str, memory_mb: int) -> None:
            allocations = {host: {"resources": {**resources, "MEMORY_MB": memory_mb}}}
            document = {"allocations": allocations, "consumer_generation": generation}
            client.post_allocations({consumer: {**document, **owner}})

        put(uuid, own.generation, other, 512)
        cured(Kind.ELSEWHERE)
        put(uuid, client.allocations_for(uuid).generation, place, 256)
        cured(Kind.SIZE)
        put(str(uuid4()), None, other, 512)
        cured(Kind.LEFT_OVER)
