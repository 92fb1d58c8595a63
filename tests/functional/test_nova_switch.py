# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A Nova cloud changes from its own scheduler to ours and back, while servers boot and after."""

import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from inventory import aggregates, services, tables
from inventory.claims.types import ALTERNATE, CONFIRMED, PENDING
from inventory.nova.allocation_audit import Disagreement, audit
from inventory.nova.database import NovaDatabase
from inventory.nova.placement import PlacementClient
from inventory.nova.records import read_records
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Process, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.served_nova import FILTERS, ServedNova, open_served_nova, schedulers
from tests.fixtures.whole_nova import HOSTS

# Seven programs of Nova begin for it.
pytestmark = pytest.mark.matrix

# Seconds: what Nova may take here, and how soon all has to agree after that.
PATIENCE, AGREE = 180.0, 60.0
DOWN_TIME = 15
MIRROR = {
    "DEFAULT": {
        "host": "mirror",
        "compute_driver": "nova",
        "report_interval": 3,
        "service_down_time": DOWN_TIME,
    }
}
USAGE = ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used")
OVER = ("ACTIVE", "ERROR")


class Switched:
    """A cloud and the scheduler that it has now: its own, ours or none."""

    def __init__(self, cloud: ServedNova, placement: PlacementClient) -> None:
        self.cloud = cloud
        self.nova = cloud.nova
        self.placement = placement
        self._scheduler: Process | None = None
        self._starts: dict[str, Callable[[], Process]] = {
            "ours": self.start_one_of_ours,
            "novas": self.nova.start_scheduler,
        }
        self.served_by = ""

    def serve_by(self, name: str) -> None:
        """Start the other scheduler, then stop the present one, as an operator does."""
        if name == self.served_by:
            return
        url = self.cloud.deployment.transport_url
        before, self.served_by, number = self._scheduler, name, schedulers(url)
        self._scheduler = self._starts[name]()
        # With none at all, computes could not tell of instances, and would fail to build them.
        assert wait_until(lambda: schedulers(url) > number, PATIENCE)
        if before is not None:
            assert before.stop(PATIENCE) == 0

    def start_one_of_ours(self) -> Process:
        options = {
            "placement": self.nova.placement,
            "DEFAULT": {"service_down_time": DOWN_TIME},
            "filter_scheduler": {"enabled_filters": FILTERS},
        }
        return self.cloud.deployment.scheduler("eventlet", options)

    def boot(
        self, count: int, memory_mb: int = 1024, extra_specs: Mapping[str, str] = {}, **wanted: Any
    ) -> list[str]:
        """Ask for so many servers at once; return their uuids when all have come to an end."""
        flavor = self.nova.flavor(memory_mb, **extra_specs)
        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(lambda _: self.nova.boot(flavor, **wanted), range(count)))
        self.wait(*found)
        return found

    def wait(self, *servers: str, states: tuple[str, ...] = OVER) -> None:
        """Wait until servers are in one of these states."""
        assert wait_until(lambda: all(self.status(each) in states for each in servers), PATIENCE), (
            self.nova.servers()
        )

    def log(self) -> str:
        """Return what the present scheduler has logged."""
        assert self._scheduler is not None
        return self._scheduler.log.read_text()

    def is_booting(self) -> bool:
        """Whether some are being built, and others on their way."""
        return sum(each.status == "BUILD" for each in self.nova.servers().values()) > 5

    def status(self, server: str) -> str:
        return self.nova.servers()[server].status

    def hosts(self, *servers: str) -> list[str | None]:
        return [self.nova.servers()[each].host for each in servers]

    def act(self, server: str, action: str, body: Any = None, version: str = "2.90") -> None:
        self.nova.call("POST", f"/servers/{server}/action", {action: body}, version)

    def disagreements(self) -> list[Disagreement]:
        """Compare what Nova's databases and Placement say."""
        urls = self.nova.urls
        with (
            closing(NovaDatabase("API", urls["nova_api"])) as api,
            closing(NovaDatabase("cell1", urls["nova_cell1"])) as cell,
        ):
            return audit(read_records(api, [cell], is_complete=True), self.placement.records())

    def novas_usage(self) -> dict[str, tuple[Any, ...]]:
        engine = sa.create_engine(self.nova.urls["nova_cell1"])
        query = sa.text(f"SELECT uuid, {', '.join(USAGE)} FROM compute_nodes WHERE deleted = 0")
        with engine.connect() as connection:
            found = {row.uuid: tuple(row)[1:] for row in connection.execute(query)}
        engine.dispose()
        return found

    def our_usage(self) -> dict[str, tuple[Any, ...]]:
        rows = self.cloud.rows(tables.compute_nodes)
        return {row.uuid: tuple(getattr(row, name) for name in USAGE) for row in rows}

    def dead(self) -> list[str]:
        """Return the hosts that get nothing from us, though all serve in Nova between tests."""
        rows = self.cloud.database.read(lambda each: services.all_live(each, services.COMPUTE[0]))
        return [
            row.host
            for row in rows
            if row.disabled or row.forced_down or services.heartbeat_age(row) > DOWN_TIME
        ]

    def differences(self) -> list[Any]:
        """Return what does not agree among servers, Nova's and our nodes, claims, allocations."""
        found: list[Any] = [*self.disagreements()]
        if self.our_usage() != self.novas_usage():
            found.append((self.our_usage(), self.novas_usage()))
        if dead := self.dead():
            found.append(dead)
        if pending := self.cloud.claims(PENDING, ALTERNATE):
            found.append(pending)
        there = {(uuid, each.host) for uuid, each in self.nova.servers().items() if each.host}
        if foreign := self.cloud.claims(CONFIRMED) - there:
            found.append(foreign)
        return found

    def assert_agreement(self) -> None:
        assert wait_until(lambda: not self.differences(), AGREE), self.differences()

    def assert_nothing_to_heal(self) -> None:
        assert "Allocations were set" not in self.nova.manage("placement", "audit", "--verbose")
        healed = self.nova.manage("placement", "heal_allocations", "--dry-run", "--verbose")
        assert "[dry-run]" not in healed


@pytest.fixture(scope="module")
def switched(
    nova_installed: None,
    rabbitmq: RabbitMQ,
    mariadb: MariaDB,
    schema: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Switched]:
    directory = tmp_path_factory.mktemp("switched")
    url = mariadb.copy_database(schema, directory.name)
    transport_url = rabbitmq.transport_url
    with open_served_nova(transport_url, mariadb, url, directory, MIRROR, is_served=False) as cloud:
        conf = cfg.ConfigOpts()
        conf([f"--config-file={directory}/nova.conf"], project="nova")
        with closing(PlacementClient(conf)) as placement:
            yield Switched(cloud, placement)


@pytest.fixture(autouse=True)
def emptied(switched: Switched) -> Iterator[None]:
    """All agree and no server is there when a test is over."""
    yield
    switched.assert_agreement()
    nova = switched.nova
    for uuid in nova.servers():
        nova.call("DELETE", f"/servers/{uuid}")
    assert wait_until(lambda: not nova.servers(), PATIENCE)
    switched.assert_agreement()
    assert all(not found for found in switched.placement.records().allocations.values())


@pytest.fixture
def ours(switched: Switched) -> Switched:
    """The cloud with our scheduler."""
    switched.serve_by("ours")
    return switched


def statuses(switched: Switched, servers: list[str]) -> list[str]:
    return [switched.status(each) for each in servers]


def test_it_switches_under_load_and_back(switched: Switched) -> None:
    switched.serve_by("novas")
    assert statuses(switched, switched.boot(6)) == ["ACTIVE"] * 6
    switched.assert_agreement()
    for name in ("ours", "novas"):
        with ThreadPoolExecutor(1) as pool:
            booting = pool.submit(switched.boot, 20, 512)
            assert wait_until(switched.is_booting, PATIENCE)
            switched.serve_by(name)
            servers = booting.result()
        # nova-scheduler may lose the request that it has received last when it is stopped.
        lost = 1 if name == "ours" else 0
        assert Counter(statuses(switched, servers))["ACTIVE"] >= 20 - lost
        switched.assert_agreement()
        switched.assert_nothing_to_heal()
        assert statuses(switched, switched.boot(3)) == ["ACTIVE"] * 3


def test_two_schedulers_give_each_place_once(ours: Switched) -> None:
    """There is room for 17 on each host."""
    second = ours.start_one_of_ours()
    found = statuses(ours, ours.boot(60, 3824))
    assert Counter(found) == {"ACTIVE": 51, "ERROR": 9}
    ours.assert_agreement()
    assert second.stop(PATIENCE) == 0


def test_placement_dies_while_servers_boot(ours: Switched) -> None:
    with ThreadPoolExecutor(1) as pool:
        booting = pool.submit(ours.boot, 20, 512)
        assert wait_until(ours.is_booting, PATIENCE)
        ours.nova.placement_process.kill()
        ours.nova.start_placement()
        servers = booting.result()
    # Builds that a compute service gives up since Placement was away for it are none of ours.
    assert "Request failed" not in ours.log()
    assert "ACTIVE" in statuses(ours, servers)
    # Nor are allocations that it could not delete.
    ours.nova.manage("placement", "audit", "--delete")


def test_server_groups(ours: Switched) -> None:
    policy = {"server_group": {"name": "apart", "policy": "anti-affinity"}}
    group = ours.nova.call("POST", "/os-server-groups", policy)["server_group"]["id"]
    apart = ours.boot(3, hints={"group": group})
    assert {*ours.hosts(*apart)} == {*HOSTS}
    assert statuses(ours, ours.boot(1, hints={"group": group})) == ["ERROR"]


def test_zones(ours: Switched) -> None:
    nova = ours.nova
    zone = {"aggregate": {"name": "south", "availability_zone": "south"}}
    number = nova.call("POST", "/os-aggregates", zone)["aggregate"]["id"]
    nova.call("POST", f"/os-aggregates/{number}/action", {"add_host": {"host": HOSTS[1]}})

    def known() -> bool:
        return bool(aggregates.zones_by_host(ours.cloud.database.read(aggregates.everything)))

    assert wait_until(known, AGREE)
    assert {*ours.hosts(*ours.boot(3, availability_zone="south"))} == {HOSTS[1]}
    for uuid in nova.servers():
        nova.call("DELETE", f"/servers/{uuid}")
    assert wait_until(lambda: not nova.servers(), PATIENCE)
    nova.call("POST", f"/os-aggregates/{number}/action", {"remove_host": {"host": HOSTS[1]}})
    nova.call("DELETE", f"/os-aggregates/{number}")


@contextmanager
def builds_failing(switched: Switched, *hosts: str) -> Iterator[None]:
    files = [switched.nova.directory / f"{host}.failing" for host in hosts]
    for each in files:
        each.touch()
    yield
    for each in files:
        each.unlink()


def test_failed_builds_go_to_alternates(ours: Switched) -> None:
    with builds_failing(ours, HOSTS[0], HOSTS[1]):
        found = ours.boot(4)
        assert statuses(ours, found) == ["ACTIVE"] * 4
        assert {*ours.hosts(*found)} == {HOSTS[2]}
    ours.assert_agreement()


def test_builds_that_fail_everywhere_leave_nothing(ours: Switched) -> None:
    with builds_failing(ours, *HOSTS):
        assert statuses(ours, ours.boot(3)) == ["ERROR"] * 3
    ours.assert_agreement()


def test_resize_confirmed_and_reverted(ours: Switched) -> None:
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
def test_live_migration(ours: Switched, forced: bool) -> None:
    (server,) = ours.boot(1)
    (source,) = ours.hosts(server)
    target = next(each for each in HOSTS if each != source)
    body = {"host": target if forced else None, "block_migration": False}
    if forced:
        body["force"] = True
    ours.act(server, "os-migrateLive", body, "2.60")
    assert wait_until(lambda: ours.hosts(server) != [source], PATIENCE)
    ours.wait(server)
    ours.assert_agreement()


def test_rebuild_shelve_and_unshelve(ours: Switched) -> None:
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
def test_evacuation(ours: Switched, forced: bool) -> None:
    nova, (server,) = ours.nova, ours.boot(1)
    (source,) = ours.hosts(server)
    target = next(each for each in HOSTS if each != source)
    found = nova.call("GET", "/os-services?binary=nova-compute")["services"]
    (number,) = (each["id"] for each in found if each["host"] == source)
    nova.computes[str(source)].kill()
    nova.call("PUT", f"/os-services/{number}", {"forced_down": True})
    body = {"host": target, "force": True} if forced else {}
    ours.act(server, "evacuate", body, "2.60")
    assert wait_until(lambda: ours.hosts(server) != [source], PATIENCE)
    ours.wait(server)
    # When it is back it deletes what has left it, with the allocation; then Nova lets it up.
    nova.start_compute(str(source))

    def is_forced_up() -> bool:
        with suppress(urllib.error.HTTPError):
            nova.call("PUT", f"/os-services/{number}", {"forced_down": False})
            return True
        return False

    assert wait_until(is_forced_up, PATIENCE)
    assert wait_until(lambda: nova.is_up and not ours.differences(), PATIENCE), ours.differences()


def test_what_only_placement_knows_is_found_there(ours: Switched) -> None:
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
    assert sorted(statuses(ours, found)) == ["ACTIVE", "ACTIVE", "ERROR"]
    placed = [each for each in found if ours.status(each) == "ACTIVE"]
    assert ours.hosts(*placed) == [HOSTS[1]] * 2
    assert ours.placement.allocations_of(child) == {each: {"CUSTOM_CARD": 1} for each in placed}


def test_what_an_operator_tries_is_given_back(ours: Switched) -> None:
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


def test_disabled_hosts_get_nothing(ours: Switched) -> None:
    nova = ours.nova
    found = nova.call("GET", "/os-services?binary=nova-compute")["services"]
    numbers = {each["host"]: each["id"] for each in found}
    nova.call("PUT", f"/os-services/{numbers[HOSTS[0]]}", {"status": "disabled"})
    assert wait_until(lambda: ours.dead() == [HOSTS[0]], AGREE)
    assert HOSTS[0] not in ours.hosts(*ours.boot(6))
    nova.call("PUT", f"/os-services/{numbers[HOSTS[0]]}", {"status": "enabled"})
    assert wait_until(lambda: HOSTS[0] in ours.hosts(*ours.boot(3)), PATIENCE)
