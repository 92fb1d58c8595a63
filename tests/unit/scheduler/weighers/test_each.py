# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the weighers one by one, with the figures of behaviour reference 2.3."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.cpu import CPUWeigher
from scheduler.weighers.cross_cell import CrossCellWeigher
from scheduler.weighers.disk import DiskWeigher
from scheduler.weighers.hypervisor_version import HypervisorVersionWeigher
from scheduler.weighers.image_properties import ImagePropertiesWeigher
from scheduler.weighers.io_ops import IoOpsWeigher
from scheduler.weighers.num_instances import NumInstancesWeigher
from scheduler.weighers.pci import PCIWeigher
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table


def totals(weigher, *hosts):
    """Return the weights of hosts that are given by their attributes."""
    table = a_table(*(a_host(f"h{i}", **attributes) for i, attributes in enumerate(hosts)))
    return weigh_hosts(table, a_request(), [weigher], np.arange(table.size)).totals.tolist()


@pytest.mark.parametrize(
    ("weigher", "attribute", "values", "expected"),
    [
        (RAMWeigher(), "free_ram_mb", [2048, 8192, 4096], [0.25, 1, 0.5]),
        (RAMWeigher(multiplier=-1.0), "free_ram_mb", [2048, 8192, 4096], [-0.25, -1, -0.5]),
        (RAMWeigher(), "free_ram_mb", [-1024, 3072, 1024], [0, 1, 1 / 3]),
        (RAMWeigher(), "free_ram_mb", [-1024, -2048, -1], [0, 0, 0]),
        (RAMWeigher(), "free_ram_mb", [4096] * 3, [1, 1, 1]),
        (DiskWeigher(), "free_disk_mb", [102400, 51200, 0], [1, 0.5, 0]),
        (DiskWeigher(multiplier=2.0), "free_disk_mb", [102400, 51200, -1], [2, 1, 0]),
        (IoOpsWeigher(), "num_io_ops", [0, 4, 8], [0, -0.5, -1]),
        (NumInstancesWeigher(multiplier=1.0), "num_instances", [2, 10, 6], [0, 1, 0.5]),
        (NumInstancesWeigher(multiplier=-1.0), "num_instances", [2, 10, 6], [0, -1, -0.5]),
        (NumInstancesWeigher(), "num_instances", [2, 10, 6], [0, 0, 0]),
    ],
)
def test_worked_cases(weigher, attribute, values, expected):
    assert totals(weigher, *({attribute: value} for value in values)) == pytest.approx(expected)


def test_cpus_count_with_their_over_commit():
    hosts = [
        {"vcpus_total": 8, "cpu_allocation_ratio": 4.0, "vcpus_used": 20},
        {"vcpus_total": 16, "cpu_allocation_ratio": 1.0, "vcpus_used": 4},
        {"vcpus_total": 4, "cpu_allocation_ratio": 2.0, "vcpus_used": 10},
        # A host that has not reported its ratio is no better than a full one.
        {"vcpus_total": 99, "cpu_allocation_ratio": None, "vcpus_used": 0},
    ]
    table = a_table(*(a_host(f"h{i}", **attributes) for i, attributes in enumerate(hosts)))
    assert CPUWeigher().weigh(table, a_request())[:3].tolist() == [12, 12, -2]
    assert totals(CPUWeigher(), *hosts) == [1, 1, 0, 0]


# Behaviour reference 2.2; the weighers that are missing here have tests of their own.
@pytest.mark.parametrize(
    ("weigher", "least", "multiplier", "key"),
    [
        (RAMWeigher(), 0, 1.0, "ram_weight_multiplier"),
        (CPUWeigher(), 0, 1.0, "cpu_weight_multiplier"),
        (DiskWeigher(), 0, 1.0, "disk_weight_multiplier"),
        (IoOpsWeigher(), 0, -1.0, "io_ops_weight_multiplier"),
        (NumInstancesWeigher(), None, 0.0, "num_instances_weight_multiplier"),
        (PCIWeigher(), None, 1.0, "pci_weight_multiplier"),
        (CrossCellWeigher(), None, 1000000.0, "cross_cell_move_weight_multiplier"),
        (HypervisorVersionWeigher(), None, 1.0, "hypervisor_version_weight_multiplier"),
        (ImagePropertiesWeigher(), None, 0.0, "image_props_weight_multiplier"),
    ],
)
def test_defaults_and_the_key_by_which_aggregates_change_them(weigher, least, multiplier, key):
    assert (weigher.minval, weigher.maxval, weigher.multiplier) == (least, None, multiplier)
    assert weigher.aggregate_key == key
    assert weigher.options[0] == ("multiplier", "filter_scheduler", key)
