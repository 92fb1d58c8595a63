# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Many rows at a time, with their columns as attributes.

SQLAlchemy's own rows take ten times as long to tell an attribute as named tuples do.
"""

from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa


def named(result: sa.Result[Any]) -> list[Any]:
    """Return all rows of a result as named tuples."""
    return list(map(_kind(tuple(result.keys())), result))


def columns(table: sa.Table, names: Sequence[str]) -> Sequence[sa.ColumnElement[Any]]:
    """Return these columns of a table, all without names."""
    return [table.c[name] for name in names] if names else [*table.c]


@lru_cache(100)
def written_since(table: sa.Table, names: tuple[str, ...]) -> sa.Select[Any]:
    """Return what reads these columns of the rows that were written since :moment.

    Schedulers ask again and again: making the statement takes as long as the answer does.
    """
    return sa.select(*columns(table, names)).where(table.c.updated_at >= sa.bindparam("moment"))


@lru_cache(100)
def _kind(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)._make  # type: ignore[attr-defined]  # not known here
