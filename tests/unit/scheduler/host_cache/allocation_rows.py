# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of instances without a database."""

from types import SimpleNamespace
from typing import Any

from tests.databases import an_instance


def an_instance_row(uuid: str = "u1", **changes: Any) -> SimpleNamespace:
    """Return the live row of a guest on h1, with the columns that a scheduler reads."""
    ordinary = {"host": "h1", "node": "h1", "deleted": 0}
    ordinary |= {"task_state": None, "os_type": None, "ephemeral_gb": 0}
    return SimpleNamespace(**ordinary | an_instance(uuid) | changes)
