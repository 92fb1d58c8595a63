# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.replay: what another driver would have decided."""

from random import Random

import pytest

from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.filter_scheduler import FakeScheduler, FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.history.saved_decision import SavedDecision
from scheduler.history.serialization import DecisionDocument
from scheduler.hosts.snapshots import SnapshotLog, restore
from scheduler.operators.cli import replay
from scheduler.operators.cli.replay import changes
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop, Favourite

BEST = Favourite(h1=1, h2=4, h3=2)
OTHER = Favourite(h1=1, h2=2, h3=4)
KEPT = FilterScheduler(Plan((RamFilter(),), (BEST,)))


def recalled(driver=KEPT, uuids=("u1",), hosts=None, **changes):
    """Return a decision as it is had from a file, on hosts h1 (node n1), h2 and h3."""
    hosts = hosts or a_table(a_host("h1", "n1"), a_host("h2"), a_host("h3"))
    request = Request(a_request(**changes), uuids)
    table = restore([SnapshotLog().take(hosts)])
    return SavedDecision(
        DecisionDocument(request, driver.decide(hosts.working_copy(), request)), table
    )


def compared(*filters, weigher=BEST, kept=None, **plan):
    driver = FilterScheduler(Plan((RamFilter(), *filters), (weigher,), **plan))
    return compare(kept or recalled(), driver)


def compare(kept, driver):
    """Return whether a driver decides the same, and (host, host now, reason) of each instance."""
    now = kept.again(driver)
    found = [(each["kept"], each["now"], each["why"]) for each in changes(kept, now, driver)]
    return kept.is_same(now), found


def test_the_same_settings_make_the_same_decision():
    assert compared() == (True, [("h2", "h2", "")])


def test_the_same_host_may_be_chosen_for_other_reasons():
    assert compared(Drop("h3")) == (False, [("h2", "h2", "")])


def test_a_filter_may_refuse_the_host():
    _, found = compared(Drop("h2", "h3"))
    assert found == [("h2", "h1 (n1)", "h2 is refused: Drop: h2 was dropped")]


def test_a_weigher_may_prefer_another():
    _, found = compared(weigher=OTHER)
    assert found == [("h2", "h3", "h2 is number 2 of 3 hosts, with weight 0.333 to 1.000")]


def test_there_may_be_no_host_any_more():
    _, found = compared(Drop("h1", "h2", "h3"))
    why = "there is no host for instance 1: RamFilter 3->3, Drop 3->0"
    assert found == [("h2", None, why)]


def test_there_may_be_a_host_now():
    kept = recalled(FilterScheduler(Plan((Drop("h1", "h2", "h3"),), (BEST,))))
    assert compared(kept=kept) == (False, [(None, "h2", "")])


def test_a_driver_may_have_its_own_way():
    _, found = compare(recalled(), FakeScheduler(Plan()))
    assert found == [("h2", None, "h2 passes all filters, and the driver has a choice of its own")]


def test_nodes_of_one_host_are_not_the_same():
    nodes = a_table(a_host("h1", "n1", free_ram_mb=3000), a_host("h1", "n2", free_ram_mb=4000))
    kept = recalled(FilterScheduler(Plan((), (RAMWeigher(),))), hosts=nodes)
    weigher = RAMWeigher()
    weigher.multiplier = -1.0
    _, ((before, after, why),) = compare(kept, FilterScheduler(Plan((), (weigher,))))
    assert (before, after) == ("h1 (n2)", "h1 (n1)")
    assert why.startswith("h1 (n2) is number 2 of 2 hosts, with weight -1.000 to ")


def test_reasons_are_shown_for_the_first_instances(monkeypatch):
    monkeypatch.setattr(replay, "MAX_REASONS", 2)
    kept = recalled(uuids=("u1", "u2", "u3"))
    driver = FilterScheduler(Plan((RamFilter(),), (OTHER,)))
    found = [*changes(kept, kept.again(driver), driver)]
    assert [each["instance_uuid"] for each in found] == ["u1", "u2", "u3"]
    assert [bool(each["why"]) for each in found] == [True, True, False]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_a_scheduler_with_these_settings_would_have_decided(seed):
    chance = Random(seed)
    hosts = a_table(
        *(a_host(f"h{each}", free_ram_mb=chance.randrange(1000, 9000)) for each in range(6))
    )
    uuids = [f"u{each}" for each in range(chance.randint(1, 6))]
    kept = recalled(
        FilterScheduler(Plan((RamFilter(),), (RAMWeigher(),))),
        uuids,
        hosts,
        memory_mb=chance.choice([1024, 3072]),
    )
    weigher = RAMWeigher()
    weigher.multiplier = -1.0
    rules = (RamFilter(), Drop(f"h{chance.randrange(6)}"))
    driver = FilterScheduler(Plan(rules, (weigher,), host_subset_size=chance.choice([1, 3])))
    decision = driver.decide(hosts.working_copy(), kept.record.request)
    assert kept.again(driver) == decision
    chosen = [each.chosen.host for each in decision.placements] or [None] * len(uuids)
    found = [*changes(kept, decision, driver)]
    assert [each["now"] for each in found] == chosen
    assert all(each["same"] or each["kept"] is None or each["why"] for each in found)
