# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.trace_file: small files in the formats of large ones."""

import gzip
import json
import sqlite3
import sys
from contextlib import closing

import pyarrow as pa
import pytest
from pyarrow import parquet

from inventory.errors import OperationRefused
from scheduler.operators.cli.trace_file import read_csv, read_trace_file
from scheduler.operators.simulation.arrival import TraceError
from scheduler.operators.simulation.public_traces import Machine
from tests.fixtures.small_traces import EVENTS, PODS, write_azure, write_google

# The same bytes in each process.
PACKED = gzip.compress(b"time,vcpus" * 100, mtime=0)
MACHINE = Machine(100, 100_000, 1000)
OWN = "time,vcpus,memory_mb,lifetime\n0,2,4096,\n5,4,8192,60\n"
OWN_FOUND = [(0, (2, 4096, 0)), (5, (4, 8192, 0), 65)]
PODS_FOUND = [(0, (12, 16384, 0), 12537496), (427061, (6, 12288, 0), 12902960)]
GOOGLE_FOUND = [(5, (2, 1000, 0), 65)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace"


def found(path, machine=MACHINE, **kwargs):
    """Return (time, size, time until it leaves) of the arrivals of a file."""
    arrivals = read_trace_file(path, machine, **kwargs)
    return [(each.time, each.size, *each.leaves_at.values()) for each in arrivals]


def refused(path, **kwargs):
    with pytest.raises(OperationRefused) as error:
        read_trace_file(path, **kwargs)
    return str(error.value)


@pytest.mark.parametrize("pack", [str.encode, lambda text: gzip.compress(text.encode())])
@pytest.mark.parametrize(("text", "expected"), [(OWN, OWN_FOUND), (PODS, PODS_FOUND)])
def test_csv_is_read_packed_or_not(path, pack, text, expected):
    path.write_bytes(pack(text))
    assert found(path) == expected


def test_events_of_google_are_read_from_lines_of_json_and_from_parquet(path):
    write_google(path)
    assert found(path) == GOOGLE_FOUND
    events = [
        each | {"type": index, "time": int(each["time"])}
        for index, each in zip((0, 3, 6), EVENTS, strict=True)
    ]
    parquet.write_table(pa.Table.from_pylist(events), path)
    assert found(path) == GOOGLE_FOUND
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert found(path) == GOOGLE_FOUND


def test_own_columns_are_read_from_parquet_also_where_whole_numbers_are_floats(path):
    columns = {
        "time": [0, 5],
        "vcpus": [2.0, 4.0],
        "memory_mb": [4096, 8192],
        "lifetime": [None, 60.0],
    }
    parquet.write_table(pa.table(columns), path)
    assert found(path) == OWN_FOUND


def test_vms_of_azure_are_read_from_sqlite(path):
    write_azure(path)
    assert found(path) == [
        (-86_400, (2, 1000, 100 * 1024), 86_400),
        (-43_200, (2, 1000, 100 * 1024)),
    ]
    assert refused(path) == (
        f"{path}: its sizes are shares of a machine: say with --machine what a whole machine has"
    )


def test_the_first_arrivals_are_enough_if_so_many_are_asked_for(path):
    path.write_text(OWN + "and a line that nobody reads\n")
    assert found(path, limit=2) == OWN_FOUND


def test_progress_is_told_how_many_rows_were_read(path):
    path.write_text("time,vcpus,memory_mb\n" + 25_000 * "0,1,1\n")
    seen = []
    assert len(found(path, progress=seen.append)) == 25_000
    assert seen == [10_000, 20_000]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", ": it has no column time, vcpus, memory_mb; there must be"),
        (b"time,vcpus,memory_mb\n0,x,1\n", ": line 2: vcpus is 'x', not a whole number"),
        (b"\xff\xfe", " is neither text in UTF-8 nor SQLite or Parquet"),
        (b"PAR1 and so on", ": it is not a Parquet file: "),
        (PACKED[:-9], "cannot read "),
        (PACKED[:-9] + b"\0" * 9, "cannot read "),
        (b"SQLite format 3\0 and so on", "cannot read "),
        (b'{"a": 1}\n', ": line 1 is JSON, but not an event of Google's trace"),
        (b'{"a": 1\n', ": line 1 is not JSON: "),
        (json.dumps(EVENTS[0]).encode() + b"\n[]\n", ": line 2 is not a JSON object"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(path, content, cause):
    path.write_bytes(content)
    message = refused(path, machine=MACHINE)
    assert str(path) in message
    assert cause in message


def test_files_that_are_not_there_or_have_other_tables_are_refused(path):
    assert refused(path) == f"cannot read {path}: No such file or directory"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE instances (uuid)")
        connection.commit()
    assert "it does not have the tables vm and vmType" in refused(path)


def test_parquet_without_its_library_says_what_to_install(path, monkeypatch):
    parquet.write_table(pa.table({"time": [0]}), path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refused(path) == "Parquet files need pyarrow: pip install 'berthmaster[simulation]'"


def read_lines(*lines):
    names, rows = read_csv([f"{line}\n" for line in lines])
    return names, [*rows]


def test_rows_have_their_lines_and_texts_by_column():
    names, (one, other) = read_lines("time, vcpus,flavor", "1.5,2,", '3,4,"a', 'b"')
    assert names == ["time", "vcpus", "flavor"]
    assert one == ("line 2", {"time": "1.5", "vcpus": "2", "flavor": ""})
    # A value may have lines.
    assert other == ("line 4", {"time": "3", "vcpus": "4", "flavor": "a\nb"})


def test_an_empty_file_has_no_columns():
    assert read_lines() == ([], [])


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["time,vcpus,time"], "line 1 names a column twice"),
        (["time,vcpus", "0,1,2"], "line 2: there are more values than line 1 has columns"),
        (["time,vcpus", '5,"2'], "line 2: "),
    ],
)
def test_what_is_wrong_is_named_with_its_line(lines, cause):
    with pytest.raises(TraceError) as refused:
        read_lines(*lines)
    assert str(refused.value).startswith(cause)
