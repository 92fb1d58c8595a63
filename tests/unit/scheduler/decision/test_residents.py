# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.residents."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler.decision.residents import Residents

ROWS = st.integers(0, 3)
UUIDS = st.sampled_from(["u1", "u2", "u3"])
INSTANCES = st.integers(0, 9)


class ResidentsMachine(RuleBasedStateMachine):
    """Residents and copies of them, each beside a dictionary of dictionaries."""

    @initialize()
    def begin(self):
        self.all = [(Residents(), {})]

    def one(self, data):
        return data.draw(st.sampled_from(self.all))

    @rule(data=st.data(), row=ROWS, uuid=UUIDS, instance=INSTANCES)
    def add(self, data, row, uuid, instance):
        residents, model = self.one(data)
        residents.add(row, uuid, instance)
        model.setdefault(row, {})[uuid] = instance

    @rule(data=st.data(), row=ROWS, uuid=UUIDS)
    def discard(self, data, row, uuid):
        residents, model = self.one(data)
        residents.discard(row, uuid)
        model.get(row, {}).pop(uuid, None)

    @rule(data=st.data(), row=ROWS, instances=st.dictionaries(UUIDS, INSTANCES))
    def replace(self, data, row, instances):
        residents, model = self.one(data)
        residents.replace(row, instances)
        model[row] = dict(instances)

    @rule(data=st.data())
    def copy(self, data):
        residents, model = self.one(data)
        copied = {row: dict(instances) for row, instances in model.items()}
        self.all = [*self.all, (residents.copy(), copied)][-4:]

    @invariant()
    def same(self):
        for residents, model in getattr(self, "all", []):
            for row in range(4):
                assert dict(residents.on(row)) == model.get(row, {})
            assert set(residents.occupied()) == {row for row in model if model[row]}
            for uuid in ("u1", "u2", "u3"):
                rows = {row for row in model if uuid in model[row]}
                assert set(residents.rows_of(uuid)) == rows


TestResidents = ResidentsMachine.TestCase
TestResidents.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)


def test_a_mapping_that_was_read_does_not_change_later():
    residents = Residents()
    residents.add(0, "u1", "first")
    seen = residents.on(0)
    residents.add(0, "u2", "second")
    residents.discard(0, "u1")
    assert seen == {"u1": "first"}
