# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the filters for vCPUs, memory and disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.objects.amounts import MAX_RATIO
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from tests.builders import a_request
from tests.hosts import a_host, a_table

AMOUNTS = st.integers(-(10**6), 10**6)
RATIOS = st.floats(0, 64) | st.none()
# Nova raises TypeError for a host that has never reported its ratio.
UNKNOWN = "but the allocation ratio of the host is not known"


def limits_after(rule, host, spec):
    """Return the verdict, and the limits that are left behind."""
    passes = rule.host_passes(host, spec)
    return passes, dict(host.limits)


@pytest.mark.parametrize(
    ("total", "free", "ratio", "request_mb", "expected", "reason"),
    [
        (4096, 1024, 1.0, 1024, 4096, None),
        (4096, 1023, 1.0, 1024, None, "needs 1024 MB of memory, 1023 left of 4096 x 1.0"),
        (4096, -1024, 1.5, 1024, 6144, None),
        (4096, -1025, 1.5, 1024, None, "needs 1024 MB of memory, 1023 left of 4096 x 1.5"),
        (2048, 2048, 4.0, 2049, None, "needs 2049 MB of memory, the host has only 2048"),
        (2048, 2047, 1.0, 2048, None, "needs 2048 MB of memory, 2047 left of 2048 x 1.0"),
        (4096, 4096, 0.5, 2049, None, "needs 2049 MB of memory, 2048 left of 4096 x 0.5"),
        (4096, 4096, None, 1024, None, "needs 1024 MB of memory, " + UNKNOWN),
        (0, 0, 1.0, 0, 0, None),
        (0, 0, 1.0, 1, None, "needs 1 MB of memory, the host has only 0"),
    ],
)
def test_ram_worked_cases(total, free, ratio, request_mb, expected, reason):
    host = a_host(total_usable_ram_mb=total, free_ram_mb=free, ram_allocation_ratio=ratio)
    spec = a_request(memory_mb=request_mb)
    passes, limits = limits_after(RamFilter(), host, spec)
    assert passes == (reason is None)
    assert limits == ({} if expected is None else {"memory_mb": expected})
    assert passes or RamFilter().reason(host, spec) == reason


@pytest.mark.parametrize(
    ("total", "used", "ratio", "request_vcpus", "limit", "reason"),
    [
        (8, 31, 4.0, 1, 32, None),
        # The limit is written for hosts that are refused, too.
        (8, 32, 4.0, 1, 32, "needs 1 vCPU, 0 left of 8 x 4.0"),
        (2, 0, 16.0, 3, 32, "needs 3 vCPUs, the host has only 2"),
        (0, 0, 16.0, 99, None, None),
        (None, 0, 16.0, 99, None, None),
        (8, 0, 0.0, 1, None, "needs 1 vCPU, 0 left of 8 x 0.0"),
        (3, 4, 1.5, 1, 4.5, "needs 1 vCPU, 0.5 left of 3 x 1.5"),
        (8, 0, None, 1, None, "needs 1 vCPU, " + UNKNOWN),
    ],
)
def test_core_worked_cases(total, used, ratio, request_vcpus, limit, reason):
    host = a_host(vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=ratio)
    spec = a_request(vcpus=request_vcpus)
    passes, limits = limits_after(CoreFilter(), host, spec)
    assert passes == (reason is None)
    assert limits == ({} if limit is None else {"vcpu": limit})
    assert passes or CoreFilter().reason(host, spec) == reason


@pytest.mark.parametrize(
    ("total", "free", "ratio", "sizes", "limit", "reason"),
    [
        (100, 51200, 1.0, (40, 10, 0), 100, None),
        (100, 51200, 1.0, (40, 10, 1), None, "needs 51201 MB of disk, 51200 left of 102400 x 1.0"),
        (100, 0, 1.5, (50, 0, 0), 150, None),
        (100, 102400, 2.0, (101, 0, 0), None, "needs 103424 MB of disk, the host has only 102400"),
        (100, -10240, 1.2, (10, 0, 0), 120, None),
        (100, -10240, 1.2, (11, 0, 0), None, "needs 11264 MB of disk, 10240 left of 102400 x 1.2"),
        (100, 102400, None, (1, 0, 0), None, "needs 1024 MB of disk, " + UNKNOWN),
    ],
)
def test_disk_worked_cases(total, free, ratio, sizes, limit, reason):
    host = a_host(total_usable_disk_gb=total, free_disk_mb=free, disk_allocation_ratio=ratio)
    spec = a_request(root_gb=sizes[0], ephemeral_gb=sizes[1], swap=sizes[2])
    passes, limits = limits_after(DiskFilter(), host, spec)
    assert passes == (reason is None)
    assert limits == ({} if limit is None else {"disk_gb": limit})
    assert passes or DiskFilter().reason(host, spec) == reason


def test_an_instance_that_boots_from_a_volume_needs_no_root_disk():
    # Nova charges it root_gb here and fits nothing on a host without local disk.
    host = a_host(total_usable_disk_gb=0, free_disk_mb=0)
    assert DiskFilter().host_passes(host, a_request(root_gb=40, is_bfv=True))
    assert not DiskFilter().host_passes(host, a_request(root_gb=40))


@given(AMOUNTS, AMOUNTS, RATIOS, st.integers(0, 10**6))
def test_ram_and_core_are_the_same_arithmetic(total, free, ratio, requested):
    ram = a_host(total_usable_ram_mb=total, free_ram_mb=free, ram_allocation_ratio=ratio)
    used = total - free
    core = a_host(vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=ratio)
    expected = ratio is not None and total >= requested and total * float(ratio) - used >= requested
    assert RamFilter().host_passes(ram, a_request(memory_mb=requested)) == expected
    assert CoreFilter().host_passes(core, a_request(vcpus=requested)) == (expected or total == 0)


@given(st.integers(0, 64), st.integers(0, 64), st.integers(0, 64))
def test_what_passed_and_was_consumed_is_within_the_limit(total, free, requested):
    # A ratio of 1: the limit is what the host has, and nothing may go below zero.
    table = a_table(a_host(total_usable_ram_mb=total, free_ram_mb=min(free, total)))
    spec = a_request(memory_mb=requested)
    passes = RamFilter().mask(table, spec)[0]
    assert passes == (min(free, total) >= requested)


@pytest.mark.parametrize(
    ("rule", "free", "reason"),
    [
        (RamFilter(), "free_ram_mb", "needs 1048577 MB of memory, 1048576 left of 2097152 x 1.0"),
        (DiskFilter(), "free_disk_mb", "needs 1048577 MB of disk, 1048576 left of 2097152 x 1.0"),
    ],
)
def test_a_reason_does_not_round_what_is_left(rule, free, reason):
    totals = {"total_usable_ram_mb": 2 * 1024**2, "total_usable_disk_gb": 2 * 1024}
    host = a_host(**totals, **{free: 1024**2})
    spec = a_request(memory_mb=1024**2 + 1, root_gb=1024, swap=1)
    assert not rule.host_passes(host, spec)
    assert rule.reason(host, spec) == reason


@pytest.mark.parametrize("rule", [RamFilter(), CoreFilter(), DiskFilter()])
def test_the_largest_ratio_neither_fails_nor_lets_one_instance_overfill_a_host(rule):
    ratios = dict.fromkeys(("cpu", "ram", "disk"), MAX_RATIO)
    host = a_host(**{f"{name}_allocation_ratio": ratio for name, ratio in ratios.items()})
    assert rule.host_passes(host, a_request())
    (most,) = host.limits.values()
    assert 1e100 < most < float("inf")
    assert not rule.host_passes(host, a_request(vcpus=17, memory_mb=65537, root_gb=1001))


def test_forgotten_rows_never_pass():
    table = a_table(a_host("h1"), a_host("h2"))
    table.remove(0)
    for rule in (RamFilter(), CoreFilter(), DiskFilter()):
        assert (table.present & rule.mask(table, a_request())).tolist() == [False, True]
