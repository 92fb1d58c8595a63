# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of saved_decision: what was saved is decided again, and explained by that."""

from dataclasses import replace
from random import Random

import pytest
import sqlalchemy as sa

from inventory import aggregates, decisions
from inventory.operations import service_operations
from inventory.tables import decision_inputs
from inventory.tables import decisions as decision_table
from scheduler.analysis.explain import explain
from scheduler.history.saved_decision import (
    DecisionIncomplete,
    from_database,
    read_file,
    write_file,
)
from scheduler.plugins import PluginError
from tests.builders import a_group
from tests.databases import a_conf, a_node, save, serve
from tests.fixtures.keeping import KeepingScheduler

# Its decisions stay.
WITHOUT_HOSTS = sa.delete(decision_inputs).where(decision_inputs.c.first >= 0)
HOSTS = [f"h{each}" for each in range(8)]
# Where one of several hosts is drawn, and where weights are of any sign.
CHANCE = {"host_subset_size": 3, "ram_weight_multiplier": -1.5}
LIKELY = {"availability_zone": "z1", "ignore_hosts": ["h1", "H2"], "force_hosts": ["h3"]}


@pytest.fixture
def cloud(database):
    """Eight hosts with different figures, of which one is switched off and two are in a zone."""
    chance = Random(8)
    for host in HOSTS:
        save(database, a_node(host, free_ram_mb=chance.randrange(4096, 65536)))
    serve(database, *HOSTS)
    database.write(lambda c: service_operations.disable(c, ["h5"], "new disks"))
    zone = {"availability_zone": "z1"}
    database.write(lambda c: aggregates.create(c, "rack", ["h6", "h7"], zone))
    return database


@pytest.fixture
def scheduler(cloud):
    conf = a_conf()
    for name, value in CHANCE.items():
        conf.set_override(name, value, group="filter_scheduler")
    return KeepingScheduler(cloud, conf)


def ask_at_random(scheduler, count):
    """Ask for all sorts of instances; some requests find no host."""
    chance = Random(21)
    for number in range(count):
        changes = {"memory_mb": chance.choice([512, 4096, 20_000, 60_000])}
        changes |= dict(chance.sample([*LIKELY.items()], chance.choice([0, 0, 1])))
        if chance.random() < 0.3:
            changes["instance_group"] = a_group(chance.choice(["affinity", "anti-affinity"]))
        scheduler.ask(f"r{number}", chance.randint(1, 4), alternates=number % 3 == 0, **changes)


def kept(database):
    """Return all kept decisions, the oldest first."""

    def work(connection):
        return [from_database(connection, row) for row in decisions.listed(connection, 1000)]

    return database.read(work)[::-1]


def _driver(recalled):
    """Return the driver of a decision; our own plug-ins read no configuration afterwards."""
    with recalled.deciding() as driver:
        return driver


def test_kept_decisions_are_made_again_from_the_database_and_from_files(cloud, scheduler, tmp_path):
    with scheduler:
        ask_at_random(scheduler, 40)
    found = kept(cloud)
    assert len(found) == 40
    assert {each.record.outcome for each in found} == {"placed", "refused"}
    for each in found:
        path = tmp_path / f"{each.number}.json"
        write_file(path, each)
        saved = read_file(path)
        assert (saved.number, saved.decided_at) == (each.number, each.decided_at)
        assert saved.record == each.record
        for recalled in (each, saved):
            with recalled.deciding() as driver:
                again = recalled.again(driver)
                assert recalled.is_same(again)
                assert replace(again, warnings=()) == replace(each.record.decision, warnings=())
                # What was decided on is left as it was.
                assert recalled.is_same(recalled.again(driver))


def test_every_explanation_is_one_of_the_decision(cloud, scheduler):
    """As many hosts have an obstacle first as its step has left out, and the rest pass."""
    with scheduler:
        ask_at_random(scheduler, 40)
    for each in kept(cloud):
        request, decision = each.record.request, each.record.decision
        shortage, driver = decision.shortage, _driver(each)
        last = shortage.index if shortage else len(request.instance_uuids) - 1
        for index in range(last + 1):
            explanation = explain(each.table(), request, driver, index)
            steps = explanation.steps
            if shortage is None or index == last:
                parts = shortage or decision.placements[index]
                assert steps == parts.steps
            assert sum(one.rank is not None for one in explanation.verdicts) == explanation.passing
            assert explanation.passing == steps[-1].after
            # For the next ones not all hosts are asked again.
            if index == 0:
                assert_steps_agree_with_verdicts(explanation)
            if shortage is None:
                chosen = decision.placements[index].chosen
                assert (explanation.chosen, explanation.chosen_node) == (
                    chosen.host,
                    chosen.nodename,
                )
                assert [one.host for one in explanation.verdicts if one.chosen] == [chosen.host]
            else:
                assert (explanation.chosen is None) == (index == last)


def assert_steps_agree_with_verdicts(explanation):
    """Check that each host is refused first by the filter at whose step it fell out."""
    order = {each.name: place for place, each in enumerate(explanation.steps)}
    fell = {each.name: each.before - each.after for each in explanation.steps}
    first = dict.fromkeys(fell, 0)
    for verdict in explanation.verdicts:
        if verdict.refusals:
            names = (each.filter for each in verdict.refusals if each.filter in order)
            first[min(names, key=order.__getitem__)] += 1
    assert first == fell


def test_another_decision_is_not_the_same(cloud, scheduler):
    with scheduler:
        scheduler.ask("one", alternates=True)
    (recalled,) = kept(cloud)
    decision = recalled.record.decision
    assert recalled.is_same(replace(decision, warnings=("seen for the first time",)))
    (placement,) = decision.placements
    (first, *others) = placement.weighed
    lighter = replace(first, total=first.total * (1 + 2**-52))
    changed = replace(placement, weighed=(lighter, *others))
    assert not recalled.is_same(replace(decision, placements=(changed,)))


def test_the_settings_of_that_time_decide(cloud, scheduler):
    with scheduler:
        scheduler.ask("one")
    (recalled,) = kept(cloud)
    plan = _driver(recalled).plan
    assert plan.host_subset_size == 3
    assert {each.multiplier for each in plan.weighers if type(each).__name__ == "RAMWeigher"} == {
        -1.5
    }
    unknown = {"filter_scheduler": {"enabled_filters": ["TheirFilter"]}}
    with pytest.raises(PluginError, match="TheirFilter"):
        _driver(replace(recalled, record=replace(recalled.record, settings=unknown)))


def test_without_its_hosts_a_decision_is_still_there(cloud, scheduler, tmp_path):
    with scheduler:
        scheduler.ask("one")
    cloud.write(lambda c: c.execute(WITHOUT_HOSTS))
    (recalled,) = kept(cloud)
    assert recalled.record.outcome == "placed"
    lost = "the hosts of the decision are lost: snapshot 0 of the log is missing"
    with pytest.raises(DecisionIncomplete, match=lost):
        recalled.again(_driver(recalled))
    with pytest.raises(DecisionIncomplete, match=lost):
        write_file(tmp_path / "one.json", recalled)
    assert not [*tmp_path.glob("*.json")]


def test_a_decision_may_go_or_be_unreadable(cloud, scheduler):
    with scheduler:
        scheduler.ask("one")
    (row,) = cloud.read(decisions.listed)
    update = sa.update(decision_table).values(document=b"\0")
    cloud.write(lambda c: c.execute(update))
    with pytest.raises(DecisionIncomplete, match=f"decision {row.id} cannot be read: "):
        cloud.read(lambda c: from_database(c, row))
    cloud.write(lambda c: c.execute(sa.delete(decision_table)))
    with pytest.raises(DecisionIncomplete, match=f"decision {row.id} was removed just now"):
        cloud.read(lambda c: from_database(c, row))
