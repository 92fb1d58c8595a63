# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.csv_trace."""

import pytest

from scheduler.operators.simulation.arrival import TraceError
from scheduler.operators.simulation.csv_trace import read_csv


def read(*lines):
    names, rows = read_csv([f"{line}\n" for line in lines])
    return names, [*rows]


def test_rows_have_their_lines_and_texts_by_column():
    names, (one, other) = read("time, vcpus,flavor", "1.5,2,", '3,4,"a', 'b"')
    assert names == ["time", "vcpus", "flavor"]
    assert one == ("line 2", {"time": "1.5", "vcpus": "2", "flavor": ""})
    # A value may have lines.
    assert other == ("line 4", {"time": "3", "vcpus": "4", "flavor": "a\nb"})


def test_an_empty_file_has_no_columns():
    assert read() == ([], [])


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["time,vcpus,time"], "line 1 names a column twice"),
        (["time,vcpus", "0,1,2"], "line 2: it has more values than line 1 has columns"),
        (["time,vcpus", '5,"2'], "line 2: "),
    ],
)
def test_what_is_wrong_is_named_with_its_line(lines, cause):
    with pytest.raises(TraceError) as refused:
        read(*lines)
    assert str(refused.value).startswith(cause)
