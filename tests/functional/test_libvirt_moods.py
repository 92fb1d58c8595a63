# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A libvirtd that is killed, stopped and restarted, and guests that hang, under a running agent.

Audits are ten minutes apart here: what shows in the database in between came by events.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import compute_nodes, services
from inventory.engine import Database
from tests.backends import BACKENDS
from tests.fixtures import agent
from tests.fixtures.daemons import guests
from tests.fixtures.daemons.libvirtd import Libvirtd
from tests.fixtures.daemons.process import Process, wait_until
from tests.fixtures.deployment import Deployment

RESERVED = 512
MEMORY = 64
_NUMBERS = count(100)


class Host:
    """A hypervisor with its libvirtd and its agent, and what the database says of it."""

    def __init__(self, libvirtd: Libvirtd, process: Process, database: Database) -> None:
        self.libvirtd = libvirtd
        self.process = process
        self._database = database

    @property
    def node(self) -> sa.Row[Any] | None:
        rows = self._database.read(compute_nodes.all_live)
        return rows[0] if rows else None

    @property
    def service(self) -> sa.Row[Any]:
        return self._database.read(services.all_live)[0]

    @property
    def reason(self) -> str:
        return self.service.disabled_reason or ""

    @property
    def log(self) -> str:
        return self.process.log.read_text()

    def has(self, number: int) -> bool:
        """Tell whether the row counts so many guests, all of them and nothing else."""
        node = self.node
        return (
            node is not None
            and node.running_vms == number
            and node.memory_mb_used == RESERVED + number * MEMORY
            and node.vcpus_used == number
            and node.free_ram_mb == node.memory_mb - node.memory_mb_used
        )

    def beats_on(self) -> bool:
        """Tell whether the heart goes on while all else waits."""
        before = self.service.report_count
        return wait_until(lambda: self.service.report_count >= before + 2)


@pytest.fixture(params=BACKENDS)
def host(
    request: pytest.FixtureRequest, deployment: Deployment, database: Database, libvirtd: Libvirtd
) -> Iterator[Host]:
    """A host that has been audited and is in service; its libvirtd runs again afterwards."""
    options = {
        # An audit shows that the agent has heard of something.
        "DEFAULT": {"update_resources_interval": 3600, "report_interval": 1},
        "libvirt": {
            "connection_uri": libvirtd.uri,
            "virt_type": "qemu",
            "reconnect_interval": 1,
            "poll_timeout": 2,
            "keepalive_interval": 1,
            "keepalive_count": 2,
        },
    }
    process = deployment.agent(request.param, options, name="hypervisor")
    found = Host(libvirtd, process, database)
    assert wait_until(lambda: found.has(0)), found.log
    yield found
    libvirtd.start()


def wait_for(condition: Callable[[], Any], host: Host) -> float:
    """Wait until a condition holds; return how many seconds that took."""
    began = time.monotonic()
    assert wait_until(condition), host.log[-4000:]
    return time.monotonic() - began


def a_guest(host: Host) -> Any:
    uuid = agent.UUID.format(next(_NUMBERS))
    return host.libvirtd.guest(f"guest-{uuid[-4:]}", uuid, memory_mib=MEMORY)


def test_a_guest_that_somebody_starts_and_ends_shows_at_once(host: Host) -> None:
    with a_guest(host) as guest:
        wait_for(lambda: host.has(1), host)
        guest.destroy()
        # It is still defined and may be started again.
        wait_for(lambda: '"num_vm_stopped": "1"' in host.node.stats, host)
        assert host.has(1)
        guest.create()
        wait_for(lambda: '"num_vm_active": "1"' in host.node.stats, host)
        guest.suspend()
        wait_for(lambda: '"num_vm_paused": "1"' in host.node.stats, host)
    wait_for(lambda: host.has(0), host)


def test_a_transient_guest_counts_as_long_as_it_runs(host: Host) -> None:
    uuid = agent.UUID.format(next(_NUMBERS))
    xml = guests.XML.format(name="transient", uuid=uuid, vcpus=1, memory_mib=MEMORY)
    with guests.connected(host.libvirtd.uri) as connection:
        guest = connection.createXML(xml)
        wait_for(lambda: host.has(1), host)
        guest.destroy()
        wait_for(lambda: host.has(0), host)


def test_a_killed_libvirtd_takes_the_host_out_until_it_is_back(host: Host) -> None:
    with a_guest(host):
        wait_for(lambda: host.has(1), host)
        host.libvirtd.kill()
        noticed = wait_for(lambda: host.reason.startswith("AUTO: "), host)
        # The last figures stay, and the heart goes on.
        assert host.has(1)
        assert host.beats_on()
        host.libvirtd.start()
        recovered = wait_for(lambda: not host.service.disabled, host)
        wait_for(lambda: host.has(1), host)
        print(f"killed: noticed after {noticed:.2f} s, back in service {recovered:.2f} s later")
    # The callbacks of the old connection are gone with it; those of the new one work.
    wait_for(lambda: host.has(0), host)
    assert host.log.count("Audits recovered") == 1


def is_enabled_again(host: Host) -> bool:
    """Return whether the service is enabled; libvirtd runs again if it has crashed meanwhile.

    libvirtd 9.0 now and then ends with a segmentation fault when it goes on after its clients have
    given up. Where it is a service, systemd starts it again.
    """
    host.libvirtd.start()
    return not host.service.disabled


def test_a_libvirtd_that_is_stopped_holds_up_nothing_and_is_noticed(host: Host) -> None:
    with a_guest(host):
        wait_for(lambda: host.has(1), host)
        host.libvirtd.pause()
        try:
            noticed = wait_for(lambda: host.reason.startswith("AUTO: "), host)
            assert host.has(1)
            assert host.beats_on()
        finally:
            host.libvirtd.resume()
        recovered = wait_for(lambda: is_enabled_again(host), host)
        print(f"stopped: noticed after {noticed:.2f} s, back in service {recovered:.2f} s later")
    wait_for(lambda: host.has(0), host)


def test_a_restart_of_libvirtd_loses_nothing(host: Host) -> None:
    with a_guest(host) as first, a_guest(host):
        wait_for(lambda: host.has(2), host)
        pid = _pid_of(first.UUIDString())
        host.libvirtd.stop()
        # libvirtd cannot tell of what ended while it was away.
        os.kill(pid, signal.SIGKILL)
        host.libvirtd.start()
        wait_for(lambda: not host.service.disabled, host)
        wait_for(lambda: '"num_vm_stopped": "1"' in host.node.stats, host)
        assert host.has(2)


def test_a_guest_that_hangs_holds_up_nothing(host: Host) -> None:
    with a_guest(host) as stuck:
        wait_for(lambda: host.has(1), host)
        pid = _pid_of(stuck.UUIDString())
        os.kill(pid, signal.SIGSTOP)
        try:
            with a_guest(host):
                wait_for(lambda: host.has(2), host)
            wait_for(lambda: host.has(1), host)
            assert host.reason == ""
        finally:
            os.kill(pid, signal.SIGCONT)


def test_an_operator_s_word_outlasts_an_outage(host: Host, database: Database) -> None:
    where = services.table.c.binary == services.COMPUTE[0]
    change = sa.update(services.table).where(where)
    database.write(lambda c: c.execute(change.values(disabled=True, disabled_reason="new disks")))
    host.libvirtd.kill()
    assert wait_until(lambda: "Audit failed" in host.log)
    assert host.reason == "new disks"
    host.libvirtd.start()
    assert wait_until(lambda: "Audits recovered" in host.log)
    assert host.service.disabled
    assert host.reason == "new disks"


def _pid_of(uuid: str) -> int:
    """Return the process of a guest of this test's own libvirtd."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = each.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "qemu-system" in command[0] and uuid in command:
            return int(each.parent.name)
    raise AssertionError(f"no QEMU runs guest {uuid}")
