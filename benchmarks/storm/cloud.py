# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a storm breaks upon: schedulers and an agent as processes, a broker and a database."""

import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import sqlalchemy as sa

from benchmarks.history import Size
from inventory.engine import Database
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import Process, search_path, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment

BACKENDS = ("eventlet", "threading")
# Operators at work at the same time.
OPERATORS = 3
PATIENCE = 60.0
AGENT = "storm"
RESERVED = Size(memory_mb=512)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal hosts, so many of them, what each keeps for itself, and the driver that plays them."""

    hosts: int
    vcpus: int
    memory_mb: int = 65536
    local_gb: int = 1000
    reserved: Size = RESERVED
    driver: str = "fake"

    @property
    def names(self) -> list[str]:
        """The hosts as the fake driver calls them."""
        return [f"{AGENT}-{number:04d}" for number in range(1, self.hosts + 1)]


class Cloud:
    """Processes of one deployment that can be killed, paused and cut off, and come back.

    check_url is where the database is looked at, and operators_urls where operators work on it.
    """

    def __init__(
        self, deployment: Deployment, broker: RabbitMQ, server: MariaDB, fleet: Fleet
    ) -> None:
        self.deployment, self.broker, self.server, self.fleet = deployment, broker, server, fleet
        self.schedulers: dict[int, Process] = {}
        self.agent: Process
        self.options: Mapping[str, Mapping[str, Any]] = {}
        self.check_url = deployment.database_url
        self.operators_urls = [deployment.database_url] * OPERATORS

    def start(
        self, schedulers: int, options: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Start the agent and so many schedulers, of both backends in turn, and wait for them."""
        self.options = options or {}
        self.start_agent()
        self.start_schedulers(schedulers)
        database = self.deployment.open_database()
        try:
            assert wait_until(lambda: self._hosts(database) == self.fleet.hosts, PATIENCE), (
                self.agent.log.read_text()[-3000:]
            )
        finally:
            database.close()

    def start_schedulers(self, number: int) -> None:
        """Start so many schedulers side by side."""
        with ThreadPoolExecutor(number) as pool:
            list(pool.map(self.start_scheduler, range(number)))

    def start_scheduler(self, number: int) -> None:
        backend = BACKENDS[number % len(BACKENDS)]
        name = f"scheduler{number + 1}"
        options = self.options_of(number)
        self.schedulers[number] = self.deployment.scheduler(backend, options, name=name)

    def options_of(self, number: int) -> Mapping[str, Mapping[str, Any]]:
        """Return the options of a scheduler."""
        return self.options

    def start_agent(self) -> None:
        fleet = self.fleet
        options = {
            "DEFAULT": {
                "compute_driver": fleet.driver,
                "update_resources_interval": 1,
                "cpu_allocation_ratio": 1.0,
                "reserved_host_memory_mb": fleet.reserved.memory_mb,
                "reserved_host_disk_mb": fleet.reserved.disk_mb,
                "reserved_host_cpus": fleet.reserved.vcpus,
            },
            "fake": {
                "hosts": fleet.hosts,
                "vcpus": fleet.vcpus,
                "memory_mb": fleet.memory_mb,
                "local_gb": fleet.local_gb,
            },
        }
        # Drivers of tests are found there.
        root = {"PYTHONPATH": str(Path(__file__).parents[2])}
        self.agent = self.deployment.agent("threading", options, root, name=AGENT)

    def restart_exited_agent(self) -> None:
        """Start the agent again if it found no database at its start, as systemd would."""
        if self.agent.status is not None:
            self.start_agent()

    def stop_schedulers(self) -> None:
        """Stop the schedulers in order: what they have taken is answered then."""
        for process in self.schedulers.values():
            process.send(signal.SIGTERM)
        for process in self.schedulers.values():
            process.wait(PATIENCE)

    def end_leases(self, within: float) -> bool:
        """Let all leases be over now; tell whether the agent has given back what was claimed."""
        over = sa.text("UPDATE allocations SET expires_at = '2000-01-01'")
        database = self.deployment.open_database()
        try:
            database.write(lambda connection: connection.execute(over))
            return wait_until(lambda: not self._pending(database), within)
        finally:
            database.close()

    def empty(self, within: float) -> bool:
        """Let all leases end; tell whether claims and standbys are given back."""
        if not self.end_leases(within):
            return False
        database = self.deployment.open_database()
        try:
            if not self._standbys(database):
                return True
            # The keeper ends them.
            self.start_scheduler(0)
            try:
                return wait_until(lambda: not self._standbys(database), within)
            finally:
                self.stop_schedulers()
        finally:
            database.close()

    def heal(self) -> None:
        """Let broker, database and agent run, whatever was done to them."""
        self.server.start()
        self.server.resume()
        self.broker.start()
        self.restart_exited_agent()

    def cut_database_connections(self) -> int:
        """Kill all connections to the database; return how many there were."""
        with self._administrator() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s", (self._name,)
            )
            ids = [row[0] for row in cursor.fetchall()]
            for each in ids:
                try:
                    cursor.execute(f"KILL CONNECTION {int(each)}")
                # It has ended by itself.
                except pymysql.err.OperationalError:
                    continue
        return len(ids)

    def cut_broker_connections(self) -> None:
        """Let the broker close all connections."""
        command = ["/usr/lib/rabbitmq/bin/rabbitmqctl", "close_all_connections", "storm"]
        environment = {"PATH": search_path(), **self.broker.environment()}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, done.stderr

    @property
    def _name(self) -> str:
        return str(sa.make_url(self.deployment.database_url).database)

    def _administrator(self) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        url = sa.make_url(self.deployment.database_url)
        return pymysql.connect(
            host=url.host, port=url.port, user=url.username, password=url.password
        )

    @staticmethod
    def _hosts(database: Database) -> int:
        query = sa.text("SELECT COUNT(*) FROM compute_nodes WHERE deleted = 0")
        return database.read(lambda connection: connection.scalar(query)) or 0

    @staticmethod
    def _standbys(database: Database) -> int:
        query = sa.text("SELECT COUNT(*) FROM standbys")
        return database.read(lambda connection: connection.scalar(query)) or 0

    @staticmethod
    def _pending(database: Database) -> int:
        query = sa.text("SELECT COUNT(*) FROM allocations WHERE state <> 'confirmed'")
        return database.read(lambda connection: connection.scalar(query)) or 0
