# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Beside a whole Nova and its own scheduler: what ours would decide, and why it differs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory import tables
from inventory.claims.types import ALTERNATE, PENDING
from tests.fixtures.daemons.process import Guard, wait_until
from tests.fixtures.deployment import BIN, wait_for_log
from tests.fixtures.served_nova import Backends, ServedNova, open_served_nova, schedulers
from tests.fixtures.whole_nova import HOSTS, write_config

# Seven programs of Nova begin for it.
pytestmark = pytest.mark.release

REQUESTS = 100
MIRROR = {"DEFAULT": {"host": "mirror", "compute_driver": "nova", "report_interval": 3}}
NOTIFYING = {"oslo_messaging_notifications": {"driver": "messagingv2"}}
# Of which only few have room beside the others.
LARGE_MB = 40000
SLOW = 8
LISTENING = "Listening for requests to nova-scheduler ...\n"


@pytest.fixture(scope="module")
def cloud(backends: Backends) -> Iterator[ServedNova]:
    """A cloud with three computes and its own scheduler, and one agent of ours that reads it."""
    with open_served_nova(backends, MIRROR, is_served=False) as found:
        found.nova.start_scheduler(NOTIFYING)
        assert wait_until(lambda: schedulers(found.deployment.transport_url))
        assert wait_until(lambda: len(found.rows(tables.compute_nodes)) == len(HOSTS))
        yield found


@pytest.fixture
def config(cloud: ServedNova, tmp_path: Path) -> Path:
    """The configuration of the operator's command beside that cloud."""
    url = cloud.database.engine.url.render_as_string(hide_password=False)
    own = {
        "DEFAULT": {"transport_url": cloud.deployment.transport_url},
        "database": {"connection": url},
        "placement": cloud.nova.placement,
    }
    write_config(tmp_path / "conf", own)
    return tmp_path / "conf"


def all_counted(cloud: ServedNova) -> bool:
    """Return whether all servers are ACTIVE or in ERROR, and our rows have their vCPUs."""
    servers = cloud.nova.servers()
    is_over = all(each.status in ("ACTIVE", "ERROR") for each in servers.values())
    # Each has one.
    vcpus = sum(row.vcpus_used for row in cloud.rows(tables.compute_nodes))
    return is_over and vcpus == sum(each.host is not None for each in servers.values())


def test_every_disagreement_is_explained(cloud: ServedNova, config: Path) -> None:
    """The first come faster than the mirror reports. For some of the last ones there is no room."""
    small, large = cloud.nova.flavor(512), cloud.nova.flavor(LARGE_MB)
    options = ["nova", "shadow", f"--requests={REQUESTS}", "--wait=20", "-f", "json"]
    with Guard() as guard:
        command = [str(BIN / "berthmaster"), f"--config-file={config}", *options]
        shadow = guard.start("shadow", command, config.parent, {"HOME": str(config.parent)})
        wait_for_log(shadow, LISTENING)
        for _ in range(REQUESTS - SLOW):
            cloud.nova.boot(small)
        for _ in range(SLOW):
            assert wait_until(lambda: all_counted(cloud))
            cloud.nova.boot(large)
        status = shadow.wait()
        found = json.loads(shadow.log.read_text().partition(LISTENING)[2])
    kinds = found["kinds"]
    assert found["requests"] == REQUESTS
    assert status == (0 if found["agree"] == REQUESTS else 1)
    assert kinds["unknown"] == 0, found
    slow = found["comparisons"][-SLOW:]
    # Two hosts have room for one each.
    assert {each["kind"] for each in slow[2:]} == {"refused_by_both"}, slow
    assert kinds["filtered"] == kinds["refused_here"] == 0
    for each in found["comparisons"]:
        assert each["text"]
        if each["kind"] in ("weighed", "filtered", "refused_here"):
            assert each["decided_by"], each
    assert found["seconds"]["decision"]["requests"] == REQUESTS
    assert found["seconds"]["nova_notified"]["requests"] > 0
    # Nothing of ours was claimed: what is there, is what the mirror has seen.
    assert not cloud.claims(PENDING, ALTERNATE)
