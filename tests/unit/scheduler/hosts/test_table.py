# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.hosts.table, most of them against a table made of dictionaries."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.hosts.columns import FLAGS, FLOATS, INTEGERS, NUMBERS, OBJECTS
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance
from tests.hosts import a_host, a_table, hosts_with

UNSET = {
    **dict.fromkeys(INTEGERS, 0),
    **dict.fromkeys(FLOATS, None),
    **dict.fromkeys(FLAGS, False),
    **dict.fromkeys(OBJECTS, None),
}
NAMES = sorted(UNSET.keys() - {"host", "nodename"})
HOSTS = st.sampled_from(["h1", "H1", "h2", "h3"])
NODES = st.sampled_from(["n1", "n2", "N1"])
UUIDS = st.sampled_from(["u1", "u2", "u3"])
LISTS = [[1], [1], {"a": 1}]
OF_KIND = {
    **dict.fromkeys(INTEGERS, st.none() | st.integers(-(2**40), 2**40)),
    **dict.fromkeys(FLOATS, st.none() | st.floats(allow_nan=False)),
    **dict.fromkeys(FLAGS, st.booleans()),
    **dict.fromkeys(OBJECTS, st.sampled_from([None, "x", "y", 1, 1.0, True, *LISTS])),
}


class Model:
    """A table as one would write it without caring for speed."""

    def __init__(self):
        self.rows = {}
        self.instances = {}

    def copy(self):
        other = Model()
        other.rows = {place: dict(values) for place, values in self.rows.items()}
        other.instances = {place: dict(there) for place, there in self.instances.items()}
        return other


def assert_same(table, model):
    """Compare all that can be read of a table with its model."""
    assert len(table) == len(model.rows)
    rows = {place: table.row_of(*place) for place in model.rows}
    assert sorted(table.rows()) == sorted(rows.values())
    assert np.flatnonzero(table.present).tolist() == sorted(rows.values())
    assert len(table.instances._by_row) <= table.size
    for place, values in model.rows.items():
        row = rows[place]
        assert (table.get(row, "host"), table.get(row, "nodename")) == place
        for name, value in values.items():
            found = table.get(row, name)
            assert (type(found), found) == (type(value), value), name
        assert dict(table.instances.on(row)) == model.instances[place]
    hosts = {host for host, _ in model.rows}
    for host in hosts | {"unknown"}:
        same = [rows[place] for place in model.rows if place[0] == host]
        assert sorted(table.rows_of_host(host)) == sorted(same)
        folded = [rows[place] for place in model.rows if place[0].lower() == host.lower()]
        assert sorted(table.rows_of_host(host, any_case=True)) == sorted(folded)
    for uuid in ("u1", "u2", "u3"):
        there = [rows[place] for place in model.rows if uuid in model.instances[place]]
        assert sorted(table.instances.rows_of(uuid)) == sorted(there)


class TableMachine(RuleBasedStateMachine):
    """Changes a table and its model in the same way, and now and then a working copy of both."""

    @initialize()
    def begin(self):
        self.table, self.model = HostTable(), Model()
        self.original = self.left = None

    def a_place(self, data):
        return data.draw(st.sampled_from(sorted(self.model.rows)))

    # A working copy serves one request, which consumes but brings no hosts.
    @precondition(lambda self: self.original is None)
    @rule(host=HOSTS, node=NODES)
    def add(self, host, node):
        if (host, node) not in self.model.rows:
            row = self.table.add(host, node)
            assert row == self.table.row_of(host, node)
            self.model.rows[host, node] = {name: UNSET[name] for name in NAMES}
            self.model.instances[host, node] = {}

    @precondition(lambda self: self.original is None and self.model.rows)
    @rule(data=st.data())
    def remove(self, data):
        place = self.a_place(data)
        self.table.remove(self.table.row_of(*place))
        assert self.table.row_of(*place) is None
        del self.model.rows[place], self.model.instances[place]

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def set(self, data, name):
        place, value = self.a_place(data), data.draw(OF_KIND[name])
        self.table.set(self.table.row_of(*place), name, value)
        unset = UNSET[name] if value is None else value
        self.model.rows[place][name] = float(unset) if name in FLOATS and unset else unset

    @precondition(lambda self: self.model.rows)
    @rule(name=st.sampled_from(INTEGERS), value=st.integers(0, 9))
    def fill(self, name, value):
        # fill() writes into holes too, so what it gets has to leave them unset.
        self.table.fill(name, np.where(self.table.present, value, 0))
        for values in self.model.rows.values():
            values[name] = value

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data(), uuid=UUIDS)
    def add_instance(self, data, uuid):
        place, instance = self.a_place(data), Instance(uuid=uuid)
        self.table.instances.add(self.table.row_of(*place), uuid, instance)
        self.model.instances[place][uuid] = instance

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data(), uuid=UUIDS)
    def remove_instance(self, data, uuid):
        place = self.a_place(data)
        self.table.instances.change(self.table.row_of(*place), {}, [uuid])
        self.model.instances[place].pop(uuid, None)

    @precondition(lambda self: self.original is None)
    @rule()
    def copy(self):
        self.original = (self.table, self.model.copy())
        self.table = self.table.working_copy()

    @precondition(lambda self: self.original is None)
    @rule(stays=st.booleans())
    def detach(self, stays):
        """Go on with a table or with the one made of it; the other of them stays as it is."""
        tables = self.table, self.table.detached()
        self.table, other = tables if stays else reversed(tables)
        self.left = other, self.model.copy()

    @precondition(lambda self: self.original is not None)
    @rule()
    def drop_copy(self):
        self.table, self.model = self.original
        self.original = None

    @invariant()
    def same(self):
        if hasattr(self, "table"):
            assert_same(self.table, self.model)
            if self.original:
                assert_same(*self.original)
            if self.left:
                assert_same(*self.left)


TestTable = TableMachine.TestCase
TestTable.settings = settings(stateful_step_count=25)


def test_every_column_has_a_model():
    assert set(UNSET) == NUMBERS | set(OBJECTS)


def test_a_reused_row_is_as_empty_as_a_new_one():
    table = a_table(a_host("h1", failed_builds=3, forced_down=True, instances=["u1"]))
    table.remove(0)
    assert table.add("h2", "n2") == 0
    fresh = HostTable()
    fresh.add("h2", "n2")
    for name in UNSET:
        assert table.get(0, name) == fresh.get(0, name), name
    assert table.instances.on(0) == {}


def test_columns_hold_one_element_for_each_row_and_cannot_be_written():
    table = a_table(*(a_host(f"h{each}", free_ram_mb=each) for each in range(40)))
    table.remove(7)
    assert len(table.free_ram_mb) == table.size == 40
    assert table.free_ram_mb[39] == 39
    with pytest.raises(ValueError, match="read-only"):
        table.free_ram_mb[0] = 1


def test_unknown_columns_are_no_attributes():
    with pytest.raises(AttributeError, match="no column of numbers called host"):
        _ = HostTable().host


def test_limits_and_warnings_of_a_copy_are_its_own():
    table = a_table(a_host())
    table.limits.of(0)["vcpu"] = 1
    copy = table.working_copy()
    assert dict(copy.limits.of(0)) == {}
    copy.limits.of(0)["vcpu"] = 2
    copy.warn("once")
    copy.warn("once")
    assert list(copy.warnings) == ["once"]
    assert table.warnings == {}
    assert dict(table.limits.of(0)) == {"vcpu": 1.0}


def test_what_was_made_of_values_is_not_shared_by_a_table_of_its_own():
    table = a_table(a_host("h1", host_ip="a"), a_host("h2", host_ip="b"))
    other = table.detached()
    assert other.memo("host_ip", "length", lambda ip: len(ip or ""), int).tolist() == [1, 1]
    table.set(0, "host_ip", "abc")
    assert table.memo("host_ip", "length", lambda ip: len(ip or ""), int).tolist() == [3, 1]
    assert other.memo("host_ip", "length", lambda ip: len(ip or ""), int).tolist() == [1, 1]
    row = table.add("h3", "n3")
    assert (other.size, other.add("h4", "n4")) == (2, row)
    assert other.detached().write_position == other.write_position


def test_sharing_a_value_by_its_key():
    table = a_table(a_host("h1"), a_host("h2"))
    made = []

    def make(text):
        made.append(text)
        return [text]

    table.share([0, 1], "stats", ["text", "text"], make)
    assert table.get(0, "stats") is table.get(1, "stats")
    table.share([1], "stats", ["other"], make)
    table.share([0], "stats", ["other"], make)
    assert table.get(0, "stats") is table.get(1, "stats")
    # No row had it any more.
    table.share([0], "stats", ["text"], make)
    assert made == ["text", "other", "text"]


WRITES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2])), max_size=6)


@given(WRITES, WRITES)
# A row that is written twice is the only one to lose its value.
@example([(0, 0), (1, 0)], [(0, 1), (0, 1)])
@example([(0, 0), (1, 0)], [(0, 1), (0, 0)])
def test_writing_rows_at_once_is_writing_one_by_one(first, second):
    at_once, one_by_one = (a_table(*(a_host(f"h{i}") for i in range(4))) for _ in range(2))
    columns = {
        "free_ram_mb": [1, None, -3],
        "cpu_allocation_ratio": [1.5, None, 0.0],
        "forced_down": [True, None, False],
        "host_ip": ["a", None, "b"],
        "metrics": [[1], None, [2]],
    }
    for name, values in columns.items():
        for writes in (first, second):
            at_once.write([row for row, _ in writes], name, [values[each] for _, each in writes])
            for row, each in writes:
                one_by_one.set(row, name, values[each])
        found = [[table.get(row, name) for row in range(4)] for table in (at_once, one_by_one)]
        assert found[0] == found[1]
    assert at_once.codes("host_ip").tolist() == one_by_one.codes("host_ip").tolist()


def test_only_what_differs_is_written():
    table = a_table(*(a_host(f"h{i}", free_ram_mb=i, host_ip=f"{i}") for i in range(3)))
    before = table.write_position
    table.write([0, 1, 2], "free_ram_mb", [0, 1, 5])
    table.write([0, 1, 2], "host_ip", ["0", "7", "2"])
    assert table.written_since(before) == ([], [("free_ram_mb", 2, 5), ("host_ip", 1, "7")])
    assert table.written_since(table.write_position) == ([], [])
    table.fill("free_ram_mb", np.arange(3.0))
    assert table.written_since(table.write_position - 1) == (["free_ram_mb"], [])
    assert table.working_copy().written_since(0) is None


def test_rows_are_added_together():
    table = a_table(a_host("h1"), a_host("h2"), a_host("h3"))
    table.remove(1)
    before = table.write_position
    rows = table.add_each([("h4", "n1"), ("h4", "n2")])
    assert sorted(rows) == [1, 3]
    assert [table.row_of("h4", name) for name in ("n1", "n2")] == rows
    assert sorted(table.rows_of_host("h4")) == [1, 3]
    _, elements = table.written_since(before)
    assert [row for name, row, _ in elements if name == "free_ram_mb"] == [1, 3]
    assert table.present.all()
    assert len(table) == 4


@given(st.lists(st.tuples(st.sampled_from([0, 1, 5]), st.sampled_from(["a", "b", None]))))
def test_codes_are_equal_exactly_where_values_are(rows):
    table = a_table(
        *(a_host(f"h{i}", failed_builds=n, host_ip=ip) for i, (n, ip) in enumerate(rows))
    )
    for name, values in (
        ("failed_builds", [n for n, _ in rows]),
        ("host_ip", [ip for _, ip in rows]),
    ):
        codes = table.codes(name).tolist()
        for i, first in enumerate(values):
            for j, second in enumerate(values):
                assert (codes[i] == codes[j]) == (first == second)


def test_codes_of_instances_differ_for_each_occupied_row():
    table = a_table(a_host("h1"), a_host("h2", instances=["u1"]), a_host("h3", instances=["u2"]))
    assert table.codes("instances").tolist() == [0, 2, 3]


def test_hosts_come_and_go_without_growth():
    table = HostTable()
    for each in range(2000):
        table.add(f"h{each}", "n")
    for each in range(2000):
        table.remove(table.row_of(f"h{each}", "n"))
        table.add(f"new{each}", "n")
    assert table.size == 2000
    assert len(table.distinct("host")) <= 2002


def test_a_condition_is_called_once_for_each_value():
    hosts = hosts_with("hypervisor_type", {"h1": "kvm", "h2": "xen", "h3": "kvm", "h4": None})
    asked = []

    def holds(value):
        asked.append(value)
        return value != "xen"

    assert hosts.rows_where("hypervisor_type", holds).tolist() == [True, False, True, True]
    assert sorted(asked, key=str) == [None, "kvm", "xen"]


def test_an_empty_table_has_no_rows_with_a_value():
    assert a_table().rows_where("host", lambda value: True).tolist() == []
