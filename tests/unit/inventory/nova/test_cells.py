# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Cells, their hosts, and how to reach their databases."""

from contextlib import closing
from pathlib import Path

import pytest

from inventory.nova.cells import CELL0, Cell, CellAccess, CellTemplateError, read_mappings
from tests.nova_tables import CELL, NovaCloud

TEMPLATE = "{scheme}://{username}:{password}@{hostname}:{port}/nova_cell1?{query}"
OURS = "mysql+pymysql://nova:p%40ss@db.example:3307/nova?charset=utf8"


def a_cell(url: str) -> Cell:
    return Cell(uuid=CELL, name="cell1", database_url=url, is_disabled=False)


def test_cells_are_read_with_the_hosts_in_them(tmp_path: Path) -> None:
    cloud = NovaCloud(tmp_path, ["h1", "h3"], ["h2"])
    with closing(cloud), closing(cloud.api.open()) as api:
        found = read_mappings(api)
    one, two = (each.uuid for each in found.cells)
    assert [each.name for each in found.cells] == ["cell1", "cell2"]
    assert found.cells[0].database_url == cloud.cells[0].url
    assert found.hosts == {"h1": one, "h2": two, "h3": one}
    assert CELL0 not in (one, two)


def test_a_template_is_filled_in_as_nova_does() -> None:
    access = CellAccess(template_url=OURS)
    assert (
        access.database_url(a_cell(TEMPLATE))
        == "mysql+pymysql://nova:p%40ss@db.example:3307/nova_cell1?charset=utf8"
    )


def test_an_account_replaces_that_of_every_mapping() -> None:
    access = CellAccess(username="reader", password="p@ss")
    found = access.database_url(a_cell("mysql+pymysql://nova:old@db/nova_cell1"))
    assert found == "mysql+pymysql://reader:p%40ss@db/nova_cell1"


@pytest.mark.parametrize(
    ("access", "url", "why"),
    [
        (CellAccess(), TEMPLATE, "set \\[nova\\] cell_template_connection"),
        (CellAccess(template_url=OURS), "mysql://{hostname9}/nova", "hostname9"),
        (CellAccess(username="reader"), "secret", "cell1 cannot be read"),
    ],
)
def test_a_url_that_cannot_be_made_says_why(access: CellAccess, url: str, why: str) -> None:
    with pytest.raises(CellTemplateError, match=why) as error:
        access.database_url(a_cell(url))
    assert "secret" not in str(error.value)
