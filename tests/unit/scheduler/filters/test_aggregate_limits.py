# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.aggregate_limits, aggregate_core and aggregate_disk."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.filters import BaseHostFilter
from scheduler.filters.aggregate_limits import (
    AggregateCoreFilter,
    AggregateDiskFilter,
    AggregateRamFilter,
)
from scheduler.filters.core import CoreFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from tests.builders import a_request
from tests.hosts import a_host, a_table, an_aggregate, in_aggregates


@dataclass
class Full:
    """How a host of 4096 MB, 4 CPUs or 4 GB is full, and what asks for a quarter of it more."""

    rule: BaseHostFilter
    plain: BaseHostFilter
    key: str
    limit: str
    total: int
    host: dict
    request: dict
    reason: str

    def hosted(self, values, ratio=1.0):
        aggregates = in_aggregates(self.key, values)
        return a_host(aggregates=aggregates, **self.host, **{self.key: ratio})


RAM = Full(
    AggregateRamFilter(),
    RamFilter(),
    "ram_allocation_ratio",
    "memory_mb",
    4096,
    {"total_usable_ram_mb": 4096, "free_ram_mb": 0},
    {"memory_mb": 1024},
    "needs 1024 MB of memory, {} left of 4096 x {}",
)
CORE = Full(
    AggregateCoreFilter(),
    CoreFilter(),
    "cpu_allocation_ratio",
    "vcpu",
    4,
    {"vcpus_total": 4, "vcpus_used": 4},
    {"vcpus": 1},
    "needs 1 vCPU, {} left of 4 x {}",
)
DISK = Full(
    AggregateDiskFilter(),
    DiskFilter(),
    "disk_allocation_ratio",
    "disk_gb",
    4,
    {"total_usable_disk_gb": 4, "free_disk_mb": 0},
    {"root_gb": 1},
    "needs 1024 MB of disk, {} left of 4096 x {}",
)
each_resource = pytest.mark.parametrize(
    "full", [pytest.param(each, id=each.limit) for each in (RAM, CORE, DISK)]
)


@each_resource
@pytest.mark.parametrize(
    ("values", "ratio"),
    [
        (["2.0"], 2.0),
        (["1.5", "2.0"], 1.5),
        # Compared as numbers: as texts '10' would be the smaller.
        (["10", "9"], 9.0),
        ([" 1.25 "], 1.25),
        # Nova ignores the good value beside a bad one.
        (["abc", "3"], 3.0),
        (["nan", "3"], 3.0),
    ],
)
def test_worked_cases_that_pass(full, values, ratio):
    host = full.hosted(values)
    assert full.rule.host_passes(host, a_request(**full.request))
    assert dict(host.limits) == {full.limit: full.total * ratio}


@each_resource
@pytest.mark.parametrize(
    ("values", "ratio"),
    [
        ([], 1.0),
        (["abc"], 1.0),
        (["2,3"], 1.0),
        # They are no numbers; Nova takes them for some that nothing fits.
        (["nan"], 1.0),
        (["inf"], 1.0),
        (["-1"], -1.0),
        (["-1", "16"], -1.0),
        (["0"], 0.0),
        (["1.2"], 1.2),
    ],
)
def test_worked_cases_that_fail(full, values, ratio):
    host, spec = full.hosted(values), a_request(**full.request)
    assert not full.rule.host_passes(host, spec)
    # That of vCPUs is written for hosts that are refused, too, unless there is none.
    written = full is CORE and ratio > 0
    assert dict(host.limits) == ({"vcpu": 4 * ratio} if written else {})
    total = 4 if full is CORE else 4096
    left = f"{total * ratio - total:.15g}"
    assert full.rule.reason(host, spec) == full.reason.format(left, ratio)


@each_resource
def test_a_bad_value_is_named(full):
    table = a_table(full.hosted(["abc", "3", "2,3"]))
    full.rule.mask(table, a_request())
    assert list(table.warnings) == [
        f"aggregate metadata {full.key} = '2,3' is not a number and is ignored",
        f"aggregate metadata {full.key} = 'abc' is not a number and is ignored",
    ]


@each_resource
def test_a_host_without_a_known_ratio_has_that_of_its_aggregates_or_is_refused(full):
    spec = a_request(**full.request)
    assert full.rule.host_passes(full.hosted(["2"], ratio=None), spec)
    host = full.hosted([], ratio=None)
    assert not full.rule.host_passes(host, spec)
    assert full.rule.reason(host, spec).endswith(
        ", but the allocation ratio of the host is not known"
    )


@each_resource
def test_the_largest_ratio_lets_no_instance_exceed_its_host(full):
    host = full.hosted(["1e308"])
    spec = a_request(vcpus=5, memory_mb=4097, root_gb=5)
    assert not full.rule.host_passes(host, spec)
    more = {"vcpu": "5 vCPUs", "memory_mb": "4097 MB of memory", "disk_gb": "5120 MB of disk"}
    has = 4 if full is CORE else 4096
    assert full.rule.reason(host, spec) == f"needs {more[full.limit]}, the host has only {has}"


@each_resource
def test_each_host_has_the_ratio_of_its_own_aggregates(full):
    table = a_table(
        a_host("h1", aggregates=in_aggregates(full.key, ["2"]), **full.host),
        a_host("h2", aggregates=[an_aggregate(other="2")], **full.host),
        a_host("h3", aggregates=None, **full.host),
        a_host("h4", aggregates=in_aggregates(full.key, ["0.5"]), **full.host),
    )
    spec = a_request(**full.request)
    assert full.rule.mask(table, spec).tolist() == [True, False, False, False]
    assert not full.plain.mask(table, spec).any()


def test_a_host_without_cpus_passes_without_a_limit_whatever_its_aggregates_say():
    host = a_host(vcpus_total=0, aggregates=in_aggregates("cpu_allocation_ratio", ["2"]))
    assert AggregateCoreFilter().host_passes(host, a_request(vcpus=99))
    assert dict(host.limits) == {}


@each_resource
@given(st.lists(st.floats(-4, 32), max_size=3), st.floats(0, 16), st.integers(0, 64))
def test_it_is_the_plain_filter_with_the_smallest_ratio(full, ratios, own, quarters):
    # Of 0.0 and -0.0 either may be the smallest.
    ratios, own = [ratio + 0.0 for ratio in ratios], own + 0.0
    values = [repr(ratio) for ratio in ratios]
    spec = a_request(vcpus=quarters, memory_mb=1024 * quarters, root_gb=quarters)
    host, plain = full.hosted(values, own), full.hosted([], min(ratios, default=own))
    passes = full.rule.host_passes(host, spec)
    assert passes == full.plain.host_passes(plain, spec)
    assert dict(host.limits) == dict(plain.limits)
    assert full.rule.reason(host, spec) == full.plain.reason(plain, spec)
