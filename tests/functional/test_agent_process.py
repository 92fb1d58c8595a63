# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The program berthmaster-agent, as systemd and operators meet it, under both backends."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from compute_agent import identity
from inventory import compute_nodes, services
from inventory.engine import Database
from tests.backends import ALIKE, BACKENDS
from tests.fixtures import agent
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, Guard, Process, wait_until

if TYPE_CHECKING:
    from tests.fixtures.daemons.libvirtd import Libvirtd

PROGRAM = Path(sys.executable).with_name("berthmaster-agent")
FAKE = {"compute_driver": "fake", "report_interval": 1, "update_resources_interval": 1}
LIBVIRT = FAKE | {"compute_driver": "libvirt"}
QUICKLY = {"call_timeout": 1, "poll_timeout": 1, "reconnect_interval": 1}
backends_alike = pytest.mark.parametrize("berthmaster_agent", ALIKE, indirect=True)


class Agent:
    """One running agent and its database."""

    def __init__(self, directory: Path, guard: Guard, backend: str) -> None:
        self._directory = directory
        self._guard = guard
        self._backend = backend
        self.process: Process
        self.database: Database

    def configure(self, **sections: dict[str, Any]) -> None:
        # Rows are written although nothing has changed, so that audits can be counted.
        sections.setdefault("compute_agent", {"refresh_interval": 1})
        self._file = agent.configuration(self._directory, **sections)

    def start(self, **sections: dict[str, Any]) -> None:
        self.database = agent.database(agent.options(self._directory, **sections))
        self.configure(**sections)
        self.run()

    def run(self, *arguments: str) -> None:
        command = [str(PROGRAM), "--config-file", str(self._file), *arguments]
        environment = {"BERTHMASTER_CONCURRENCY_BACKEND": self._backend, "HOME": "/"}
        self.process = self._guard.start("agent", command, self._directory, environment)

    @property
    def log(self) -> str:
        return self.process.log.read_text()

    @property
    def service(self) -> sa.Row[Any] | None:
        rows = self.database.read(services.all_live)
        return rows[0] if rows else None

    @property
    def nodes(self) -> list[sa.Row[Any]]:
        return self.database.read(compute_nodes.all_live)

    @property
    def beats(self) -> int:
        return self.service.report_count if self.service else 0

    @property
    def reason(self) -> str:
        return self.service.disabled_reason or "" if self.service else ""

    def comes(self, condition: Callable[[], Any]) -> bool:
        """Wait for a condition, but not for an agent that has ended."""
        came = False

        def came_or_ended() -> bool:
            # Judged once: what was true when it was seen may not be any more.
            nonlocal came
            came = bool(condition())
            return came or self.process.status is not None

        wait_until(came_or_ended)
        return came

    def stop(self) -> None:
        """Stop the agent by SIGTERM; it ends with status 0, and does not wait for libvirt."""
        self.process.send(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.log
        assert "Abandoning an audit" not in self.log


@pytest.fixture(params=BACKENDS)
def berthmaster_agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    """An agent that is not started yet."""
    with Guard() as guard:
        made = Agent(tmp_path, guard, request.param)
        yield made
        if hasattr(made, "database"):
            made.database.close()


def test_it_registers_audits_and_leaves(berthmaster_agent: Agent) -> None:
    each = berthmaster_agent
    each.start(DEFAULT=FAKE, fake={"hosts": 3})
    assert each.comes(lambda: len(each.nodes) == 3)
    assert each.comes(lambda: each.nodes[0].generation >= 2)
    assert each.comes(lambda: each.beats >= 2)
    assert {row.host for row in each.nodes} == {f"alpha-000{n}" for n in (1, 2, 3)}
    each.stop()
    assert "Traceback" not in each.log
    assert "Warning" not in each.log
    backend = "eventlet" if "on eventlet" in each.log else "threading"
    assert f"with driver fake on {backend}" in each.log


def test_it_leaves_at_once_although_no_timer_is_due(berthmaster_agent: Agent) -> None:
    each = berthmaster_agent
    each.start(DEFAULT=FAKE | {"report_interval": 600, "update_resources_interval": 600})
    assert each.comes(lambda: each.nodes)
    each.stop()


@backends_alike
def test_it_keeps_its_identity(berthmaster_agent: Agent) -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    each = berthmaster_agent
    each.start(DEFAULT=LIBVIRT, libvirt={"connection_uri": "test:///default"})
    assert each.comes(lambda: each.nodes)
    (first,) = each.nodes
    each.stop()
    each.run()
    assert each.comes(lambda: each.nodes[0].generation > first.generation + 1)
    (second,) = each.nodes
    assert (second.id, second.uuid) == (first.id, first.uuid)
    assert second.running_vms == 1
    each.stop()


@pytest.mark.matrix
def test_a_libvirtd_that_hangs_holds_up_nothing(
    berthmaster_agent: Agent, libvirtd: "Libvirtd"
) -> None:
    each = berthmaster_agent
    with libvirtd.guest("one", agent.UUID.format(5), memory_mib=96):
        each.start(DEFAULT=LIBVIRT, libvirt={"connection_uri": libvirtd.uri} | QUICKLY)
        # A second may have been too short for the capabilities, which take longest: the host is
        # disabled for that until shortly after its node is written.
        assert each.comes(lambda: each.nodes and each.reason == "")
        (row,) = each.nodes
        assert (row.running_vms, row.memory_mb_used) == (1, 512 + 96)
        noted = each.log.count("has not answered")
        libvirtd.pause()
        try:
            assert each.comes(lambda: "has not answered for 1 s" in each.reason)
            beats = each.beats
            assert each.comes(lambda: each.beats >= beats + 3)
            (row,) = each.nodes
            assert (row.running_vms, row.memory_mb_used) == (1, 512 + 96)
        finally:
            libvirtd.resume()
        assert each.comes(lambda: each.reason == "")
        assert each.comes(lambda: each.nodes[0].generation > row.generation)
        each.stop()
    assert each.log.count("has not answered") == noted + 1


def test_it_can_leave_while_libvirtd_hangs(berthmaster_agent: Agent, libvirtd: "Libvirtd") -> None:
    each = berthmaster_agent
    options = {"connection_uri": libvirtd.uri, "poll_timeout": 600}
    each.start(DEFAULT=LIBVIRT, libvirt=options)
    assert each.comes(lambda: each.nodes)
    libvirtd.pause()
    try:
        beats = each.beats
        # By then an audit is due and waits for libvirtd.
        assert each.comes(lambda: each.beats >= beats + 3)
        each.stop()
    finally:
        libvirtd.resume()


def test_it_can_start_and_leave_while_libvirtd_hangs(
    berthmaster_agent: Agent, libvirtd: "Libvirtd"
) -> None:
    each = berthmaster_agent
    libvirtd.pause()
    try:
        each.start(DEFAULT=LIBVIRT, libvirt={"connection_uri": libvirtd.uri, "poll_timeout": 600})
        assert each.comes(lambda: each.beats >= 3)
        each.stop()
    finally:
        libvirtd.resume()


def test_it_may_start_before_libvirtd(berthmaster_agent: Agent, libvirtd: "Libvirtd") -> None:
    each = berthmaster_agent
    libvirtd.stop()
    try:
        each.start(DEFAULT=LIBVIRT, libvirt={"connection_uri": libvirtd.uri} | QUICKLY)
        assert each.comes(lambda: each.reason.startswith("AUTO: no connection to libvirt"))
        assert each.comes(lambda: each.beats >= 2)
        assert each.nodes == []
    finally:
        libvirtd.start()
    assert each.comes(lambda: each.nodes)
    assert each.comes(lambda: each.reason == "")
    libvirtd.kill()
    assert each.comes(lambda: each.reason)
    libvirtd.start()
    assert each.comes(lambda: each.reason == "")
    each.stop()


def test_it_reads_its_configuration_again(berthmaster_agent: Agent) -> None:
    each = berthmaster_agent
    each.start(DEFAULT=FAKE)
    assert each.comes(lambda: each.nodes)
    each.configure(DEFAULT=FAKE | {"reserved_host_memory_mb": 1024})
    pid = each.process.pid
    each.process.send(signal.SIGHUP)
    assert each.comes(lambda: each.nodes[0].memory_mb_used == 1024)
    each.configure(DEFAULT=FAKE | {"reserved_host_memory_mb": "plenty"})
    each.process.send(signal.SIGHUP)
    assert each.comes(lambda: "plenty" in each.log)
    generation = each.nodes[0].generation
    assert each.comes(lambda: each.nodes[0].generation > generation + 1)
    assert each.process.pid == pid
    each.stop()


def test_it_reports_on_itself(berthmaster_agent: Agent) -> None:
    each = berthmaster_agent
    each.start(DEFAULT=FAKE)
    assert each.comes(lambda: each.nodes)
    each.process.send(signal.SIGUSR2)
    assert each.comes(lambda: "Guru Meditation" in each.log)
    beats = each.beats
    assert each.comes(lambda: each.beats > beats)
    each.stop()


@backends_alike
def test_it_works_with_mariadb(berthmaster_agent: Agent, mariadb: MariaDB) -> None:
    each = berthmaster_agent
    name = f"agent_{each._backend}"
    try:
        each.start(
            DEFAULT=FAKE,
            fake={"hosts": 700},
            database={"connection": mariadb.create_database(name)},
        )
        assert each.comes(lambda: len(each.nodes) == 700)
        assert each.comes(lambda: each.nodes[-1].generation >= 2)
        each.stop()
    finally:
        mariadb.drop_database(name)


@backends_alike
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compute_driver": "fak"}, "compute_driver = 'fak' in "),
        pytest.param(
            {"reserved_host_cpus": "some"}, "reserved_host_cpus = 'some'", marks=pytest.mark.matrix
        ),
        ({}, "run 'berthmaster db sync' once"),
    ],
)
def test_it_refuses_to_start_with_one_line(
    berthmaster_agent: Agent, options: dict[str, Any], text: str
) -> None:
    each = berthmaster_agent
    each.configure(DEFAULT=FAKE | options)
    each.run()
    assert each.process.wait(PATIENCE) == 1
    (line,) = each.log.splitlines()
    assert line.startswith("berthmaster-agent: ")
    assert text in line


@backends_alike
def test_it_refuses_the_identity_of_another_machine(berthmaster_agent: Agent) -> None:
    pytest.importorskip("libvirt", reason="libvirt-python is not installed")
    each = berthmaster_agent
    each.start(DEFAULT=LIBVIRT, libvirt={"connection_uri": "test:///default"})
    assert each.comes(lambda: each.nodes)
    each.stop()
    (each._directory / identity.FILE).write_text(agent.UUID.format(9))
    each.run()
    assert each.process.wait(PATIENCE) == 1
    assert "give this one another [DEFAULT] host" in each.log


@backends_alike
def test_it_tells_its_version(berthmaster_agent: Agent) -> None:
    each = berthmaster_agent
    each.configure()
    each.run("--version")
    assert each.process.wait(PATIENCE) == 0
    assert each.log.strip().startswith("0.")
