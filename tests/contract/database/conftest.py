# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Every test of this folder runs on an SQLite file and on a MariaDB server, by two drivers."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from inventory import migrations
from inventory.engine import Database
from tests.databases import a_node, empty, execute, open_at, save
from tests.fixtures import availability, releases
from tests.fixtures.daemons.mariadb import MariaDB

# `make test` takes the one that operators have, `make test-matrix` the other one too.
BACKENDS = [
    pytest.param("sqlite", marks=pytest.mark.matrix),
    pytest.param("mariadb", marks=pytest.mark.daemons),
    # The same server through mysqlclient.
    pytest.param("mysqldb", marks=[pytest.mark.daemons, pytest.mark.release]),
]
NewDatabase = Callable[[], str]


def a_server(request: pytest.FixtureRequest) -> MariaDB:
    """Return the server of a backend, whose driver has to be here."""
    if request.param == "mysqldb":
        availability.require(availability.MYSQLCLIENT)
    server: MariaDB = request.getfixturevalue("mariadb")
    return server


def by_driver(url: str, backend: str) -> str:
    """Return a URL with the driver that tests a backend."""
    return url.replace("pymysql", "mysqldb") if backend == "mysqldb" else url


@pytest.fixture(params=BACKENDS)
def new_database(request: pytest.FixtureRequest, tmp_path) -> NewDatabase:
    """Return what creates a database without tables and returns its URL."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{uuid4().hex}.sqlite"
    server = a_server(request)
    return lambda: by_driver(server.create_database(f"test_{uuid4().hex}"), request.param)


@pytest.fixture
def fresh(new_database: NewDatabase) -> Iterator[Database]:
    """Yield a database without tables."""
    with closing(open_at(new_database())) as database:
        yield database


@pytest.fixture
def old_schema(fresh: Database) -> Database:
    """Return a database with the tables of 0009, as db sync made them then."""
    dumps = Path(__file__).parents[2] / "fixtures" / "schema_0009"
    text = (dumps / f"{fresh.engine.dialect.name}.sql").read_text()
    for statement in text.strip().removesuffix(";").split(";\n"):
        execute(fresh, statement)
    return fresh


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
        created = a_server(request).create_database(f"test_{request.param}")
        made = by_driver(created, request.param)
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


@pytest.fixture
def next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the schema a step that a next release may have, and return its revision."""
    steps, config = tmp_path / "migrations", migrations._config()
    revision = f"{int(migrations.HEAD) + 1:04}"
    shutil.copytree(Path(migrations.__file__).parent, steps)
    text = releases.STEP.format(revision=revision, before=migrations.HEAD)
    (steps / "versions" / f"next_{revision}.py").write_text(text)
    config.set_main_option("script_location", str(steps))
    monkeypatch.setattr(migrations, "_config", lambda: config)
    monkeypatch.setattr(migrations, "HEAD", revision)
    return revision
