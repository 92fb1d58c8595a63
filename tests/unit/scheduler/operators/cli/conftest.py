# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A database on SQLite, and the operator's command that works on it in this process."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.engine import Database
from tests.databases import migrated, open_at
from tests.fixtures.command import Command


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a database with empty tables."""
    migrated(tmp_path).close()
    return f"sqlite:///{tmp_path}/inventory.sqlite"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """The database of the command."""
    opened = open_at(url)
    yield opened
    opened.close()


@pytest.fixture
def command(url: str, tmp_path: Path) -> Command:
    """The operator's command."""
    config = tmp_path / "berthmaster.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n")
    return Command(config)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process that Ctrl-C ends, as programs are; workers of pytest ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
