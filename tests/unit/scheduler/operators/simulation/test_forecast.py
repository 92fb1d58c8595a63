# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.simulation.forecast: fleets that grow, shrink, or both."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, decide
from scheduler.filters.core import CoreFilter
from scheduler.filters.io_ops import IoOpsFilter
from scheduler.filters.ram import RamFilter
from scheduler.objects.instance import Instance
from scheduler.operators.capacity import Simulator
from scheduler.operators.simulation.fleet import HostKind, make_hosts
from scheduler.operators.simulation.forecast import SizeGrowth, forecast, has_host, rows_by_size
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request

HALF = a_request(vcpus=4, memory_mb=8192, root_gb=0)
WHOLE = a_request(vcpus=8, memory_mb=16384, root_gb=0)
# So many that what is drawn is what was counted, nearly.
MANY = 1e6


def a_simulator(*filters, multiplier=1.0):
    plan = Plan(filters or [RamFilter(), CoreFilter()], [RAMWeigher(multiplier=multiplier)])
    return Simulator(lambda hosts, request: decide(hosts, request, plan), plan)


BOUND = RamFilter(), IoOpsFilter(most=1)
SPREAD, STACK = a_simulator(), a_simulator(multiplier=-1.0)


def a_growth(spec, come=0.0, left=0.0):
    """Return a growth that is known exactly, in instances a day."""
    return SizeGrowth(spec, round(come * MANY), MANY, round(left * MANY), MANY)


def two_hosts():
    return make_hosts([HostKind(2, 8, 16384, 0)])


def ends(growth, asked, simulator=SPREAD, hosts=None, days=30, seed=0):
    hosts = hosts or two_hosts()
    return forecast(hosts.working_copy(), growth, asked, simulator, days, seed, rows_by_size(hosts))


def full_of(spec, count):
    """Return two hosts with so many instances on the first."""
    hosts = two_hosts()
    for number in range(count):
        instance = Instance(f"u{number}", vcpus=spec.vcpus, memory_mb=spec.memory_mb, root_gb=0)
        hosts.instances.add(0, instance.uuid, instance)
    hosts.set(0, "vcpus_used", count * spec.vcpus)
    hosts.set(0, "free_ram_mb", 16384 - count * spec.memory_mb)
    return hosts


def test_a_fleet_that_grows_is_full_after_a_while():
    growth = [a_growth(HALF, come=1)]
    half, whole = ends(growth, [HALF, WHOLE])
    # The fourth of those that come at one a day is there on the fourth day, rounded.
    assert 3.4 < half < 5
    # When there is one on each host, no whole one has room.
    assert 1.4 < whole < 2.6
    # One after the other on the same host leaves the other one free.
    (whole,) = ends(growth, [WHOLE], STACK)
    assert 2.4 < whole < 3.8


def test_what_does_not_end_within_the_days_has_no_end():
    assert ends([a_growth(HALF, come=0.1)], [HALF]) == [math.inf]
    assert ends([], [HALF]) == [math.inf]


def test_what_has_no_host_now_ends_now():
    huge = a_request(vcpus=9, memory_mb=1, root_gb=0)
    assert ends([a_growth(HALF, come=1)], [huge]) == [0.0]


def test_instances_that_leave_make_room_for_those_that_come():
    hosts = full_of(WHOLE, 1)
    growth = [a_growth(WHOLE, left=1), a_growth(HALF, come=1)]
    (half,) = ends(growth, [HALF], hosts=hosts)
    # Room for two, and for two more once the other has left.
    assert 3.4 < half < 5
    # More than there are cannot leave, and as many as come and leave make no growth.
    assert ends([a_growth(WHOLE, left=50)], [WHOLE], hosts=hosts) == [math.inf]
    assert ends([a_growth(HALF, come=5, left=5)], [HALF], days=20) == [math.inf]


def test_no_new_instance_counts_as_being_built():
    simulator = a_simulator(*BOUND)
    assert ends([a_growth(HALF, come=0.1)], [HALF], simulator) == [math.inf]
    # Also when four come in one step.
    (half,) = ends([a_growth(HALF, come=1000)], [HALF], a_simulator(*BOUND), days=60)
    assert 0 < half < 0.1


def test_the_fewer_were_counted_the_wider_is_the_range():
    few, many = SizeGrowth(HALF, 4, 8.0, 1, 1.0), SizeGrowth(HALF, 4000, 8000.0, 1000, 1000.0)
    assert few.a_day == many.a_day == -0.5
    draws = [
        [each.draw(np.random.default_rng(seed)) for seed in range(300)] for each in (few, many)
    ]
    assert np.std(draws[0]) > 10 * np.std(draws[1])
    assert np.mean(draws[1]) == pytest.approx(-0.5, abs=0.05)
    assert few.draw(np.random.default_rng(7)) == few.draw(np.random.default_rng(7))


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=2, max_size=2),
    st.integers(0, 2),
    st.integers(0, 9),
)
def test_hosts_never_have_less_than_nothing_nor_more_than_all(rates, count, seed):
    hosts = full_of(HALF, count)
    growth = [a_growth(spec, *rate) for spec, rate in zip((HALF, WHOLE), rates, strict=True)]
    copy = hosts.working_copy()
    found = forecast(copy, growth, [HALF, WHOLE], SPREAD, 10, seed, rows_by_size(hosts))
    assert found[1] <= found[0]
    assert all(0 <= copy.get(row, "free_ram_mb") <= 16384 for row in copy.rows())
    assert all(0 <= copy.get(row, "vcpus_used") <= 8 for row in copy.rows())
    assert has_host(hosts, HALF, SPREAD)
