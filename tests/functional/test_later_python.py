# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is decided and claimed is the same on the Python of Debian 13."""

import pytest

from tests.fixtures import availability
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.machines.later_python import PYTHON, run_later_python

pytestmark = pytest.mark.matrix

# Of all that decides, claims and counts. Contract tests run on SQLite there: the servers are those
# of this machine.
SCHEDULER = """
analysis claims decision drivers filters history host_cache hosts objects select_destinations
weighers wire test_trust.py
"""
TESTS = [
    *(f"tests/unit/scheduler/{each}" for each in SCHEDULER.split()),
    *("tests/unit/inventory", "tests/unit/compute_agent", "tests/contract"),
]
OPTIONS = ["-p", "no:cacheprovider", "--dist=loadfile", "--numprocesses=2"]
# From 3.13 on sqlite3 warns of connections that a pool leaves to the collection of garbage, as it
# does where tests end with readers of Nova's databases. In production these are no files.
OPTIONS += ["-W", "ignore:unclosed database:ResourceWarning"]
CHOSEN = "not daemons and not matrix and not release"


def test_unit_and_contract_tests_pass_on_a_later_python() -> None:
    availability.require(availability.MACHINES)
    availability.require_root()
    version = run_later_python("--version", timeout=PATIENCE)
    assert version.stdout.startswith(f"Python {PYTHON}.")
    done = run_later_python("-m", "pytest", *OPTIONS, "-m", CHOSEN, *TESTS, timeout=12 * PATIENCE)
    assert done.returncode == 0, done.stdout[-5000:]
