# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What every installed driver keeps, and the drivers that are little more than that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import CachingScheduler, FakeScheduler, FilterScheduler
from scheduler.drivers.multi import MultiScheduler
from scheduler.drivers.simple import SimpleScheduler
from scheduler.filters.ram import RamFilter
from scheduler.weighers.ram import RAMWeigher
from tests.builders import IMAGE, a_request
from tests.contract.drawn import hosts, requests
from tests.contract.drawn.drawn_hosts import HOSTS
from tests.hosts import a_host, a_table

PLAN = Plan([RamFilter()], [RAMWeigher()], host_subset_size=2)
FILTERING, LOTS = FilterScheduler(PLAN), ChanceScheduler(PLAN)
COUNTING = SimpleScheduler(PLAN, isolated_images=[IMAGE], isolated_hosts=["h1"], max_cores=8)
DRIVERS = [
    FILTERING,
    CachingScheduler(PLAN),
    LOTS,
    COUNTING,
    MultiScheduler(PLAN, compute=COUNTING, volume=LOTS, default=FILTERING),
]
NAMED = st.none() | st.lists(st.sampled_from([*HOSTS, "gone"]), max_size=2)


def driver_name(driver):
    return type(driver).__name__


@st.composite
def wishes(draw):
    """Draw a request as a caller may send it, for one or several instances."""
    spec = draw(requests())
    spec.ignore_hosts, spec.force_hosts = draw(NAMED), draw(NAMED)
    spec.availability_zone = draw(st.sampled_from([None, "", "z1", "nova", "z1:h1", ":", "::"]))
    spec.scheduler_hints = draw(st.sampled_from([{}, {"_nova_check_type": ["rebuild"]}]))
    uuids = [f"i{each}" for each in range(draw(st.integers(1, 4)))]
    return Request(spec, uuids, 0, draw(st.integers(0, 9)), draw(st.booleans()))


@pytest.mark.parametrize("driver", DRIVERS, ids=driver_name)
@given(hosts(), wishes())
def test_all_instances_get_a_host_or_none_does(driver, each, request):
    table = a_table(*each)
    decision = driver.decide(table.working_copy(), request)
    assert decision.hosts == len(each)
    assert decision.seed == request.seed
    if decision.shortage:
        assert decision.placements == ()
        assert decision.shortage.instance_uuid == request.instance_uuids[decision.shortage.index]
        assert decision.shortage.reason
    else:
        assert [p.instance_uuid for p in decision.placements] == request.instance_uuids
    for placement in decision.placements:
        found = placement.chosen
        assert table.row_of(found.host, found.nodename) == found.row
    again = driver.decide(table.working_copy(), request)
    assert (again.placements, again.shortage) == (decision.placements, decision.shortage)


@pytest.mark.parametrize("driver", [*DRIVERS, FakeScheduler(PLAN)], ids=driver_name)
@given(hosts(), wishes())
def test_the_spec_of_the_caller_is_left_alone(driver, each, request):
    before = repr(request.spec)
    driver.decide(a_table(*each), request)
    assert repr(request.spec) == before


def test_a_driver_must_know_how_to_decide():
    with pytest.raises(NotImplementedError):
        BaseDriver(PLAN).decide(a_table(), Request(a_request(), ["u"]))


def test_the_fake_answers_nothing_to_anything():
    table = a_table(a_host())
    assert FakeScheduler(PLAN).decide(table, Request(a_request(), ["u1", "u2"], 2, 7)) == Decision(
        seed=7, hosts=1
    )


def test_caching_is_filtering_on_an_older_view():
    table = a_table(a_host("h1", free_ram_mb=4096), a_host("h2", free_ram_mb=8192))
    request = Request(a_request(memory_mb=2048), ["u1", "u2"], 1, 3)
    driver = CachingScheduler(PLAN, view_max_age=5)
    assert driver.decide(table.working_copy(), request) == FILTERING.decide(table, request)
    assert (driver.view_max_age, CachingScheduler(PLAN).view_max_age) == (5, 60)
    assert FILTERING.view_max_age is None
