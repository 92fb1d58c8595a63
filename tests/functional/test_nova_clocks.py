# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A Nova whose conductor has a clock that is behind the database's, and an agent that reads it."""

from collections.abc import Iterator

import pytest

from inventory import tables
from inventory.claims.types import CONFIRMED
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.served_nova import MIRROR, Backends, ServedNova, open_served_nova

# Six programs of Nova begin for it.
pytestmark = pytest.mark.release

BEHIND = 15


@pytest.fixture(scope="module")
def cloud(backends: Backends) -> Iterator[ServedNova]:
    patient = {
        # By such a clock the heartbeats of computes are old, too.
        "DEFAULT": {**MIRROR["DEFAULT"], "service_down_time": 90},
        # What was not seen as a change would be seen then.
        "nova": {"full_poll_interval": 36000},
    }
    with open_served_nova(backends, patient, seconds_behind=BEHIND) as found:
        yield found


def test_what_such_a_conductor_writes_is_seen_as_a_change(cloud: ServedNova) -> None:
    servers, flavor = cloud.nova.servers, cloud.nova.flavor(1024)
    uuids = [cloud.nova.boot(flavor) for _ in range(3)]

    def have(status: str) -> bool:
        return {*cloud.nova.statuses(*uuids)} == {status}

    def known_as(vm_state: str) -> bool:
        found = {row.uuid: row.vm_state for row in cloud.rows(tables.instances)}
        return found == dict.fromkeys(uuids, vm_state)

    assert wait_until(lambda: have("ACTIVE")), servers()
    assert wait_until(lambda: known_as("active"))
    placed = {(uuid, server.host) for uuid, server in servers().items()}
    assert wait_until(lambda: cloud.claims(CONFIRMED) == placed)
    for uuid in uuids:
        cloud.nova.call("POST", f"/servers/{uuid}/action", {"os-stop": None})
    assert wait_until(lambda: have("SHUTOFF")), servers()
    assert wait_until(lambda: known_as("stopped"))
    logs = cloud.nova.directory.glob("*.log")
    assert any("clock of the Nova service" in each.read_text() for each in logs)
