# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options, a database, a fake driver and its tracker for each test of the agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.fake import FakeDriver
from inventory.engine import Database
from tests.fixtures import agent


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    """The options of an agent with the fake driver and one host called alpha."""
    return agent.options(tmp_path, DEFAULT={"compute_driver": "fake", "report_interval": 1})


@pytest.fixture
def database(conf: cfg.ConfigOpts) -> Iterator[Database]:
    """The embedded database of these options."""
    opened = agent.database(conf)
    yield opened
    opened.close()


@pytest.fixture
def driver(conf: cfg.ConfigOpts) -> FakeDriver:
    return FakeDriver(conf)


@pytest.fixture
def tracker(conf: cfg.ConfigOpts, database: Database, driver: FakeDriver) -> ResourceTracker:
    return ResourceTracker(conf, database, driver)
