# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.instances."""

from datetime import timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory import compute_nodes, instances
from inventory.dialects import utc_now
from inventory.tables import instances as table
from tests.databases import a_node, an_instance, empty, save
from tests.records import manage, unmanage

HOUR = timedelta(hours=1)


def replace(database, *seen, host="h1", node="n1"):
    return database.write(lambda c: instances.replace(c, host, node, seen))


def live(database):
    """Return {(uuid, host): row} of the live rows."""
    return {(row.uuid, row.host): row for row in database.read(instances.all_live)}


def age_by(database, age):
    """Let all dead rows be dead for some time longer, and all rows written that long ago."""

    def work(connection):
        then = connection.scalar(sa.select(utc_now())) - age
        connection.execute(sa.update(table).values(updated_at=then))
        connection.execute(sa.update(table).where(table.c.deleted != 0).values(deleted_at=then))

    database.write(work)


def written_lately(database):
    now = database.read(lambda c: c.scalar(sa.select(utc_now())))
    rows = database.read(lambda c: instances.written_since(c, now - HOUR))
    return {row.uuid: bool(row.deleted) for row in rows}


def test_rows_follow_what_an_agent_sees(database):
    assert replace(database, an_instance("u1"), an_instance("u2"))
    assert live(database).keys() == {("u1", "h1"), ("u2", "h1")}
    assert replace(database, an_instance("u2", memory_mb=2048), an_instance("u3"))
    found = live(database)
    assert found.keys() == {("u2", "h1"), ("u3", "h1")}
    assert found["u2", "h1"].memory_mb == 2048
    assert found["u3", "h1"].display_name == "name of u3"
    assert replace(database)
    assert live(database) == {}


def test_letter_case_makes_no_other_instance_of_a_managed_one(database):
    manage(database, "ABC", "h1", "n1")
    assert replace(database, an_instance("abc")) == set()
    assert live(database).keys() == {("ABC", "h1")}


def test_flavor_and_image_properties_are_kept_with_the_instance(database):
    known = {"flavor_id": 7, "flavor_name": "m1.small", "image_properties": '{"a": "\u00e4"}'}
    replace(database, an_instance("u1"), an_instance("u2", **known))
    found = live(database)
    for name, each in known.items():
        assert getattr(found["u1", "h1"], name) is None
        assert getattr(found["u2", "h1"], name) == each
    age_by(database, 2 * HOUR)
    assert not replace(database, an_instance("u1"), an_instance("u2", **known))
    for name, each in known.items():
        assert replace(database, an_instance("u1", **{name: each}), an_instance("u2", **known))
        assert getattr(live(database)["u1", "h1"], name) == each
    assert replace(database, an_instance("u1"))
    assert live(database)["u1", "h1"].flavor_name is None


def test_flavor_and_image_properties_may_be_left_out(database):
    short = {
        name: each
        for name, each in an_instance("u1").items()
        if name not in ("flavor_id", "flavor_name", "image_properties")
    }
    known = an_instance("u2", flavor_name="m1.small")
    assert replace(database, short, known)
    assert not replace(database, known, short)
    found = {uuid: row.flavor_name for (uuid, _), row in live(database).items()}
    assert found == {"u1": None, "u2": "m1.small"}


def test_nothing_is_written_when_nothing_changed(database):
    replace(database, an_instance("u1"), an_instance("u2"))
    age_by(database, 2 * HOUR)
    assert not replace(database, an_instance("u2"), an_instance("u1"))
    assert written_lately(database) == {}
    assert not replace(database, host="h2")


def test_readers_find_what_came_changed_and_went(database):
    replace(database, an_instance("same"), an_instance("changes"), an_instance("goes"))
    age_by(database, 2 * HOUR)
    replace(database, an_instance("same"), an_instance("changes", vcpus=9), an_instance("comes"))
    assert written_lately(database) == {"changes": False, "goes": True, "comes": False}


def test_an_instance_that_comes_back_gets_its_row_again(database):
    replace(database, an_instance("u1"))
    before = live(database)["u1", "h1"].id
    replace(database)
    age_by(database, 2 * HOUR)
    assert replace(database, an_instance("u1"))
    row = live(database)["u1", "h1"]
    assert (row.id, row.deleted_at) == (before, None)
    assert written_lately(database) == {"u1": False}


def test_an_instance_that_moves_is_on_two_hosts(database):
    replace(database, an_instance("u1"))
    replace(database, an_instance("u1"), host="h2")
    assert live(database).keys() == {("u1", "h1"), ("u1", "h2")}
    replace(database)
    assert live(database).keys() == {("u1", "h2")}


def test_other_nodes_are_left_alone(database):
    replace(database, an_instance("u1"), node="n1")
    replace(database, an_instance("u2"), node="n2")
    replace(database, node="n1")
    assert [row.uuid for row in live(database).values()] == ["u2"]
    places = database.read(lambda c: instances.places(c, ["h1", "h2"]))
    assert places == {("h1", "n2")}
    assert database.read(lambda c: instances.places(c, [])) == set()


@pytest.mark.parametrize(("days", "kept"), [(0.9, True), (1.1, False)])
def test_dead_rows_are_forgotten_after_a_day(database, days, kept):
    replace(database, an_instance("u1"), an_instance("u2"))
    replace(database, an_instance("u2"))
    age_by(database, timedelta(days=days))
    replace(database)
    rows = database.read(lambda c: c.execute(sa.select(table.c.uuid)).scalars().all())
    assert ("u1" in rows) == kept
    assert "u2" in rows


def rows(database):
    """Return {uuid: row} of all rows of h1, dead ones included."""
    found = database.read(lambda c: c.execute(sa.select(table).where(table.c.host == "h1")).all())
    return {row.uuid: row for row in found}


def test_managed_rows_are_never_written(database):
    manage(database, "u1", "h1", "n1", memory_mb=4096)
    manage(database, "u2", "h1", "n1", vm_state="stopped")
    before = rows(database)
    assert replace(database, an_instance("u1"), an_instance("u3")) == {"u3"}
    assert replace(database) == {"u3"}
    after = rows(database)
    assert {uuid: after[uuid] for uuid in ("u1", "u2")} == before
    assert live(database).keys() == {("u1", "h1"), ("u2", "h1")}


@pytest.mark.parametrize(
    "released", [{"vm_state": "deleted"}, {"vm_state": "shelved_offloaded", "task_state": None}]
)
def test_a_row_that_has_released_its_node_is_left_alone_until_its_guest_is_seen(database, released):
    manage(database, "u1", "h1", "n1", **released)
    before = rows(database)
    assert replace(database) == set()
    assert rows(database) == before
    assert replace(database, an_instance("u1")) == {"u1"}
    (row,) = rows(database).values()
    assert (row.id, row.managed, row.deleted, row.vm_state) == (before["u1"].id, False, 0, "active")
    # From now on it follows what the agent sees.
    assert replace(database, an_instance("u1")) == set()
    assert replace(database) == {"u1"}
    assert live(database) == {}


def test_one_that_is_being_unshelved_has_its_row_back(database):
    manage(database, "u1", "h1", "n1", vm_state="shelved_offloaded", task_state="spawning")
    assert replace(database, an_instance("u1")) == set()
    assert live(database)["u1", "h1"].managed


def test_a_deleted_managed_row_is_taken_over_by_a_guest_that_is_still_there(database):
    manage(database, "u1", "h1", "n1")
    manage(database, "u2", "h1", "n1")
    unmanage(database, "u1")
    unmanage(database, "u2")
    assert replace(database, an_instance("u1")) == {"u1"}
    found = rows(database)
    assert (found["u1"].managed, found["u1"].deleted, found["u1"].deleted_at) == (False, 0, None)
    assert (found["u2"].managed, bool(found["u2"].deleted)) == (True, True)


def test_a_mirror_that_somebody_begins_to_manage_is_theirs(database):
    replace(database, an_instance("u1"))
    number = live(database)["u1", "h1"].id
    manage(database, "u1", "h1", "n1", memory_mb=2048)
    assert replace(database, an_instance("u1")) == set()
    assert replace(database) == set()
    row = live(database)["u1", "h1"]
    assert (row.id, row.memory_mb, row.managed) == (number, 2048, True)


def test_dead_managed_rows_are_not_forgotten(database):
    manage(database, "u1", "h1", "n1")
    unmanage(database, "u1")
    replace(database, an_instance("u2"), an_instance("u3"))
    replace(database, an_instance("u3"))
    age_by(database, timedelta(days=2))
    replace(database)
    assert rows(database).keys() == {"u1", "u3"}


def test_managed_finds_the_live_rows_of_some_hosts(database):
    manage(database, "u2", "h1", "n2", vm_state="shelved_offloaded")
    manage(database, "u1", "h1", "n1")
    manage(database, "u3", "h2", "n1")
    manage(database, "u4", "h3", "n1")
    unmanage(database, "u4")
    replace(database, an_instance("u5"))
    found = database.read(lambda c: instances.managed(c, ["h1", "h3"]))
    assert [(row.uuid, row.node) for row in found] == [("u1", "n1"), ("u2", "n2")]
    assert database.read(lambda c: instances.managed(c, [])) == []


def test_of_place_finds_dead_rows_too(database):
    replace(database, an_instance("u1"), an_instance("u2"), an_instance("u3"))
    replace(database, an_instance("u1"), an_instance("u3"))
    replace(database, an_instance("u2"), host="h2")
    found = database.read(lambda c: instances.of_place(c, "h1", "n1", ["u1", "u2", "u9"]))
    assert {row.uuid: bool(row.deleted) for row in found} == {"u1": False, "u2": True}
    assert database.read(lambda c: instances.of_place(c, "h1", "n1", [])) == []


def test_an_instance_is_seen_on_the_nodes_that_it_uses(database):
    save(database, a_node("h1", "n1"), a_node("h1", "n2"), a_node("h2", "n1"))
    replace(database, an_instance("u1"), an_instance("u2"))
    replace(database, an_instance("u1"), host="h2")
    replace(database, an_instance("u3"), host="gone")
    manage(database, "u4", "h1", "n2")
    manage(database, "u5", "h1", "n2", vm_state="shelved_offloaded", task_state=None)
    nodes = database.read(compute_nodes.all_live)
    names = {row.id: (row.host, row.hypervisor_hostname) for row in nodes}

    def seen(*uuids):
        found = database.read(lambda c: instances.seen_on(c, uuids))
        return {(uuid, *names[node_id]) for uuid, node_id in found}

    several = {("u1", "h1", "n1"), ("u1", "h2", "n1"), ("u4", "h1", "n2")}
    assert seen("U1", "u3", "u4", "u5") == several
    replace(database, an_instance("u2"))
    assert seen("u1", "u2") == {("u1", "h2", "n1"), ("u2", "h1", "n1")}


def test_an_instance_that_is_seen_twice_has_one_row(database):
    assert replace(database, an_instance("u1"), an_instance("u1", vcpus=2)) == {"u1"}
    assert live(database)["u1", "h1"].vcpus == 2


def test_all_that_is_known_of_an_instance_is_stored_and_compared(database):
    known = {"task_state": "spawning", "os_type": "linux", "ephemeral_gb": 5, "swap_mb": 512}
    replace(database, an_instance("u1", **known), an_instance("u2"))
    found = live(database)
    assert {name: getattr(found["u1", "h1"], name) for name in known} == known
    assert [getattr(found["u2", "h1"], name) for name in known] == [None, None, 0, 0]
    for name, other in {"task_state": None, "os_type": "", "ephemeral_gb": 0, "swap_mb": 1}.items():
        changed = an_instance("u1", **known | {name: other})
        assert replace(database, changed, an_instance("u2")) == {"u1"}
        assert getattr(live(database)["u1", "h1"], name) == other
        assert replace(database, an_instance("u1", **known), an_instance("u2")) == {"u1"}


_SEEN = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), max_size=4)
_STEPS = st.lists(st.tuples(st.sampled_from(["h1", "h2"]), _SEEN), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STEPS)
def test_rows_are_always_those_that_were_seen_last(database, steps):
    empty(database)
    model = {}
    for host, seen in steps:
        changed = replace(
            database, *(an_instance(uuid, vcpus=n) for uuid, n in seen.items()), host=host
        )
        before = model.get(host, {}).items()
        assert changed == {uuid for uuid, _ in before ^ seen.items()}
        model[host] = seen
    expected = {(uuid, host): n for host, seen in model.items() for uuid, n in seen.items()}
    assert {place: row.vcpus for place, row in live(database).items()} == expected
