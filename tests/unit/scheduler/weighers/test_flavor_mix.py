# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers.flavor_mix."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.weighing import weigh_hosts
from scheduler.hosts.flavor_mix import make_mix
from scheduler.weighers import flavor_mix
from scheduler.weighers.flavor_mix import FlavorMixWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table

WEIGHER = FlavorMixWeigher(multiplier=1.0)
GB = 1024


def a_node(name="h1", cpu=(16, 16), ram=(64, 64), disk=(0, 0), **more):
    """Return a host with these vCPUs, GB of memory and GB of disk in all, and free."""
    return a_host(
        name,
        vcpus_total=cpu[0],
        vcpus_used=cpu[0] - cpu[1],
        total_usable_ram_mb=GB * ram[0],
        free_ram_mb=GB * ram[1],
        total_usable_disk_gb=disk[0],
        free_disk_mb=GB * disk[1],
        **more,
    )


def an_instance(vcpus, ram_gb, disk_gb=0):
    return a_request(vcpus=vcpus, memory_mb=GB * ram_gb, root_gb=disk_gb)


def a_fleet(*nodes, mix):
    table = a_table(*nodes)
    table.set_flavor_mix(
        make_mix({(cpu, GB * ram, GB * disk): share for (cpu, ram, disk), share in mix.items()})
    )
    return table


def best(table, spec):
    totals = weigh_hosts(table, spec, [WEIGHER], np.arange(table.size)).totals
    return table.get(int(np.argmax(totals)), "host")


def costs(table, spec):
    """Return what each host loses, without what breaks ties."""
    return (-WEIGHER.weigh(table, spec)).tolist()


def test_an_instance_goes_into_the_gap_that_is_of_no_use_otherwise():
    # 3 vCPUs and 8 GB are left on one host, as much as two flavors of 4 vCPUs on the other.
    gap, roomy = a_node("gap", cpu=(16, 3), ram=(64, 8)), a_node("roomy", cpu=(16, 8))
    for nodes in ((gap, roomy), (roomy, gap)):
        assert best(a_fleet(*nodes, mix={(4, 8, 0): 1}), an_instance(2, 4)) == "gap"


def test_a_copy_counts_by_its_share_of_requests_and_of_the_host():
    # The instance costs one copy of the first flavor, a quarter of the host, or the only one of
    # the second, all of it.
    table = a_fleet(a_node(cpu=(16, 16)), mix={(4, 4, 0): 3, (16, 16, 0): 1})
    expected = 0.75 * 4 / 16 + 0.25 * 16 / 16
    assert costs(table, an_instance(1, 1)) == pytest.approx([expected], abs=1e-5)


def test_the_resource_of_which_a_flavor_takes_most_says_how_much_of_the_host_that_is():
    table = a_fleet(a_node(disk=(100, 100)), mix={(1, 8, 50): 1})
    assert costs(table, an_instance(1, 1, 1)) == pytest.approx([0.5], abs=1e-5)


def test_over_commit_counts_but_never_for_more_than_there_is():
    lean = a_node(cpu_allocation_ratio=4.0)
    # 64 vCPUs may be in use, of which one flavor takes 16; the other does not fit on 16.
    table = a_fleet(lean, mix={(16, 1, 0): 1, (17, 1, 0): 1})
    assert costs(table, an_instance(1, 1)) == pytest.approx([0.5 * 16 / 64], abs=1e-5)


def test_what_fits_exactly_fits():
    # 0.1 is no number that a processor knows; 3 copies of 3 are 9 of 9.
    table = a_fleet(a_node(cpu=(9, 9)), mix={(3, 0, 0): 1})
    assert costs(table, an_instance(1, 0)) == pytest.approx([1 / 3], abs=1e-5)
    table = a_fleet(a_node(cpu=(30, 30), cpu_allocation_ratio=0.1), mix={(3, 0, 0): 1})
    assert costs(table, an_instance(1, 0)) == pytest.approx([1.0], abs=1e-5)


def test_of_hosts_that_cost_the_same_the_fuller_one_is_chosen():
    nodes = a_node("free", cpu=(16, 12), ram=(64, 48)), a_node("full", cpu=(16, 8), ram=(64, 32))
    for each in (nodes, nodes[::-1]):
        table = a_fleet(*each, mix={(4, 16, 0): 1})
        assert best(table, an_instance(4, 16)) == "full"
        # The same as long as nothing is known.
        table.set_flavor_mix(())
        assert best(table, an_instance(4, 16)) == "full"


def test_a_tie_never_outweighs_a_copy():
    # A flavor that hardly anybody asks for, and a host as empty as can be.
    full, empty = a_node("full", cpu=(1000, 2), ram=(64, 1)), a_node("empty", cpu=(1000, 1000))
    mix = {(2, 1, 0): 1, (1, 1, 0): 10**-3}
    assert best(a_fleet(full, empty, mix=mix), an_instance(1, 0)) == "empty"


@pytest.mark.parametrize(
    "odd",
    [
        {"cpu_allocation_ratio": None},
        {"cpu_allocation_ratio": 0.0},
        {"cpu_allocation_ratio": -1.0},
        {"cpu_allocation_ratio": 1e308},
        {"ram_allocation_ratio": float("inf")},
        {"vcpus_total": 0},
        {"vcpus_used": 40},
        {"free_ram_mb": -5000},
        {"total_usable_ram_mb": 0, "free_ram_mb": 0},
    ],
)
def test_an_odd_host_has_a_weight_and_does_not_change_those_of_others(odd):
    mix, spec = {(4, 8, 0): 1, (1, 2, 0): 2}, an_instance(2, 4)
    host = a_node("odd")
    for name, value in odd.items():
        setattr(host, name, value)
    found = WEIGHER.weigh(a_fleet(host, a_node("even"), mix=mix), spec)
    assert np.isfinite(found).all()
    assert found[1:].tolist() == WEIGHER.weigh(a_fleet(a_node("even"), mix=mix), spec).tolist()


AMOUNTS = st.integers(0, 40)
SIZES = st.tuples(AMOUNTS, AMOUNTS, AMOUNTS)
RATIOS = st.sampled_from([0.5, 1.0, 1.1, 1.5, 16.0])


@st.composite
def nodes(draw, name):
    totals, free = draw(SIZES), draw(st.tuples(*[st.integers(-3, 40)] * 3))
    ratios = dict(zip(RATIO_NAMES, (draw(RATIOS) for _ in RATIO_NAMES), strict=True))
    return a_node(name, *zip(totals, free, strict=True), **ratios)


RATIO_NAMES = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")


def by_definition(host, size, mix):
    """Return the cost of a host as the reference page defines it."""
    totals = host.vcpus_total, host.total_usable_ram_mb, 1024 * host.total_usable_disk_gb
    used = host.vcpus_used, totals[1] - host.free_ram_mb, totals[2] - host.free_disk_mb
    limits = [
        int(total * getattr(host, name)) for total, name in zip(totals, RATIO_NAMES, strict=True)
    ]

    def fitting(flavor, taken):
        free = [most - one - more for most, one, more in zip(limits, used, taken, strict=True)]
        if any(each > total for each, total in zip(flavor, totals, strict=True)) or min(free) < 0:
            return 0
        return min(one // each for one, each in zip(free, flavor, strict=True) if each)

    cost = 0
    for each in mix:
        share = max(
            (Fraction(need, most) for need, most in zip(each.size, limits, strict=True) if most),
            default=0,
        )
        lost = fitting(each.size, (0, 0, 0)) - fitting(each.size, size)
        cost += lost * share * Fraction(each.share)
    return float(cost)


@given(
    st.lists(nodes("h"), min_size=1, max_size=3),
    st.dictionaries(SIZES, st.floats(0.1, 10), min_size=1, max_size=6),
    SIZES,
)
def test_the_cost_is_the_copies_that_are_lost(hosts, mix, size):
    table = a_table(*(a_host(f"h{place}") for place, _ in enumerate(hosts)))
    for row, host in enumerate(hosts):
        for name in (*FlavorMixWeigher.reads[:-1],):
            table.set(row, name, getattr(host, name))
    table.set_flavor_mix(
        make_mix({(cpu, GB * ram, GB * disk): each for (cpu, ram, disk), each in mix.items()})
    )
    found = costs(table, an_instance(*size))
    needs = size[0], GB * size[1], GB * size[2]
    expected = [by_definition(host, needs, table.flavor_mix) for host in hosts]
    # Costs are rounded to units of which there are a million.
    assert found == pytest.approx(expected, abs=1e-4)


def test_blocks_change_nothing(monkeypatch):
    table = a_fleet(
        *(a_node(f"h{free}", cpu=(16, free), ram=(64, 64 - free)) for free in range(17)),
        mix={(2, 4, 0): 2, (4, 4, 0): 1, (1, 8, 0): 1},
    )
    whole = WEIGHER.weigh(table, an_instance(1, 2)).tolist()
    monkeypatch.setattr(flavor_mix, "_BLOCK", 3)
    assert WEIGHER.weigh(table, an_instance(1, 2)).tolist() == whole


def test_another_mix_is_noticed():
    table = a_fleet(*(a_node(f"h{number}") for number in range(9)), mix={(4, 8, 0): 1})
    weigher, spec = FlavorMixWeigher(multiplier=1.0), an_instance(2, 4)
    first = weigher.weigh(table, spec).tolist()
    copy = table.working_copy()
    copy.set_flavor_mix(make_mix({(1, 2 * GB, 0): 1.0}))
    assert weigher.weigh(copy, spec).tolist() != first
    assert weigher.weigh(table, spec).tolist() == first


def test_it_is_off_unless_it_is_switched_on():
    assert FlavorMixWeigher().multiplier == 0.0
    assert FlavorMixWeigher.aggregate_key == "flavor_mix_weight_multiplier"
    assert FlavorMixWeigher.options == (("multiplier", "flavor_mix", "weight_multiplier"),)


def test_of_many_hosts_those_that_have_changed_are_weighed_anew(monkeypatch):
    monkeypatch.setattr(flavor_mix, "_MANY", 1)
    table = a_fleet(*(a_node(f"h{number}") for number in range(9)), mix={(4, 8, 0): 1})
    weigher, fresh = FlavorMixWeigher(multiplier=1.0), FlavorMixWeigher(multiplier=1.0)
    for number in range(12):
        table.set(number % 9, "vcpus_used", 15 - number)
        for spec in (an_instance(2, 4), an_instance(1 + number, 4)):
            fresh._last = {}
            assert weigher.weigh(table, spec).tolist() == fresh.weigh(table, spec).tolist()
    assert len(weigher._last) == flavor_mix._KEPT
    table.add("new", "new")
    assert len(weigher.weigh(table, an_instance(2, 4))) == 10
