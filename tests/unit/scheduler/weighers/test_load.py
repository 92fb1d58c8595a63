# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the weighers for load (behaviour reference 2.3, 2.4)."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.build_failure import BuildFailureWeigher
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.disk import DiskWeigher
from scheduler.weighers.io_ops import IoOpsWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table, hosts_with, in_aggregates

KEY = "build_failure_weight_multiplier"


def totals(table, *weighers):
    return weigh_hosts(table, a_request(), weighers, np.arange(table.size)).totals.tolist()


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([0, 1, 3], [0, -1e6 / 3, -1e6]),
        # Only the difference counts.
        ([2, 2], [0, 0]),
        ([0, 0], [0, 0]),
    ],
)
def test_worked_cases(failures, expected):
    table = hosts_with("failed_builds", {f"h{i}": each for i, each in enumerate(failures)})
    assert totals(table, BuildFailureWeigher()) == pytest.approx(expected)


def test_the_multiplier_is_negated_after_it_was_looked_up():
    table = hosts_with("failed_builds", {"h1": 0, "h2": 1, "h3": 1})
    table.set(1, "aggregates", in_aggregates(KEY, ["5", "3"]))
    assert totals(table, BuildFailureWeigher(multiplier=7.0)) == [0, -3, -7]
    host = a_host(aggregates=in_aggregates(KEY, ["5", "3"]))
    weigher = BuildFailureWeigher(multiplier=7.0)
    assert [weigher.weight_multiplier(each) for each in (host, a_host())] == [-3, -7]
    assert weigher.options == (("multiplier", "filter_scheduler", KEY),)


def test_a_multiplier_of_0_leaves_it_out():
    table = hosts_with("failed_builds", {"h1": 0, "h2": 1})
    assert totals(table, BuildFailureWeigher(multiplier=0.0)) == [0, 0]


COMBINED = {
    "A": {"free_ram_mb": 8192, "vcpus_used": 20, "free_disk_mb": 204800, "num_io_ops": 2},
    "B": {"free_ram_mb": 16384, "vcpus_used": 50, "free_disk_mb": 102400, "num_io_ops": 0},
    "C": {"free_ram_mb": 4096, "vcpus_used": 10, "free_disk_mb": 409600, "num_io_ops": 4},
}


def test_the_combined_example():
    table = a_table(
        *(a_host(host, cpu_allocation_ratio=4.0, **more) for host, more in COMBINED.items())
    )
    newton = [RAMWeigher(), DiskWeigher(), IoOpsWeigher()]
    assert totals(table, *newton) == pytest.approx([0.5, 1.25, 0.25])
    weighers = [*newton, CPUWeigher(), BuildFailureWeigher()]
    expected = [1.3148, 1.5093, 1.25]
    assert totals(table, *weighers) == pytest.approx(expected, abs=1e-4)
    table.set(2, "failed_builds", 1)
    assert totals(table, *weighers) == pytest.approx([*expected[:2], -999998.75], abs=1e-4)
