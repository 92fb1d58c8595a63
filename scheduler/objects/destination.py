# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where a request asks to go."""

from dataclasses import dataclass

from scheduler.objects.presence import FieldPresence


@dataclass(frozen=True, slots=True)
class CellMapping(FieldPresence):
    """A cell by uuid and name; its URLs hold passwords and are never read."""

    uuid: str
    name: str | None = None


@dataclass(slots=True)
class Destination(FieldPresence):
    """Every field that is None restricts nothing.

    Each string of ``aggregates`` lists alternatives, separated by commas; all strings must hold.
    """

    host: str | None = None
    node: str | None = None
    cell: CellMapping | None = None
    aggregates: list[str] | None = None
    allow_cross_cell_move: bool = False
    forbidden_aggregates: set[str] | None = None
