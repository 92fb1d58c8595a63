# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the checker of storms: a history to forge, and the program that checks it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.check_history import main
from tests.unit.benchmarks.forged import Forger


@pytest.fixture
def forger(tmp_path: Path) -> Iterator[Forger]:
    found = Forger(tmp_path)
    yield found
    found.engine.dispose()


@pytest.fixture
def check(forger: Forger, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the program on the forged history; return its violations, the status checked."""

    def run(*options: str) -> list[str]:
        status = main([str(forger.log), "--database", forger.url, *options])
        *found, _summary, number = capsys.readouterr().out.splitlines()
        assert number == f"{len(found)} violations"
        assert status == (1 if found else 0)
        return found

    return run
