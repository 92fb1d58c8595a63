# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Two agents that could read the same Nova cloud, as processes: one does, the other stands by."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from inventory import compute_nodes, services
from inventory.engine import Database
from tests.fixtures import agent
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.ports import free_ports
from tests.fixtures.daemons.process import Guard, Process, wait_until
from tests.fixtures.status_page import StatusPage
from tests.nova_tables import NovaCloud, ago

pytestmark = pytest.mark.matrix

PROGRAM = Path(sys.executable).with_name("berthmaster-agent")
# Seconds. It takes 5 where nothing else runs; while it hung on the intervals it took 30 to 40.
TAKEN_OVER = 20.0


class Controllers:
    """Two controllers with an agent each, a cloud of Nova, and our database."""

    def __init__(self, directory: Path, guard: Guard, mariadb: MariaDB) -> None:
        def create(name: str) -> str:
            return mariadb.create_database(f"{name}_{uuid4().hex}")

        self.nova = NovaCloud(directory, ["h1", "h2"], ["h3"], server=create)
        self._directory = directory
        self._guard = guard
        self._sections: dict[str, Any] = {
            "DEFAULT": {"compute_driver": "nova"},
            "api_database": {"connection": self.nova.api.url},
            "database": {"connection": create("ours")},
        }
        self.pages: dict[str, StatusPage] = {}
        self.database: Database = agent.database(agent.options(directory, **self._sections))
        for cell in self.nova.cells:
            for host in ("h1", "h2", "h3"):
                # They are alive as long as the test takes.
                cell.change("services", {"host": host}, last_seen_up=ago(-600))

    def start(self, name: str) -> Process:
        own = self._directory / name
        own.mkdir()
        page = self.pages[name] = StatusPage(free_ports(1)[0])
        default = self._sections["DEFAULT"] | {"host": name, "state_path": own}
        file = agent.configuration(own, **(self._sections | {"DEFAULT": default} | page.options))
        command = [str(PROGRAM), "--config-file", str(file)]
        return self._guard.start(name, command, own, {"HOME": "/"})

    def memory(self) -> dict[str, int]:
        """Return the memory of the nodes that our database has."""
        return {row.host: row.memory_mb for row in self.database.read(compute_nodes.all_live)}

    def disabled(self) -> set[str]:
        """Return the hosts that get no instances."""
        return {row.host for row in self.database.read(services.all_live) if row.disabled}

    def beats(self) -> int:
        rows = self.database.read(services.all_live)
        return min((row.report_count for row in rows), default=0)


def said(process: Process, text: str) -> int:
    """Return how often a process has logged something."""
    return process.log.read_text().count(text) if process.log.exists() else 0


@pytest.fixture
def controllers(tmp_path: Path, mariadb: MariaDB) -> Iterator[Controllers]:
    with ExitStack() as stack:
        made = Controllers(tmp_path, stack.enter_context(Guard()), mariadb)
        stack.enter_context(closing(made.database))
        stack.enter_context(closing(made.nova))
        yield made


def test_another_agent_goes_on_when_one_is_killed(controllers: Controllers) -> None:
    first = controllers.start("c1")
    expected = dict.fromkeys(("h1", "h2", "h3"), 65536)
    assert wait_until(lambda: controllers.memory() == expected)
    second = controllers.start("c2")
    assert wait_until(lambda: said(second, "the agent of c1 holds lease"))
    first.send(signal.SIGKILL)
    died = time.monotonic()
    controllers.nova.cells[0].change("services", {"host": "h2"}, disabled=True)
    assert wait_until(lambda: controllers.disabled() == {"h2"})
    assert time.monotonic() - died < TAKEN_OVER
    beats = controllers.beats()
    assert wait_until(lambda: controllers.beats() >= beats + 2)
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert "Traceback" not in second.log.read_text()


def test_an_agent_that_was_paused_finds_that_another_took_over(controllers: Controllers) -> None:
    first = controllers.start("c1")
    assert wait_until(lambda: len(controllers.memory()) == 3)
    second = controllers.start("c2")
    assert wait_until(lambda: said(second, "the agent of c1 holds lease"))
    first.send(signal.SIGSTOP)
    assert wait_until(lambda: said(second, "Taking over lease"))
    first.send(signal.SIGCONT)
    assert wait_until(lambda: said(first, "the agent of c2 holds lease"))
    controllers.nova.cells[0].change("compute_nodes", {"host": "h1"}, memory_mb=2048)
    assert wait_until(lambda: controllers.memory()["h1"] == 2048)
    # One that ends politely does not make the other wait.
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert wait_until(lambda: said(first, "Taking over lease") == 2)


def test_a_standby_is_healthy_as_long_as_it_could_take_over(controllers: Controllers) -> None:
    controllers.start("c1")
    assert wait_until(lambda: len(controllers.memory()) == 3)
    second = controllers.start("c2")
    assert wait_until(lambda: said(second, "the agent of c1 holds lease"))

    # There is no broker here.
    page, parts = controllers.pages["c2"], ("database", "hypervisor")

    def is_well() -> bool:
        found = page.health()[1]
        return all(found[part]["healthy"] for part in parts)

    assert wait_until(is_well)
    measured = page.measures()
    assert measured("healthy", part="hypervisor") == measured("standing_by") == 1
    assert controllers.pages["c1"].measures()("standing_by") == 0
