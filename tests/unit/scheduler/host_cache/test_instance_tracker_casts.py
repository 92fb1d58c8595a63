# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of instance_tracker: what ends that which a cast announced, and mismatches."""

import pytest

from scheduler.host_cache.nova_casts import LIFETIME
from scheduler.host_cache.refresh_queries import Delta
from scheduler.hosts.row_index import InstanceIndex
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from tests.unit.scheduler.host_cache.allocation_rows import an_instance_row
from tests.unit.scheduler.host_cache.test_instance_tracker import (
    NOW,
    SHELVED,
    Cloud,
    cloud,
    moment,
    node_id,
)

__all__ = ["cloud"]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(("told", "left"), [(58, []), (62, ["u1"])])
def test_what_was_told_before_a_row_ended_ends_with_it(cloud, told, left, complete):
    cloud.audit("h1", "u1", at=0)
    cloud.audit("h2", at=60)
    cloud.tell("h1", "u1", at=told)
    # When it ended a complete reading does not see: after the last one, which had it.
    cloud.audit("h1", gone=[] if complete else ["u1"], at=120, rows_at=60, complete=complete)
    assert cloud.on("h1") == left


@pytest.mark.parametrize("end", [{"gone": ["u1"]}, {"released": {"uuid": "u1", **SHELVED}}])
def test_a_late_cast_ends_with_a_row_that_ended_later(cloud, end):
    cloud.tell("h1", "u1", at=0)
    seen = [end["released"]] if "released" in end else []
    cloud.audit("h1", *seen, gone=end.get("gone", ()), at=60)
    assert cloud.on("h1") == []


def test_the_end_of_a_row_says_nothing_of_another_node():
    cloud = Cloud(("h1", "n1"), ("h1", "n2"))
    cloud.audit("h1", "u1", "u2", node="n1")
    cloud.tell("h1", Instance(uuid="u1", node="n2"), "u2", at=10)
    cloud.audit("h1", node="n1", gone=["u1", "u2"], at=60)
    assert (cloud.on("h1", "n1"), cloud.on("h1", "n2")) == ([], ["u1"])


def test_what_was_told_and_never_again_is_forgotten(cloud):
    cloud.tell("h1", "u1", "u2")
    cloud.tell_all("h1", ["u1"], at=60)
    cloud.tell("h9", "u3")
    cloud.audit("h1", "u4", at=LIFETIME, complete=True)
    assert cloud.on("h1") == ["u1", "u4"]
    cloud.audit("h1", "u4", at=LIFETIME + 60)
    assert cloud.on("h1") == ["u1", "u4"]
    cloud.audit("h1", "u4", at=LIFETIME + 60, complete=True)
    assert cloud.on("h1") == ["u4"]
    cloud.add(("h9", "h9"))
    assert cloud.on("h9") == []


def test_what_is_told_out_of_order_holds_until_the_next_list(cloud):
    cloud.audit("h1", "u1")
    cloud.tell("h1", "u2")
    # Deleted before it was told of, and moved to h2 before h1 told of it again.
    cloud.tell_gone("h1", "u3")
    cloud.tell("h1", "u3")
    cloud.tell("h2", "u2")
    cloud.tell("h1", "u2")
    # Built anew before it was told to be gone.
    cloud.tell_gone("h1", "u1", at=20)
    assert (cloud.on("h1"), cloud.on("h2")) == (["u2", "u3"], ["u2"])
    cloud.tell_all("h1", ["u1"], at=30)
    assert (cloud.on("h1"), cloud.on("h2")) == (["u1"], ["u2"])


def test_a_host_is_in_dispute_when_its_list_is_another(cloud):
    cloud.add(("h3", "n1"), ("h3", "n2"))
    for node, seen in (("n1", "u1"), ("n2", "u2")):
        cloud.audit("h3", seen, node=node)
    mismatches = cloud.tracker.mismatches
    for listed in (["u2", "u1"], ["u1", "u2", "u2"]):
        cloud.tell_all("h3", listed)
        assert list(mismatches.unread) == []
    cloud.promise("h1", "u3")
    cloud.claim("h1", "u4")
    for listed in (["u3", "u4"], ["u4"]):
        cloud.tell_all("h1", listed)
    cloud.tell_all("h9", ["u1"])
    assert list(mismatches.unread) == []
    cloud.tell_all("h3", ["u1"])
    cloud.tell_all("h1", ["u5", "u4"])
    assert list(mismatches.unread) == ["h3", "h1"]
    assert cloud.tracker.node_ids(mismatches.unread) == {
        node_id("h3", "n1"),
        node_id("h3", "n2"),
        node_id("h1", "h1"),
    }
    cloud.remove("h3", "n1")
    assert list(mismatches.unread) == ["h3", "h1"]
    cloud.remove("h3", "n2")
    assert list(mismatches.unread) == ["h1"]


def test_the_rows_of_a_host_in_dispute_are_all_there_are(cloud):
    cloud.audit("h1", "u1", "u2")
    cloud.audit("h2", "u3")
    cloud.tell_all("h1", ["u1", "u4"], at=10)
    changes = Delta(complete=False, now=moment(20), hosts=["h1"])
    changes.instances = [an_instance_row("u5", updated_at=moment(0))]
    cloud.tracker.read(changes, NOW)
    # What the host lists stays, whoever else has it no longer.
    assert (cloud.on("h1"), cloud.on("h2")) == (["u1", "u4", "u5"], ["u3"])


@pytest.mark.parametrize("late", [False, True])
def test_whoever_looked_later_is_right_about_a_host_in_dispute(cloud, late):
    cloud.audit("h1", "u1", "u2", at=0)
    cloud.tell_all("h1", ["u1"], at=60)
    cloud.audit("h1", gone=["u1", "u2"], at=120, rows_at=30 if late else 90)
    assert cloud.on("h1") == (["u1"] if late else [])
    cloud.tell_all("h1", [], at=180)
    assert cloud.on("h1") == []


def test_a_list_takes_nothing_away_from_what_is_known(cloud):
    cloud.audit("h1", "u1", "u2")
    cloud.tell("h1", Instance("u1", hidden=True))
    cloud.tracker.forget_casts()
    known = cloud.instance("h1", "u1")
    cloud.tell_all("h1", ["u1"])
    assert list(cloud.tracker.mismatches.unread) == ["h1"]
    assert cloud.instance("h1", "u1") is known


def test_differences_are_forgotten_with_the_casts(cloud):
    cloud.audit("h1", "u1")
    cloud.tell_all("h1", ["u2"])
    cloud.tracker.forget_casts()
    assert list(cloud.tracker.mismatches.unread) == []
    cloud.tell_all("h1", ["u2"])
    assert list(cloud.tracker.mismatches.unread) == ["h1"]


def test_of_an_instance_that_is_told_of_twice_at_a_time_the_last_counts(cloud):
    cloud.tell("h1", Instance("u1", vcpus=1), Instance("u2"), Instance("u1", vcpus=2))
    assert cloud.on("h1") == ["u1", "u2"]
    assert cloud.instance("h1", "u1").vcpus == 2


def counting(monkeypatch, owner, name):
    """Return a list that grows with each call of a method."""
    calls, method = [], getattr(owner, name)

    def counted(self, *arguments):
        calls.append(name)
        return method(self, *arguments)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_a_list_of_a_service_with_many_nodes_looks_at_each_a_few_times(monkeypatch):
    numbers = range(40)
    cloud = Cloud(*(("h1", f"n{number}") for number in numbers))
    for number in numbers:
        cloud.audit("h1", f"u{number}", node=f"n{number}")
        cloud.promise("h1", f"v{number}", node=f"n{number}")
    looks = counting(monkeypatch, HostTable, "get")
    for uuids in ("u", "v", "w"):
        cloud.tell_all("h1", ["more", *(f"{uuids}{number}" for number in numbers)])
        assert len(looks) < 40 * len(numbers)
        looks.clear()


def test_one_instance_of_a_service_with_many_nodes_costs_a_look_at_its_node(monkeypatch):
    cloud = Cloud(*(("h1", f"n{number}") for number in range(40)))
    looks = counting(monkeypatch, HostTable, "get")
    cloud.claim("h1", "u1", node="n20")
    cloud.audit("h1", "u1", node="n20")
    cloud.audit("h1", "u2", node="n30")
    assert len(looks) < 40
    assert cloud.on("h1", "n20") == ["u1"]
    assert cloud.on("h1", "n30") == ["u2"]


def test_a_list_of_many_instances_is_written_at_once(cloud, monkeypatch):
    cloud.audit("h1", *(f"u{number}" for number in range(50)))
    changes = counting(monkeypatch, InstanceIndex, "change")
    for uuids in ("u", "v", "w"):
        cloud.tell_all("h1", [f"{uuids}{number}" for number in range(100)])
        # Some go and some come.
        assert len(changes) <= 2
        changes.clear()
    cloud.audit("h1", gone=[f"u{number}" for number in range(50)], at=60)
    cloud.tracker.forget_casts()
    assert len(changes) == 2
    assert cloud.on("h1") == []
