# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts with few free PCI devices are preferred, whether or not any are asked for."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.pci import PCIWeigher
from tests.builders import a_request
from tests.devices import a_pool, all_of, devices, wanted
from tests.hosts import hosts_with, in_aggregates


def free(*numbers):
    """Return hosts with so many free devices; None is a host that has not reported."""
    return hosts_with(
        "pci_stats",
        {
            f"h{position}": None if number is None else devices(a_pool(number))
            for position, number in enumerate(numbers)
        },
    )


@pytest.mark.parametrize("requests", [None, all_of(wanted(1, {"vendor_id": "10de"}))])
@pytest.mark.parametrize(
    ("numbers", "raw", "scaled"),
    [
        # Behaviour reference 2.3.
        ((5, 0, None), [95, 100, 100], [0, 1, 1]),
        ((5, 10, 250), [95, 90, 1], [1, 0.9468, 0]),
        ((500, 2000), [1, 1], [0, 0]),
        ((99, 98, 100), [1, 2, 1], [0, 1, 0]),
    ],
)
def test_fewer_free_devices_weigh_more(numbers, raw, scaled, requests):
    table, spec = free(*numbers), a_request(pci_requests=requests)
    weigher = PCIWeigher()
    assert weigher.weigh(table, spec).tolist() == raw
    totals = weigh_hosts(table, spec, [weigher], np.arange(table.size)).totals
    assert totals.tolist() == pytest.approx(scaled, abs=1e-4)


def test_all_kinds_of_devices_count():
    pools = devices(a_pool(2), a_pool(3, dev_type="type-PF"), a_pool(4, vendor_id="10de"))
    table = hosts_with("pci_stats", {"h1": pools})
    assert PCIWeigher().weigh(table, a_request()).tolist() == [91]


def test_aggregates_change_the_multiplier():
    table = free(5, 0)
    table.set(1, "aggregates", in_aggregates("pci_weight_multiplier", ["3", "2"]))
    totals = weigh_hosts(table, a_request(), [PCIWeigher(multiplier=0.5)], np.arange(2)).totals
    assert totals.tolist() == [0, 2]


def test_what_is_taken_is_no_longer_free():
    table = free(5, 7)
    here = table.working_copy()
    here.set(1, "pci_stats", here.get(1, "pci_stats").consume([wanted(4)]))
    assert PCIWeigher().weigh(table, a_request()).tolist() == [95, 93]
    assert PCIWeigher().weigh(here, a_request()).tolist() == [95, 97]
