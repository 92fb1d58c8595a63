# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A service takes itself out and in again without touching what an operator said."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from inventory import revisions, services
from inventory.engine import Database
from tests.fixtures import agent


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = agent.database(agent.options(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def ids(database: Database) -> list[int]:
    return database.write(lambda each: services.register(each, ["a"], services.COMPUTE, 1))


def disable(database: Database, ids: list[int], reason: str) -> None:
    database.write(lambda each: services.disable_automatically(each, ids, reason))


def service(database: Database) -> "sa.Row[tuple[object, ...]]":
    return database.read(services.all_live)[0]


def changes(database: Database) -> int:
    return database.read(revisions.current)[0][revisions.SERVICES]


def test_a_reason_is_marked_and_cut_to_its_column(database: Database, ids: list[int]) -> None:
    disable(database, ids, "x" * 300)
    row = service(database)
    assert row.disabled
    assert row.disabled_reason == "AUTO: " + "x" * 249


def test_the_same_reason_again_is_no_change(database: Database, ids: list[int]) -> None:
    disable(database, ids, "gone")
    before = changes(database)
    disable(database, ids, "gone")
    assert changes(database) == before
    disable(database, ids, "gone for good")
    assert changes(database) == before + 1
    assert service(database).disabled_reason == "AUTO: gone for good"


@pytest.mark.parametrize("reason", [None, "maintenance"])
def test_an_operators_word_stays(database: Database, ids: list[int], reason: str | None) -> None:
    values = {"disabled": True, "disabled_reason": reason}
    database.write(lambda each: each.execute(sa.update(services.table).values(**values)))
    disable(database, ids, "gone")
    database.write(lambda each: services.enable_automatically(each, ids))
    row = service(database)
    assert (row.disabled, row.disabled_reason) == (True, reason)


def test_enabling_undoes_a_reason_of_its_own(database: Database, ids: list[int]) -> None:
    disable(database, ids, "gone")
    database.write(lambda each: services.enable_automatically(each, ids))
    row = service(database)
    assert (row.disabled, row.disabled_reason) == (False, None)
