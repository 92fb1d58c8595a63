# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Files of traces: CSV, Parquet, lines of JSON or SQLite, the first three packed by gzip or not."""

import csv
import gzip
import json
import math
import sqlite3
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from io import BufferedReader, BytesIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import Any

from inventory.errors import OperationRefused
from scheduler.operators.simulation.arrival import Arrival, TraceError
from scheduler.operators.simulation.public_traces import (
    AZURE,
    Machine,
    azure_rows,
    is_public,
    lacking,
    read_public,
)
from scheduler.operators.simulation.trace_rows import Row, check_columns, read_rows

_GZIP, _PARQUET, _SQLITE = b"\x1f\x8b", b"PAR1", b"SQLite format 3\0"
_VMS = "SELECT vmTypeId, tenantId, starttime, endtime FROM vm ORDER BY starttime, vmId"
_TYPES = "SELECT vmTypeId, machineId, core, memory, hdd, ssd FROM vmType"
_REPORTED = 10_000
_Columns = tuple[Collection[str], Iterable[Row]]


def read_trace_file(
    path: Path,
    machine: Machine | None = None,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> list[Arrival]:
    """Return the first arrivals of a trace, at most limit; raises OperationRefused.

    progress is told how many rows were read.
    """
    try:
        with ExitStack() as stack:
            names, rows = _columns(path, stack)
            rows = _reported(rows, progress)
            if is_public(names):
                arrivals = read_public(names, rows, machine)
            else:
                if text := lacking(names):
                    raise TraceError(text)
                check_columns(names)
                arrivals = read_rows(rows)
            return [*islice(arrivals, limit)]
    # Those of gzip and of pyarrow are among these.
    except (OSError, EOFError, zlib.error, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise OperationRefused(f"cannot read {path}: {reason}") from None
    except UnicodeDecodeError:
        raise OperationRefused(f"{path} is neither text in UTF-8 nor SQLite or Parquet") from None
    except TraceError as error:
        raise OperationRefused(f"{path}: {error}") from None


def _columns(path: Path, stack: ExitStack) -> _Columns:
    """Return the names of the columns of a file, and its rows while the stack is open."""
    content = stack.enter_context(path.open("rb"))
    if content.peek(len(_SQLITE)).startswith(_SQLITE):
        uri = f"{path.absolute().as_uri()}?mode=ro"
        return _read_sqlite(stack.enter_context(closing(sqlite3.connect(uri, uri=True))))
    if is_packed := content.peek(len(_GZIP)).startswith(_GZIP):
        content = stack.enter_context(BufferedReader(gzip.GzipFile(fileobj=content)))
    start = content.peek(len(_PARQUET))
    if start.startswith(_PARQUET):
        return _read_parquet(BytesIO(content.read()) if is_packed else content)
    # Spreadsheets begin a file with a byte order mark.
    text = stack.enter_context(TextIOWrapper(content, encoding="utf-8-sig", newline=""))
    is_json = start.removeprefix(BOM_UTF8).startswith(b"{")
    return _read_json(text) if is_json else read_csv(text)


def read_csv(lines: Iterable[str]) -> _Columns:
    """Return the names of the columns, as line 1 has them, and the rows; raises TraceError."""
    reader = csv.DictReader(lines, restkey="", strict=True)
    try:
        names = [(name or "").strip() for name in reader.fieldnames or ()]
    except csv.Error as error:
        raise TraceError(f"line 1: {error}") from None
    if len({*names}) < len(names):
        raise TraceError("line 1 names a column twice")
    reader.fieldnames = names
    return names, _csv_rows(reader)


def _csv_rows(reader: "csv.DictReader[str]") -> Iterator[Row]:
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise TraceError(f"line {reader.line_num + 1}: {error}") from None
        if values is None:
            return
        if "" in values:
            raise TraceError(
                f"line {reader.line_num}: there are more values than line 1 has columns"
            )
        yield Row(f"line {reader.line_num}", values)


def _read_json(lines: Iterable[str]) -> _Columns:
    rows = _json_rows(lines)
    first = next(rows)
    if not is_public(first.values):
        raise TraceError("line 1 is JSON, but not an event of Google's trace of 2019")
    return first.values, chain([first], rows)


def _json_rows(lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise TraceError(f"line {number} is not a JSON object")
        except ValueError as error:
            raise TraceError(f"line {number} is not JSON: {error}") from None
        yield Row(f"line {number}", {key: _text(value) for key, value in _flat(found)})


def _flat(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", each) for key, each in value.items())
        else:
            yield name, value


def _read_parquet(file: Any) -> _Columns:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise OperationRefused(
            "Parquet files need pyarrow: pip install 'berthmaster[simulation]'"
        ) from None
    try:
        opened = parquet.ParquetFile(file)
    except pa.ArrowException as error:
        raise TraceError(f"it is not a Parquet file: {error}") from None
    names = [
        f"{field.name}.{inner.name}" if pa.types.is_struct(field.type) else field.name
        for field in opened.schema_arrow
        for inner in (field.type if pa.types.is_struct(field.type) else [field])
    ]
    return names, _parquet_rows(opened)


def _parquet_rows(opened: Any) -> Iterator[Row]:
    number = 0
    for batch in opened.iter_batches(_REPORTED):
        for found in batch.to_pylist():
            number += 1
            yield Row(f"row {number}", {key: _text(value) for key, value in _flat(found)})


def _read_sqlite(connection: sqlite3.Connection) -> _Columns:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not {"vm", "vmType"} <= tables:
        raise TraceError("it does not have the tables vm and vmType of Azure's trace for packing")
    connection.row_factory = _texts
    return AZURE, azure_rows(connection.execute(_TYPES), connection.execute(_VMS))


def _texts(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, str]:
    names = (name for name, *_ in cursor.description)
    return {name: _text(value) for name, value in zip(names, row, strict=True)}


def _text(value: Any) -> str:
    """Return a value as it would stand in CSV."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    # Whole numbers of which some are missing are floats in many files.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _reported(rows: Iterable[Row], progress: Callable[[int], object]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        yield row
        if not number % _REPORTED:
            progress(number)
