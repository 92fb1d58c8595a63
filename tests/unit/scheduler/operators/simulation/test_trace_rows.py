# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.trace_rows."""

import pytest

from scheduler.operators.simulation.arrival import TraceError
from scheduler.operators.simulation.trace_rows import Row, check_columns, read_rows


def trace(names, *lines):
    """Return the arrivals of rows that are written as in CSV."""
    check_columns(names.split(","))
    each = (dict(zip(names.split(","), line.split(","), strict=False)) for line in lines)
    return [*read_rows(Row(f"row {number}", values) for number, values in enumerate(each, 1))]


def test_the_three_columns_that_there_must_be_are_enough():
    (one,) = trace("time,vcpus,memory_mb", "1.5,2,4096")
    assert (one.time, one.size, one.leaves_at) == (1.5, (2, 4096, 0), {})
    assert len(one.request.instance_uuids) == 1


def test_all_columns_in_any_order():
    names = "project,instances,lifetime,disk_gb,availability_zone,time,memory_mb,vcpus,flavor"
    (one,) = trace(names, "p1,3,60,20,zone1,100,8192,4,m1.large")
    assert one.size == (4, 8192, 20 * 1024)
    uuids = one.request.instance_uuids
    assert len({*uuids}) == 3
    assert one.leaves_at == dict.fromkeys(uuids, 160.0)
    spec = one.request.spec
    assert (spec.project_id, spec.availability_zone, spec.flavor.name) == (
        "p1",
        "zone1",
        "m1.large",
    )


def test_instances_without_a_lifetime_stay_and_empty_values_have_their_defaults():
    names = "time,vcpus,memory_mb,disk_gb,lifetime,instances,flavor"
    one, other = trace(names, "0,1,512,,,,", "0,1,512,0,0,2,m1")
    assert one.leaves_at == {}
    assert [*other.leaves_at.values()] == [0.0, 0.0]
    assert {*one.request.instance_uuids}.isdisjoint(other.request.instance_uuids)


def test_requests_that_ask_the_same_are_one_object():
    one, other, third = trace("time,vcpus,memory_mb", "0,1,512", "1,1,512", "2,1,513")
    assert one.request.spec.flavor is other.request.spec.flavor is not third.request.spec.flavor


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([""], "it has no column time, vcpus, memory_mb; there must be"),
        (["time,vcpus"], "it has no column memory_mb; there must be"),
        (["time,vcpus,memory_mb,ram"], "it has a column 'ram'"),
        (["time,vcpus,memory_mb", "0,1"], "row 1: memory_mb is '', not a whole number"),
        (["time,vcpus,memory_mb", ",1,2"], "row 1: there is no time"),
        (["time,vcpus,memory_mb", "soon,1,2"], "row 1: time is 'soon', not a number"),
        (["time,vcpus,memory_mb", "nan,1,2"], "row 1: time is 'nan'"),
        (["time,vcpus,memory_mb", "0,-1,2"], "row 1: vcpus is '-1', not a whole number"),
        (["time,vcpus,memory_mb", "0,1.5,2"], "row 1: vcpus is '1.5'"),
        (["time,vcpus,memory_mb", "0,1,99999999999"], "row 1: memory_mb is '99999999999'"),
        (["time,vcpus,memory_mb", "0,0,0"], "row 1: the instance needs no resources"),
        (
            ["time,vcpus,memory_mb", "5,1,2", "4,1,2"],
            "row 2: the time is earlier than in the line before",
        ),
        (["time,vcpus,memory_mb,lifetime", "5,1,2,-1"], "row 1: lifetime is -1, which is less"),
        (["time,vcpus,memory_mb,instances", "5,1,2,20000"], "row 1: instances is 20000, more"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(lines, cause):
    with pytest.raises(TraceError) as refused:
        trace(*lines)
    assert str(refused.value).startswith(cause)
