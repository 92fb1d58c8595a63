# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers for the contract suites, as the agent loads them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compute_agent.virt import driver_loading
from compute_agent.virt.driver import Driver
from tests.fixtures import agent

Load = Callable[..., Driver]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """A function from options, by section, to the driver that they lead to."""
    made: list[Driver] = []

    def loaded(**sections: dict[str, Any]) -> Driver:
        made.append(driver_loading.load(agent.options(tmp_path, **sections)))
        return made[-1]

    yield loaded
    for driver in made:
        driver.close()
