# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A compute of a whole Nova cloud dies, and its protected servers run again on the others."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.fixtures.daemons.process import wait_until
from tests.fixtures.served_nova import Backends
from tests.fixtures.switched_nova import OVER, SwitchedNova, open_switched_nova
from tests.fixtures.whole_nova import HOSTS

# Eight programs of Nova begin for it.
pytestmark = pytest.mark.release

FOUR = (*HOSTS, "compute-0004")
# Eight of them fill a compute.
MEMORY_MB = 8000
PROTECTED = {"berthmaster__failover": "required"}


@pytest.fixture
def cloud(backends: Backends) -> Iterator[SwitchedNova]:
    """A cloud with four computes and our scheduler."""
    with open_switched_nova(backends, hosts=FOUR) as found:
        found.serve_by("ours")
        yield found


def test_all_protected_servers_of_a_dead_compute_run_again_while_others_boot(
    cloud: SwitchedNova,
) -> None:
    protected = cloud.boot(12, MEMORY_MB, PROTECTED)
    assert cloud.statuses(*protected) == ["ACTIVE"] * len(protected)
    # All other room is taken.
    assert "ERROR" in cloud.statuses(*cloud.boot(24, MEMORY_MB))
    on_hosts = Counter(cloud.hosts(*protected))
    dead = str(max(on_hosts, key=on_hosts.__getitem__))
    lost = [uuid for uuid in protected if cloud.hosts(uuid) == [dead]]
    cloud.cloud.force_down(dead)
    flavor = cloud.nova.flavor(MEMORY_MB)
    with ThreadPoolExecutor(8) as pool:
        booted = [pool.submit(cloud.nova.boot, flavor) for _ in range(4)]
        evacuated = [pool.submit(cloud.act, uuid, "evacuate", {}) for uuid in lost]
        booted += [pool.submit(cloud.nova.boot, flavor) for _ in range(8)]
    for each in evacuated:
        each.result()
    cloud.wait(*(each.result() for each in booted))
    assert wait_until(lambda: dead not in cloud.hosts(*lost)), cloud.nova.servers()
    cloud.wait(*lost, states=OVER)
    assert cloud.statuses(*lost) == ["ACTIVE"] * len(lost)
    assert max(cloud.nova.memory_used().values()) <= 8 * MEMORY_MB


def test_servers_in_places_run_again_on_the_standbys_of_these_and_keep_them(
    cloud: SwitchedNova,
) -> None:
    cli, size = cloud.cloud.deployment.cli_json, f"--flavor=1,{MEMORY_MB},1"
    protected = ("--project=project1", "--number=6", "--failover")
    made = cli("reservation", "create", "vital", size, *protected)
    assert all(each["standby"] not in (None, each["host"]) for each in made["places"])
    servers = cloud.boot(6, MEMORY_MB)
    assert cloud.statuses(*servers) == ["ACTIVE"] * len(servers)
    before = _places(cloud)
    assert {uuid: place["host"] for uuid, place in before.items()} == dict(
        zip(servers, cloud.hosts(*servers), strict=True)
    )
    # All other room is taken.
    assert "ERROR" in cloud.statuses(*cloud.boot(32, MEMORY_MB))
    on_hosts = Counter(place["host"] for place in before.values())
    dead = max(on_hosts, key=on_hosts.__getitem__)
    lost = [uuid for uuid, place in before.items() if place["host"] == dead]
    cloud.cloud.force_down(dead)
    with ThreadPoolExecutor(len(lost)) as pool:
        for each in [pool.submit(cloud.act, uuid, "evacuate", {}) for uuid in lost]:
            each.result()
    assert wait_until(lambda: dead not in cloud.hosts(*lost)), cloud.nova.servers()
    cloud.wait(*lost, states=OVER)
    assert cloud.statuses(*servers) == ["ACTIVE"] * len(servers)
    # They are where the standbys were, in the same places.
    after = _places(cloud)
    for uuid in servers:
        place = before[uuid] | ({"host": before[uuid]["standby"]} if uuid in lost else {})
        assert (after[uuid]["id"], after[uuid]["host"]) == (place["id"], place["host"])
        assert cloud.hosts(uuid) == [place["host"]]
    assert max(cloud.nova.memory_used().values()) <= 8 * MEMORY_MB
    # A place is held where its server ends.
    cloud.nova.call("DELETE", f"/servers/{lost[0]}")

    def is_free() -> bool:
        found = cli("reservation", "show", "vital")["places"]
        (place,) = (each for each in found if each["id"] == before[lost[0]]["id"])
        return (place["state"], place["host"]) == ("reserved", before[lost[0]]["standby"])

    assert wait_until(is_free)


def _places(cloud: SwitchedNova) -> dict[str, dict[str, Any]]:
    """Return the places that servers are in, by these."""
    shown = cloud.cloud.deployment.cli_json("reservation", "show", "vital")
    return {each["taken_by"]: each for each in shown["places"]}
