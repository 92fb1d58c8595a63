# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.exact_resources, exact_core and exact_disk."""

import pytest

from scheduler.filters.exact_resources import ExactCoreFilter, ExactDiskFilter, ExactRamFilter
from tests.builders import a_request
from tests.hosts import a_host, a_table


def judged(rule, host, spec):
    """Return the limits that a host which passes gets, else why it does not."""
    if rule.host_passes(host, spec):
        return dict(host.limits)
    assert dict(host.limits) == {}
    return rule.reason(host, spec)


@pytest.mark.parametrize(
    ("free", "request_mb", "expected"),
    [
        (1024, 1024, {"memory_mb": 65536}),
        (2048, 1024, "needs exactly 1024 MB of memory, 2048 are free"),
        (512, 1024, "needs exactly 1024 MB of memory, 512 are free"),
        (-1, 0, "needs exactly 0 MB of memory, -1 are free"),
        (0, 0, {"memory_mb": 65536}),
        (None, 1024, "needs exactly 1024 MB of memory, 0 are free"),
    ],
)
def test_ram_worked_cases(free, request_mb, expected):
    # Ratios do not count, nor does what aggregates say.
    host = a_host(free_ram_mb=free, ram_allocation_ratio=2.0)
    assert judged(ExactRamFilter(), host, a_request(memory_mb=request_mb)) == expected


@pytest.mark.parametrize(
    ("total", "used", "vcpus", "expected"),
    [
        (8, 4, 4, {"vcpu": 8}),
        (8, 4, 3, "needs exactly 3 vCPUs, 4 free of 8"),
        (8, 4, 5, "needs exactly 5 vCPUs, 4 free of 8"),
        (8, 8, 0, {"vcpu": 8}),
        # The opposite of CoreFilter.
        (0, 0, 0, "needs exactly 0 vCPUs, the host reports 0 CPUs"),
        (None, 0, 0, "needs exactly 0 vCPUs, the host reports 0 CPUs"),
        (0, -2, 2, "needs exactly 2 vCPUs, the host reports 0 CPUs"),
        # Nova lets a negative count pass if the figures match.
        (-2, -4, 2, "needs exactly 2 vCPUs, the host reports -2 CPUs"),
    ],
)
def test_core_worked_cases(total, used, vcpus, expected):
    host = a_host(vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=2.0)
    assert judged(ExactCoreFilter(), host, a_request(vcpus=vcpus)) == expected


@pytest.mark.parametrize(
    ("free", "sizes", "expected"),
    [
        (11264, {"root_gb": 10, "swap": 1024}, {"disk_gb": 1000}),
        (11264, {"root_gb": 8, "ephemeral_gb": 2, "swap": 1024}, {"disk_gb": 1000}),
        (11264, {"root_gb": 10}, "needs exactly 10240 MB of disk, 11264 are free"),
        (10240, {"root_gb": 10, "swap": 1}, "needs exactly 10241 MB of disk, 10240 are free"),
        # The root disk of an instance that boots from a volume is not on the host.
        (1024, {"root_gb": 10, "swap": 1024, "is_bfv": True}, {"disk_gb": 1000}),
        (None, {"root_gb": 1}, "needs exactly 1024 MB of disk, 0 are free"),
    ],
)
def test_disk_worked_cases(free, sizes, expected):
    host = a_host(free_disk_mb=free, disk_allocation_ratio=2.0)
    assert judged(ExactDiskFilter(), host, a_request(**sizes)) == expected


@pytest.mark.parametrize("rule", [ExactRamFilter(), ExactCoreFilter(), ExactDiskFilter()])
def test_a_host_passes_once(rule):
    table = a_table(a_host("h1"), a_host("h2"))
    spec = a_request(memory_mb=65536, vcpus=16, root_gb=1000)
    assert rule.mask(table, spec).tolist() == [True, True]
    table.set(0, "free_ram_mb", 0)
    table.set(0, "free_disk_mb", 0)
    table.set(0, "vcpus_used", 16)
    assert rule.mask(table, spec).tolist() == [False, True]
    assert rule.run_filter_for_index(1)
