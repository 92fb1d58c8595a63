# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Traces as CSV: a line with the names of the columns, then a line for each row."""

import csv
from collections.abc import Iterable, Iterator, Sequence

from scheduler.operators.simulation.arrival import TraceError
from scheduler.operators.simulation.trace_rows import Row


def read_csv(lines: Iterable[str]) -> tuple[Sequence[str], Iterator[Row]]:
    """Return the names of the columns, and the rows as they are asked for; raises TraceError."""
    reader = csv.DictReader(lines, restkey="", strict=True)
    try:
        names = [(name or "").strip() for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise TraceError(f"line 1: {error}") from None
    if len({*names}) < len(names):
        raise TraceError("line 1 names a column twice")
    reader.fieldnames = names
    return names, _rows(reader)


def _rows(reader: "csv.DictReader[str]") -> Iterator[Row]:
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise TraceError(f"line {reader.line_num + 1}: {error}") from None
        if values is None:
            return
        if "" in values:
            raise TraceError(f"line {reader.line_num}: it has more values than line 1 has columns")
        yield Row(f"line {reader.line_num}", values)
