# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.instance_sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory import stored_documents
from scheduler.host_cache import instance_sources
from scheduler.host_cache.instance_sources import instance_from_row, merge
from scheduler.objects.instance import Instance
from tests.builders import a_flavor
from tests.unit.scheduler.host_cache.allocation_rows import an_instance_row


@pytest.fixture(autouse=True)
def _nothing_remembered():
    instance_sources._properties_of.cache_clear()
    stored_documents.warn.cache_clear()


def described(**changes):
    """Return the instance that a row describes."""
    return instance_from_row(an_instance_row("u1", node="n1", **changes), ("h1", "n1"))


def test_a_row_tells_what_it_has():
    found = described(
        flavor_id=7, flavor_name="m1.small", image_properties='{"os_distro": "debian"}'
    )
    assert (found.uuid, found.host, found.node, found.project_id) == ("u1", "h1", "n1", "p1")
    assert (found.vcpus, found.memory_mb, found.root_gb, found.vm_state) == (1, 1024, 10, "active")
    assert (found.ephemeral_gb, found.task_state, found.os_type) == (0, None, None)
    assert (found.instance_type_id, found.flavor_name) == (7, "m1.small")
    assert found.image_properties == {"os_distro": "debian"}
    found = described(ephemeral_gb=7, task_state="rebuilding", os_type="linux")
    assert (found.ephemeral_gb, found.task_state, found.os_type) == (7, "rebuilding", "linux")


def test_a_row_of_the_first_release_knows_neither_flavor_nor_image():
    found = described()
    assert (found.instance_type_id, found.flavor_name, found.image_properties) == (None,) * 3


def test_equal_texts_are_parsed_once():
    one, other = (described(vcpus=n, image_properties='{"a": "1"}') for n in (1, 2))
    assert one.image_properties is other.image_properties


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "1", '{"a": 1}', '{"a": {"b": "c"}}', "[" * 100_000]
)
def test_unreadable_properties_are_unknown_and_complained_of_once(caplog, text):
    for _ in range(2):
        assert described(image_properties=text).image_properties is None
    assert caplog.text.count("Column image_properties of instance u1 cannot be read") == 1


def test_known_facts_stay_where_the_newer_source_is_silent():
    known = Instance(
        uuid="u1",
        host="h1",
        project_id="p1",
        instance_type_id=7,
        flavor=a_flavor(id=7, name="m1.small"),
        flavor_name="m1.small",
        image_properties={"os_distro": "debian"},
    )
    found = merge(known, Instance(uuid="u1", host="h2", vcpus=0, flavor_name="m1.small"))
    assert (found.host, found.project_id, found.vcpus) == ("h2", "p1", 0)
    assert (found.instance_type_id, found.flavor) == (7, known.flavor)
    assert found.image_properties == {"os_distro": "debian"}


@pytest.mark.parametrize("newer", [{"flavor_name": "m1.large"}, {"instance_type_id": 8}])
def test_flavors_are_not_mixed(newer):
    known = Instance(uuid="u1", instance_type_id=7, flavor_name="m1.small", flavor=a_flavor())
    found = merge(known, Instance(uuid="u1", **newer))
    assert (found.instance_type_id, found.flavor_name, found.flavor) == (
        newer.get("instance_type_id"),
        newer.get("flavor_name"),
        None,
    )


def test_a_task_that_has_ended_is_not_remembered():
    known = Instance(uuid="u1", vm_state="building", task_state="spawning", power_state=0)
    found = merge(known, described())
    assert (found.vm_state, found.task_state, found.power_state) == ("active", None, None)
    found = merge(known, Instance(uuid="u1", vcpus=2))
    assert (found.vm_state, found.task_state, found.power_state) == ("building", "spawning", 0)


def test_newer_image_properties_are_all_there_are():
    known = Instance(uuid="u1", image_properties={"a": "1", "b": "2"})
    newer = Instance(uuid="u1", image_properties={})
    assert merge(known, newer).image_properties == {}


NAMES = ("project_id", "vcpus", "vm_state", "task_state")
INSTANCES = st.builds(
    Instance,
    uuid=st.just("u1"),
    project_id=st.none() | st.sampled_from("ab"),
    vcpus=st.none() | st.integers(0, 2),
    vm_state=st.none() | st.sampled_from("sr"),
    task_state=st.none() | st.sampled_from("tu"),
    instance_type_id=st.none() | st.integers(0, 1),
    flavor_name=st.none() | st.sampled_from("xy"),
)


@given(INSTANCES, INSTANCES)
def test_what_is_newer_always_counts(known, newer):
    found = merge(known, newer)
    for name in (*NAMES, "instance_type_id", "flavor_name"):
        if getattr(newer, name) is not None:
            assert getattr(found, name) == getattr(newer, name)
        else:
            assert getattr(found, name) in (getattr(known, name), None)
    assert merge(known, known) == known
    assert merge(found, newer) == found
