# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A database in whose readings something happens."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database


class Interrupted(Database):
    """Lets something happen once between a reading and its end, or is gone."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self.gone = False
        self.meanwhile: Callable[[], Any] = lambda: None

    def read(self, work: Callable[[sa.Connection], Any]) -> Any:
        if self.gone:
            raise DatabaseUnavailable("gone")
        found = super().read(work)
        act, self.meanwhile = self.meanwhile, lambda: None
        act()
        return found
