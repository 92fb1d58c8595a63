# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What has changed since a moment, asked with one statement: most often nothing that is new."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from inventory.dialects import utc_moment
from inventory.tables import compute_nodes, instances, revisions


class RowMark(NamedTuple):
    """What tells whether a row of compute_nodes is known already."""

    id: int
    generation: int
    eligibility_revision: int


class ChangeMarks(NamedTuple):
    """The database's time, the revisions of tables, the marks of nodes written since a moment.

    has_instances says whether any row of instances was written since then.
    """

    now: datetime
    revisions: Mapping[str, int]
    nodes: list[RowMark]
    has_instances: bool


def since(connection: sa.Connection, moment: datetime) -> ChangeMarks:
    """Return what has changed since a moment on the database's clock."""
    query = _QUERIES[connection.dialect.name == "sqlite"]
    row = connection.execute(query, {"moment": moment}).one()
    nodes = [RowMark(*each) for each in json.loads(row.nodes or "[]")]
    return ChangeMarks(row.now, json.loads(row.revisions or "{}"), nodes, bool(row.has_instances))


def _query(is_sqlite: bool) -> sa.Select[Any]:
    """Return the query, each list in which is one value: JSON is parsed faster than rows."""
    names = ("json_group_object", "json_group_array") if is_sqlite else _MYSQL
    as_object, as_list = (getattr(sa.func, name) for name in names)
    mark = sa.func.json_array(*(compute_nodes.c[name] for name in RowMark._fields))
    moment: sa.BindParameter[datetime] = sa.bindparam("moment")
    numbers = sa.select(as_object(revisions.c.name, revisions.c.revision))
    nodes = sa.select(as_list(mark)).where(compute_nodes.c.updated_at >= moment)
    return sa.select(
        utc_moment().label("now"),
        numbers.scalar_subquery().label("revisions"),
        nodes.scalar_subquery().label("nodes"),
        sa.exists().where(instances.c.updated_at >= moment).label("has_instances"),
    )


_MYSQL = ("json_objectagg", "json_arrayagg")
_QUERIES = {is_sqlite: _query(is_sqlite) for is_sqlite in (False, True)}
