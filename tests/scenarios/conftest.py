# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What tests of the scheduler's modules share: a database of their own."""

from collections.abc import Iterator

import pytest

from inventory.engine import Database
from tests.databases import migrated


@pytest.fixture
def database(tmp_path) -> Iterator[Database]:
    """Yield an SQLite database with all tables and no rows."""
    database = migrated(tmp_path / "state")
    yield database
    database.close()
