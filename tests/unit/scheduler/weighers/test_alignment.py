# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers.alignment."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.weighing import weigh_hosts
from scheduler.weighers.alignment import AlignmentWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table

WEIGHER = AlignmentWeigher(multiplier=1.0)
EMPTY = {
    "vcpus_total": 10,
    "vcpus_used": 0,
    "total_usable_ram_mb": 1000,
    "free_ram_mb": 1000,
    "total_usable_disk_gb": 1,
    "free_disk_mb": 1024,
}


def cosine(need, free, **host):
    """Return the weight of a host of which these shares are free for such shares of need."""
    cpu, ram, disk = free
    host = (
        EMPTY
        | {
            "vcpus_used": 10 - round(10 * cpu),
            "free_ram_mb": round(1000 * ram),
            "free_disk_mb": round(1024 * disk),
        }
        | host
    )
    cpu, ram, disk = need
    spec = a_request(
        vcpus=round(10 * cpu), memory_mb=round(1000 * ram), root_gb=0, swap=round(1024 * disk)
    )
    return WEIGHER.weigh(a_table(a_host(**host)), spec)[0]


@pytest.mark.parametrize(
    ("need", "free", "expected"),
    [
        ((0.5, 0.5, 0.5), (1, 1, 1), 1),
        ((0.1, 0.1, 0), (1, 1, 0), 1),
        ((0.1, 0, 0), (0, 1, 0), 0),
        ((0.1, 0, 0), (1, 1, 0), 1 / math.sqrt(2)),
        ((0.3, 0.4, 0), (0.4, 0.3, 0), 24 / 25),
        ((0, 0, 0.5), (0, 0, 1), 1),
        # The length of neither vector matters, only where they point.
        ((0.1, 0.2, 0), (0.2, 0.4, 0), 1),
        ((0.1, 0.1, 0.1), (0, 0, 0), 0),
        ((0, 0, 0), (1, 1, 1), 0),
    ],
)
def test_the_weight_is_the_cosine_of_need_and_free_room(need, free, expected):
    assert cosine(need, free) == pytest.approx(expected)


def test_capacity_counts_with_its_over_commit():
    # 16 of 40 vCPUs and 1000 of 2000 MB are needed; 38 of 40 and 1000 of 2000 are free.
    host = a_host(**EMPTY | {"vcpus_used": 2, "free_ram_mb": 0}, cpu_allocation_ratio=4.0)
    host.ram_allocation_ratio = 2.0
    found = WEIGHER.weigh(host.table, a_request(vcpus=16, memory_mb=1000, root_gb=0))[0]
    need, free = (0.4, 0.5, 0.0), (0.95, 0.5, 1.0)
    product = sum(one * other for one, other in zip(need, free, strict=True))
    assert found == pytest.approx(product / math.hypot(*need) / math.hypot(*free))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        # What is overfilled has nothing free rather than less than nothing.
        ({"vcpus_used": 30}, 0),
        ({"free_ram_mb": -5000}, 1),
        # A resource without capacity is neither needed nor free.
        ({"total_usable_ram_mb": 0}, 1),
        ({"ram_allocation_ratio": None}, 1),
        ({"ram_allocation_ratio": 0.0}, 1),
        ({"ram_allocation_ratio": -1.0}, 1),
        ({"vcpus_total": 0}, 0),
        ({"vcpus_total": 0, "ram_allocation_ratio": None, "disk_allocation_ratio": None}, 0),
        ({"cpu_allocation_ratio": 1e308}, 0),
        ({"cpu_allocation_ratio": 5e-324}, 0),
        ({"cpu_allocation_ratio": math.inf}, 0),
        ({"ram_allocation_ratio": math.inf}, 1),
    ],
)
def test_odd_hosts(host, expected):
    assert cosine((0.5, 0, 0), (1, 0 if "free_ram_mb" not in host else 1, 0), **host) == expected


def test_an_instance_goes_where_most_is_left_of_what_it_needs_most():
    table = a_table(
        a_host("cpu", vcpus_used=2, free_ram_mb=8192, total_usable_disk_gb=0),
        a_host("empty", total_usable_disk_gb=0),
        a_host("ram", vcpus_used=14, free_ram_mb=57344, total_usable_disk_gb=0),
    )
    for spec, expected in (
        (a_request(vcpus=4, memory_mb=1024, root_gb=0), 0),
        (a_request(vcpus=1, memory_mb=16384, root_gb=0), 2),
    ):
        totals = weigh_hosts(table, spec, [WEIGHER], np.arange(3)).totals
        assert int(np.argmax(totals)) == expected
        assert totals.max() == 1


SHARES = st.tuples(*[st.integers(0, 10).map(lambda share: share / 10)] * 3)


@given(SHARES, SHARES)
def test_it_is_between_0_and_1_and_equals_the_formula(need, free):
    found = cosine(need, free)
    assert 0 <= found <= 1 + 1e-9
    # Disk is counted in whole MB of 1024.
    need, free = ((*each[:2], round(1024 * each[2]) / 1024) for each in (need, free))
    lengths = math.hypot(*need) * math.hypot(*free)
    product = sum(one * other for one, other in zip(need, free, strict=True))
    assert found == pytest.approx(product / lengths if lengths else 0.0)


def test_it_is_off_unless_it_is_switched_on():
    assert AlignmentWeigher().multiplier == 0.0
    assert AlignmentWeigher.aggregate_key == "alignment_weight_multiplier"
    assert AlignmentWeigher.options == (("multiplier", "alignment", "weight_multiplier"),)
