# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What all tests share: real daemons on demand, marks, and a list of what was skipped."""

import gc
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_service import backend
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests import profiles
from tests.fixtures import availability
from tests.fixtures.daemons.galera import Galera
from tests.fixtures.daemons.libvirtd import Libvirtd
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.rabbitmq import RabbitMQ

# Before anything imports oslo.messaging, which would choose green threads. The services are tried
# under both backends in processes of their own.
backend.init_backend(backend.BackendType.THREADING)

DAEMON_FIXTURES = {"rabbitmq", "mariadb", "galera", "libvirtd"}
WHOLE_NOVA = "whole Nova"
# What a file says that uses one.
USES_WHOLE_NOVA = re.compile(r"^from tests\.fixtures\.(served|switched)_nova import", re.MULTILINE)
# As texts: to look through the parents of each path would take a second in each worker.
FUNCTIONAL = f"{Path(__file__).parent}/functional/"
UNIT = f"{Path(__file__).parent}/unit/"
BENCHMARKS = f"{UNIT}benchmarks/"
profiles.register(repeatable=availability.in_ci())


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A private RabbitMQ; a test that stops it starts it again."""
    availability.require(availability.RABBITMQ)
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq")) as broker:
        yield broker


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """A private MariaDB; each test creates a database of its own in it."""
    availability.require(availability.MARIADB)
    with MariaDB(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture(scope="session")
def galera(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Galera]:
    """A private cluster of three MariaDB servers; a test that breaks it makes it whole again."""
    availability.require(availability.GALERA)
    with Galera(tmp_path_factory.mktemp("galera")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def libvirtd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Libvirtd]:
    """A private libvirtd; each test takes its guests away again."""
    availability.require(availability.LIBVIRTD)
    with Libvirtd(tmp_path_factory.mktemp("libvirtd")) as daemon:
        yield daemon


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "daemons: set on each test that asks for a real daemon")
    config.addinivalue_line("markers", "matrix: for `make test-matrix` alone")
    config.addinivalue_line(
        "markers", "release: for `make test-release` alone; set on tests/unit/benchmarks"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if DAEMON_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("daemons")
        if str(item.path).startswith(BENCHMARKS):
            item.add_marker("release")
        elif str(item.path).startswith(UNIT) and item.get_closest_marker("matrix"):
            raise pytest.UsageError(f"`make test-matrix` looks for no test there: {item.nodeid}")
    # Workers take file after file. With the long ones first, none of them is waited for at the end.
    whole_nova = {str(path) for path in _with_whole_nova()}
    items.sort(
        key=lambda item: (
            str(item.path) not in whole_nova,
            not str(item.path).startswith(FUNCTIONAL),
        )
    )


def _with_whole_nova() -> list[Path]:
    files = Path(FUNCTIONAL).rglob("test_*.py")
    return [path for path in files if USES_WHOLE_NOVA.search(path.read_text())]


class _OneNovaAtATime(LoadFileScheduling):
    """Gives all files that start a whole Nova, which takes a small machine, to the same worker."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._whole_nova = {str(path.relative_to(config.rootpath)) for path in _with_whole_nova()}

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return WHOLE_NOVA if file in self._whole_nova else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Return what gives tests to the workers."""
    return _OneNovaAtATime(config, log)


def pytest_collection_finish() -> None:
    """Let the garbage collector forget what was imported and collected: it stays to the end."""
    gc.collect()
    gc.freeze()


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return terminal.stats.get("skipped", []) if terminal else []


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a run that skipped something fail where everything has to run."""
    if availability.in_ci() and _skipped(session.config) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which tests were skipped and why, so that none is missing unnoticed."""
    by_reason = defaultdict(list)
    for report in _skipped(config):
        # A skip's text is (path, line, "Skipped: reason").
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        by_reason[reason.removeprefix("Skipped: ")].append(report.nodeid)
    if not by_reason:
        return
    total = sum(map(len, by_reason.values()))
    terminalreporter.section(f"{total} skipped", yellow=True)
    for reason, names in sorted(by_reason.items()):
        terminalreporter.line(f"{len(names)} x {reason}")
        for name in sorted(names):
            terminalreporter.line(f"    {name}")
    if availability.in_ci():
        terminalreporter.line(f"CI is set, {total} skipped: the run fails", red=True)
