# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The inventory that most tests of the host cache begin with."""

import pytest

from tests.databases import a_node, save, serve


@pytest.fixture
def cloud(database):
    """Return a database with two living hosts."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    return database
