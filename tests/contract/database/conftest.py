# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every test of this folder runs on an SQLite file and on a MariaDB server."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from inventory import migrations
from inventory.engine import Database
from tests.databases import a_node, empty, open_at, save

# `make test` takes the one that operators have, `make test-matrix` the other one too.
BACKENDS = [
    pytest.param("sqlite", marks=pytest.mark.matrix),
    pytest.param("mariadb", marks=pytest.mark.daemons),
]
NewDatabase = Callable[[], str]


@pytest.fixture(params=BACKENDS)
def new_database(request: pytest.FixtureRequest, tmp_path) -> NewDatabase:
    """Return what creates a database without tables and returns its URL."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{uuid4().hex}.sqlite"
    server = request.getfixturevalue("mariadb")
    return lambda: server.create_database(f"test_{uuid4().hex}")


@pytest.fixture(scope="session")
def migrated() -> dict[str, str]:
    """The URLs of databases that have all tables, by backend: each is made once."""
    return {}


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, migrated: dict[str, str], tmp_path_factory) -> str:
    """Return the URL of a database that has all tables."""
    if request.param in migrated:
        return migrated[request.param]
    if request.param == "sqlite":
        made = f"sqlite:///{tmp_path_factory.mktemp('database')}/test.sqlite"
    else:
        made = request.getfixturevalue("mariadb").create_database("test_contract")
    database = open_at(made)
    migrations.sync(database)
    database.close()
    migrated[request.param] = made
    return made


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """Yield a database with all tables and no rows."""
    database = open_at(url)
    yield database
    empty(database)
    database.close()


@pytest.fixture
def cloud(database: Database) -> Database:
    """Return a database with three empty nodes of 16 CPUs, 64 GB and 1000 GB."""
    unused = {"memory_mb_used": 0, "free_ram_mb": 65536}
    save(database, *(a_node(f"h{number}", id=number, **unused) for number in (1, 2, 3)))
    return database
