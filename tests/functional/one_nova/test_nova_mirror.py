# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""An agent that reads a whole Nova cloud, and a scheduler that answers from its rows."""

import pytest

from inventory import services, tables
from inventory.claims.types import CONFIRMED
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.served_nova import CELL, DOWN_TIME, ServedNova
from tests.fixtures.switched_nova import SwitchedNova
from tests.fixtures.whole_nova import HOSTS

pytestmark = pytest.mark.matrix


@pytest.fixture
def cloud(ours: SwitchedNova) -> ServedNova:
    return ours.cloud


def boot(cloud: ServedNova, count: int, **wanted: str) -> dict[str, str | None]:
    """Return the hosts of so many new servers by their uuids."""
    flavor = cloud.nova.flavor(1024)
    uuids = [cloud.nova.boot(flavor, **wanted) for _ in range(count)]
    assert wait_until(lambda: {*cloud.nova.statuses(*uuids)} <= {"ACTIVE", "ERROR"})
    servers = cloud.nova.servers()
    assert [servers[uuid].status for uuid in uuids] == ["ACTIVE"] * count
    return {uuid: servers[uuid].host for uuid in uuids}


def used(cloud: ServedNova) -> list[int]:
    """Return the memory in use on each host, in MB."""
    return [row.memory_mb_used for row in cloud.rows(tables.compute_nodes)]


def state(cloud: ServedNova, host: str) -> tuple[bool, str | None, float]:
    """Return whether the service of a host is disabled, why, and the age of its heartbeat."""
    rows = cloud.database.read(lambda each: services.all_live(each, services.COMPUTE[0]))
    (row,) = (each for each in rows if each.host == host)
    return row.disabled, row.disabled_reason, services.heartbeat_age(row)


def test_rows_equal_novas_and_claims_are_confirmed(cloud: ServedNova) -> None:
    placed = boot(cloud, 6)
    assert wait_until(lambda: cloud.our_usage() == cloud.novas_usage()), (
        cloud.our_usage(),
        cloud.novas_usage(),
    )
    rows = cloud.rows(tables.instances)
    assert {row.uuid: row.host for row in rows} == placed
    assert {row.flavor_name for row in rows} == {"mb1024"}
    assert wait_until(lambda: cloud.claims(CONFIRMED) == set(placed.items()))


def test_a_service_that_nova_disables_gets_nothing(cloud: ServedNova) -> None:
    found = cloud.nova.call("GET", "/os-services?binary=nova-compute")["services"]
    (number,) = (each["id"] for each in found if each["host"] == HOSTS[0])
    off = {"status": "disabled", "disabled_reason": "broken disk"}
    cloud.nova.call("PUT", f"/os-services/{number}", off)
    expected = (True, "AUTO: disabled in Nova: broken disk")
    assert wait_until(lambda: state(cloud, HOSTS[0])[:2] == expected)
    assert HOSTS[0] not in boot(cloud, 4).values()
    cloud.nova.call("PUT", f"/os-services/{number}", {"status": "enabled"})
    assert wait_until(lambda: state(cloud, HOSTS[0])[:2] == (False, None))


def test_a_resize_holds_room_on_both_hosts_until_it_is_confirmed(cloud: ServedNova) -> None:
    ((uuid, source),) = boot(cloud, 1).items()
    action, resize = f"/servers/{uuid}/action", {"flavorRef": cloud.nova.flavor(2048)}
    cloud.nova.call("POST", action, {"resize": resize})
    servers = cloud.nova.servers
    assert wait_until(lambda: servers()[uuid].status == "VERIFY_RESIZE")
    assert servers()[uuid].host != source
    assert wait_until(lambda: cloud.our_usage() == cloud.novas_usage()), (
        cloud.our_usage(),
        cloud.novas_usage(),
    )
    assert wait_until(lambda: sorted(used(cloud)) == [512, 512 + 1024, 512 + 2048])
    cloud.nova.call("POST", action, {"confirmResize": None})
    assert wait_until(lambda: servers()[uuid].status == "ACTIVE")
    assert wait_until(lambda: sorted(used(cloud)) == [512, 512, 512 + 2048])
    assert wait_until(lambda: cloud.our_usage() == cloud.novas_usage()), (
        cloud.our_usage(),
        cloud.novas_usage(),
    )


def test_hosts_are_in_the_cell_of_their_mapping(cloud: ServedNova) -> None:
    assert {row.cell_uuid for row in cloud.rows(tables.services) if row.host in HOSTS} == {CELL}


def test_a_dead_compute_is_down_in_time(cloud: ServedNova) -> None:
    assert wait_until(lambda: state(cloud, HOSTS[2])[2] < DOWN_TIME)
    cloud.nova.computes[HOSTS[2]].kill()
    assert wait_until(lambda: state(cloud, HOSTS[2])[2] > DOWN_TIME)
    assert state(cloud, HOSTS[0])[2] <= DOWN_TIME
    assert HOSTS[2] not in boot(cloud, 4).values()
    cloud.nova.start_compute(HOSTS[2])
