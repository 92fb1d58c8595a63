# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.row_index."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler.hosts.row_index import EVERY, InstanceIndex, traits
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.instance import Instance

ROWS = st.integers(0, 3)
UUIDS = st.sampled_from(["u1", "u2", "u3"])
INSTANCES = st.builds(
    Instance,
    UUIDS,
    instance_type_id=st.none() | st.integers(1, 2),
    flavor_name=st.none() | st.just("small"),
    image_properties=st.none() | st.just({"os_distro": "debian"}),
)
TRAITS = [EVERY, ("flavor_id", 1), ("flavor_name", "small"), ("image", "os_distro", "debian")]


class ResidentsMachine(RuleBasedStateMachine):
    """Indexes and copies of them, each beside a dictionary of dictionaries.

    What was copied is not changed any more.
    """

    @initialize()
    def begin(self):
        self.all = [(InstanceIndex(), {})]
        self.copied = set()

    def one(self, data):
        return data.draw(
            st.sampled_from([one for one in self.all if id(one[0]) not in self.copied])
        )

    @rule(data=st.data(), row=ROWS, uuid=UUIDS, instance=INSTANCES)
    def add(self, data, row, uuid, instance):
        index, model = self.one(data)
        index.add(row, uuid, instance)
        model.setdefault(row, {})[uuid] = instance

    @rule(data=st.data(), row=ROWS, uuid=UUIDS)
    def discard(self, data, row, uuid):
        index, model = self.one(data)
        index.change(row, {}, [uuid])
        model.get(row, {}).pop(uuid, None)

    @rule(data=st.data(), row=ROWS, instances=st.dictionaries(UUIDS, INSTANCES))
    def replace(self, data, row, instances):
        index, model = self.one(data)
        index.replace(row, instances)
        model[row] = dict(instances)

    @rule(data=st.data(), row=ROWS, added=st.dictionaries(UUIDS, INSTANCES), gone=st.lists(UUIDS))
    def change(self, data, row, added, gone):
        index, model = self.one(data)
        index.change(row, added, gone)
        left = {uuid: each for uuid, each in model.get(row, {}).items() if uuid not in gone}
        model[row] = left | added

    @rule(data=st.data())
    def copy(self, data):
        index, model = data.draw(st.sampled_from(self.all))
        self.copied.add(id(index))
        copied = {row: dict(instances) for row, instances in model.items()}
        self.all = [*self.all, (InstanceIndex(index), copied)]

    @rule(data=st.data(), trait=st.sampled_from(TRAITS), size=st.integers(4, 6))
    def count(self, data, trait, size):
        index, model = self.one(data)
        expected = [
            sum(trait in traits(each) for each in model.get(row, {}).values())
            for row in range(size)
        ]
        assert index.count(trait, size).tolist() == expected

    @invariant()
    def same(self):
        for index, model in getattr(self, "all", []):
            for row in range(4):
                assert dict(index.on(row)) == model.get(row, {})
            assert set(index.occupied()) == {row for row in model if model[row]}
            for uuid in ("u1", "u2", "u3"):
                rows = {row for row in model if uuid in model[row]}
                assert set(index.rows_of(uuid)) == rows


TestResidents = ResidentsMachine.TestCase
TestResidents.settings = settings(stateful_step_count=25)


def test_a_mapping_that_was_read_does_not_change_later():
    index = InstanceIndex()
    index.add(0, "u1", "first")
    seen = index.on(0)
    index.add(0, "u2", "second")
    index.change(0, {}, ["u1"])
    assert seen == {"u1": "first"}


def test_an_instance_counts_by_the_id_of_its_flavor_else_by_its_name():
    assert set(traits(Instance("u", flavor=Flavor(1, 1, 1, id=5, name="small")))) == {
        EVERY,
        ("flavor_id", 5),
    }
    assert set(traits(Instance("u", flavor_name="small"))) == {EVERY, ("flavor_name", "small")}
    assert set(traits(Instance("u"))) == {EVERY}


def test_what_is_counted_is_bounded():
    index = InstanceIndex()
    index.add(0, "u", Instance("u", instance_type_id=99))
    for identity in range(200):
        index.count(("flavor_id", identity), 1)
    assert len(index._counts) == 128
    index.add(5, "v", Instance("v", instance_type_id=199))
    assert index.count(("flavor_id", 199), 6).tolist() == [0, 0, 0, 0, 0, 1]


def test_each_change_is_logged_with_its_row():
    index = InstanceIndex()
    index.add(3, "u1", Instance("u1"))
    before = index.changes.position
    index.add(2, "u1", Instance("u1"))
    index.change(3, {}, ["u1"])
    index.replace(1, {})
    assert index.changes.since(before) == [2, 3, 1]
