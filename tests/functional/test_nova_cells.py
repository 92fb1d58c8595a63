# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A Nova of two cells, of which one has queues and a database server of its own, served by us."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from inventory import tables
from inventory.claims.types import CONFIRMED
from tests.fixtures import availability
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.served_nova import CELL, Backends
from tests.fixtures.switched_nova import SwitchedNova, open_switched_nova
from tests.fixtures.virtual_host import VirtualHost
from tests.fixtures.whole_nova import HOSTS, Cell

# Ten programs of Nova begin for it.
pytestmark = pytest.mark.matrix

FAR = ("far-0001", "far-0002")


@pytest.fixture(scope="module")
def far_mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """The database server of the second cell; a test that stops it starts it again."""
    availability.require(availability.MARIADB)
    with MariaDB(tmp_path_factory.mktemp("far-mariadb")) as server:
        yield server


@pytest.fixture(scope="module")
def ours(backends: Backends, far_mariadb: MariaDB) -> Iterator[SwitchedNova]:
    """The cloud, with two schedulers of ours."""
    with VirtualHost(backends.rabbitmq, "far") as queues:
        cell = Cell("cell2", queues.transport_url, far_mariadb.create_database("nova_cell2"), FAR)
        with open_switched_nova(backends, cell) as found:
            found.serve_by("ours")
            found.start_one_of_ours()
            yield found


@pytest.fixture(autouse=True)
def emptied(ours: SwitchedNova) -> Iterator[None]:
    """All agree and no server is there when a test is over."""
    yield
    ours.assert_agreement()
    ours.delete_all()
    ours.assert_agreement()


def cells(ours: SwitchedNova) -> dict[str, str]:
    """Return the cell of each host, as our scheduler knows it."""
    hosts = {row.host for row in ours.cloud.rows(tables.compute_nodes)}
    return {r.host: r.cell_uuid for r in ours.cloud.rows(tables.services) if r.host in hosts}


def test_servers_are_in_both_cells(ours: SwitchedNova) -> None:
    servers = ours.boot(10)
    assert ours.statuses(*servers) == ["ACTIVE"] * 10
    assert {*ours.hosts(*servers)} == {*HOSTS, *FAR}
    found = cells(ours)
    assert {found[each] for each in HOSTS} == {CELL}
    assert len({found[each] for each in FAR}) == 1
    assert CELL not in {found[each] for each in FAR}
    ours.assert_agreement()
    ours.assert_nothing_to_heal()


def test_a_move_stays_in_its_cell(ours: SwitchedNova) -> None:
    """The other host of the cell is taken before there is a third in the other cell."""
    servers = ours.boot(10)
    far = [each for each in servers if ours.hosts(each) == [FAR[0]]]
    for server in far:
        ours.act(server, "migrate")
    ours.wait(*far, states=("VERIFY_RESIZE",))
    assert {*ours.hosts(*far)} == {FAR[1]}
    for server in far:
        ours.act(server, "confirmResize")
    ours.wait(*far)


def test_a_cell_that_is_away_gets_nothing_and_loses_nothing(
    ours: SwitchedNova, far_mariadb: MariaDB
) -> None:
    before = ours.boot(10)
    ours.assert_agreement()
    confirmed = ours.cloud.claims(CONFIRMED)
    far_mariadb.stop()
    assert wait_until(lambda: sorted(ours.dead()) == [*FAR]), ours.dead()
    meanwhile = ours.boot(10)
    assert ours.statuses(*meanwhile) == ["ACTIVE"] * 10
    assert {*ours.hosts(*meanwhile)} <= {*HOSTS}
    assert confirmed <= ours.cloud.claims(CONFIRMED)
    far_mariadb.start()
    assert wait_until(lambda: ours.nova.is_up and not ours.dead())
    ours.assert_agreement()
    assert confirmed <= ours.cloud.claims(CONFIRMED)
    assert ours.statuses(*before) == ["ACTIVE"] * 10
    assert {*ours.hosts(*ours.boot(10))} > {*FAR}


def test_a_cell_comes_back_while_servers_boot(ours: SwitchedNova, far_mariadb: MariaDB) -> None:
    """There is room for 8 on each host."""
    far_mariadb.stop()
    assert wait_until(lambda: sorted(ours.dead()) == [*FAR]), ours.dead()
    with ThreadPoolExecutor(1) as pool:
        booting = pool.submit(ours.boot, 32, 8000)
        # Listing servers waits for the cell that is away, and may see them when all are built.
        assert wait_until(lambda: ours.is_booting() or booting.done())
        far_mariadb.start()
        servers = booting.result()
    assert wait_until(lambda: ours.nova.is_up and not ours.dead())
    found = Counter(ours.statuses(*servers))
    assert found["ACTIVE"] >= 8 * len(HOSTS), found
    assert max(Counter(ours.hosts(*servers)).values()) <= 8
