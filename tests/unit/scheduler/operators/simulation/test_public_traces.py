# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.public_traces."""

import pytest

from scheduler.operators.simulation.arrival import TraceError
from scheduler.operators.simulation.public_traces import (
    AZURE,
    Machine,
    azure_rows,
    is_public,
    read_public,
)
from scheduler.operators.simulation.trace_rows import REQUIRED, Row

MACHINE = Machine(100, 100_000, 1000)
OPENB = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
    *("creation_time", "deletion_time", "scheduled_time"),
)
GOOGLE = (
    *("time", "type", "collection_id", "instance_index", "alloc_collection_id"),
    *("resource_request.cpus", "resource_request.memory"),
)
DAY = 86_400


def read(names, *lines, machine=MACHINE):
    """Return (time, size, time until it leaves) of the arrivals of rows."""
    rows = [
        Row(f"row {index}", dict(zip(names, line, strict=True))) for index, line in enumerate(lines)
    ]
    found = [*read_public(names, rows, machine)]
    assert len({each.request.instance_uuids[0] for each in found}) == len(found)
    return [(each.time, each.size, *each.leaves_at.values()) for each in found]


def test_own_columns_are_no_public_format():
    assert not is_public(REQUIRED)
    assert not is_public(["time", "type"])
    assert is_public([*AZURE, "priority"])


def test_azure_counts_days_and_shares_of_a_machine():
    found = read(
        AZURE,
        ("8", "t1", "-0.5", "", "0.5", "0.25", "", "0.1"),
        ("8", "t1", "0.5", "1.5", "0.125", "0.0001", "0.2", "0.1"),
    )
    assert found == [
        (-0.5 * DAY, (50, 25_000, 100 * 1024)),
        # Not a whole vCPU is one, and of two disks the larger share counts.
        (0.5 * DAY, (13, 10, 200 * 1024), 1.5 * DAY),
    ]


def test_types_of_azure_are_sized_by_the_generation_that_most_of_them_have():
    sizes = [("1", "9", "0.5"), ("1", "7", "0.25"), ("2", "7", "0.125"), ("3", "8", "1.0")]
    types = [dict(zip(("vmTypeId", "machineId", "core"), each, strict=True)) for each in sizes]
    vms = [{"vmTypeId": each, "tenantId": "t"} for each in ("3", "1", "2")]
    found = [*azure_rows(types, vms)]
    assert [(row.place, row.values["core"]) for row in found] == [
        ("VM 1", "1.0"),
        ("VM 2", "0.25"),
        ("VM 3", "0.125"),
    ]
    with pytest.raises(TraceError, match="VM 1: there is no type '4'"):
        [*azure_rows(types, [{"vmTypeId": "4"}])]


def test_pods_of_openb_count_thousandths_of_a_cpu_and_come_in_order():
    found = read(
        OPENB,
        ("p2", "6000", "12288", "1", "460", "", "LS", "Running", "427061", "12902960", "427061"),
        ("p1", "12001", "16384", "1", "1000", "", "LS", "Running", "0", "", "0"),
        machine=None,
    )
    assert found == [(0, (13, 16384, 0)), (427061, (6, 12288, 0), 12902960)]


def test_tasks_of_google_are_there_from_their_first_event_to_their_end():
    found = read(
        GOOGLE,
        # An end that comes before its beginning in the file.
        ("9000000", "6", "1", "0", "0", "0.02", "0.01"),
        ("5000000", "0", "1", "0", "0", "0.02", "0.01"),
        ("6000000", "3", "1", "0", "0", "0.02", "0.01"),
        # Evicted, and submitted again.
        ("7000000", "SUBMIT", "1", "1", "", "0.5", "0.25"),
        ("8000000", "EVICT", "1", "1", "", "0.5", "0.25"),
        ("8000000", "SUBMIT", "1", "1", "", "0.5", "0.25"),
        # In what another has reserved, and without a size.
        ("1000000", "0", "2", "0", "77", "0.5", "0.25"),
        ("1000000", "6", "3", "0", "0", "", ""),
    )
    assert found == [(5, (2, 1000, 0), 9), (7, (50, 25_000, 0))]


@pytest.mark.parametrize(
    ("names", "line", "cause"),
    [
        (AZURE, ("8", "t", "", "1", "0.5", "0.5", "", ""), "row 0: there is no starttime"),
        (AZURE, ("8", "t", "2", "1", "0.5", "0.5", "", ""), "row 0: it ends before it begins"),
        (AZURE, ("8", "t", "2", "", "-1", "0.5", "", ""), "row 0: core is -1, not a share"),
        (AZURE, ("8", "t", "2", "", "half", "0.5", "", ""), "row 0: core is 'half', not a number"),
        (AZURE, ("8", "t", "2", "", "0", "0", "", ""), "row 0: the instance needs no resources"),
        (GOOGLE, ("", "0", "1", "0", "0", "1", "1"), "row 0: there is no time"),
        (GOOGLE, ("1", "0", "1", "0", "0", "2000", "1"), "row 0: resource_request.cpus is 2000"),
        (OPENB, ("p", "x", *9 * ["0"]), "row 0: cpu_milli is 'x', not a whole number"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(names, line, cause):
    with pytest.raises(TraceError) as refused:
        read(names, line)
    assert str(refused.value).startswith(cause)


@pytest.mark.parametrize("names", [AZURE, GOOGLE])
def test_shares_mean_nothing_without_a_machine(names):
    with pytest.raises(TraceError, match="say with --machine what a whole machine has"):
        read(names, machine=None)
