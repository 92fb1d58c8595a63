# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions and snapshots become bytes, in small steps, and are what they were again."""

import json
import math
import zlib
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.types import Decision, Placement, PlacementFailure
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.history import serialization, snapshot_documents
from scheduler.history.serialization import (
    DecisionBatch,
    DecisionDocument,
    DecisionsRead,
    document_from_bytes,
    document_of,
    release,
    snapshots_from_bytes,
    snapshots_to_bytes,
)
from scheduler.history.tagged_json import identical
from scheduler.hosts.flavor_mix import FlavorShare
from scheduler.hosts.host_state import Candidate
from scheduler.hosts.snapshots import Snapshot, SnapshotLog, restore
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.instance import Instance
from scheduler.objects.request_spec import RequestSpec
from scheduler.request_trace import REFUSED, RequestTrace
from scheduler.wire.context import RequestContext
from tests.builders import a_request, an_image
from tests.contract.drawn import requests
from tests.hosts import a_host, a_table, an_aggregate
from tests.unit.scheduler.history import kept_decisions
from tests.unit.scheduler.history.batches import as_version_2, of_bytes, through_bytes, to_bytes
from tests.unit.scheduler.history.test_tagged_json import VALUES

READERS = (of_bytes, document_from_bytes, snapshots_from_bytes)


def packed(document):
    return zlib.compress(json.dumps(document).encode())


def unpacked(document):
    """Return a document as releases wrote it that had no batches, as JSON."""
    return json.loads(zlib.decompress(as_version_2(document)))


def snapshot_to_bytes(snapshot, *pause):
    return snapshots_to_bytes([snapshot], *pause)


def snapshot_from_bytes(data):
    (snapshot,) = snapshots_from_bytes(data)
    return snapshot


def a_record(**changes):
    request = Request(a_request(), ["u1", "u2", None], alternates=1, seed=3)
    decision = decide(a_table(a_host("h1"), a_host("h2")), request, Plan())
    return DecisionDocument(request, decision, **changes)


def a_snapshot(*hosts):
    table = a_table(*(hosts or [a_host("h1"), a_host("h2"), a_host("h3")]))
    table.set_time(5.0)
    return SnapshotLog().take(table)


def test_a_record_is_the_same_again():
    record = a_record(
        instance_uuids=("u1", "u2", None, "u0"),
        caller=RequestContext("req-1", roles=("admin",)),
        settings={"filter_scheduler": {"enabled_filters": ["RamFilter"], "ram": 1.5}},
        outcome="given_up",
        conflicts=2,
        view_age=math.inf,
        seconds={"decide": 0.1},
        total=2,
        release="9.9.9",
    )
    assert len(record.decision.placements) == 3
    assert through_bytes(record) == record
    refused = DecisionDocument(
        record.request, Decision(shortage=PlacementFailure(0, None, (), "no"))
    )
    assert through_bytes(refused) == refused


def test_a_record_is_made_of_a_course_if_anything_was_decided():
    caller, record = RequestContext("req-1"), a_record()
    trace = RequestTrace(caller, ["u1", "u2"], 5.0)
    assert document_of(trace) is None
    trace.request, trace.driver = record.request, FilterScheduler(Plan())
    trace.driver.settings = {"a": {"b": 1}}
    assert document_of(trace) is None
    trace.decision, trace.outcome, trace.conflicts = record.decision, REFUSED, 4
    trace.seconds, trace.total, trace.view_age = {"queue": 1.0}, 2.0, 0.5
    found = document_of(trace)
    assert found == DecisionDocument(
        record.request,
        record.decision,
        ("u1", "u2"),
        caller,
        {"a": {"b": 1}},
        REFUSED,
        4,
        0.5,
        {"queue": 1.0},
        2.0,
        release(),
    )


@pytest.mark.parametrize("name", kept_decisions.documents())
def test_a_record_with_everything_that_it_may_have_is_the_same_again(name):
    record = kept_decisions.documents()[name]
    found, request = through_bytes(record), record.request
    # The type of these says no more than that they are a sequence.
    same = replace(request, instance_uuids=[*request.instance_uuids], places=(*request.places,))
    for each in fields(record):
        expected = same if each.name == "request" else getattr(record, each.name)
        assert identical(getattr(found, each.name), expected)


@settings(max_examples=50)
@given(requests(), VALUES, VALUES, VALUES)
def test_what_nobody_knows_the_type_of_is_the_same_again(spec, limit, setting, fact):
    spec.image = an_image(fact=fact)
    candidate = Candidate(0, "h1", "n1", None, None, {"vcpu": 1.0, "theirs": limit}, math.nan)
    decision = Decision((Placement(None, candidate, (), (), (candidate,)),))
    record = DecisionDocument(Request(spec, [None]), decision, settings={"theirs": {"a": setting}})
    found = through_bytes(record)
    assert identical(found.request, record.request)
    assert identical(found.decision, decision)
    assert identical(found.settings, record.settings)


@settings(max_examples=50)
@given(VALUES, st.sampled_from([each.name for each in fields(RequestSpec)]))
def test_what_a_plugin_has_put_where_it_does_not_belong_costs_no_decision(value, name):
    spec = a_request()
    setattr(spec, name, value)
    record = DecisionDocument(Request(spec, ["u1"]), Decision())
    found = through_bytes(record)
    assert found.decision == record.decision
    assert type(found.request.spec) is RequestSpec


def test_a_record_of_another_release_is_read():
    document = unpacked(a_record())
    document["record"]["mood"] = {"=Mood": {}}
    del document["record"]["outcome"]
    assert document_from_bytes(packed(document)) == a_record()


@pytest.mark.parametrize("name", [each.name for each in fields(DecisionDocument)])
def test_a_record_has_what_it_ought_to_have(name):
    document = unpacked(a_record())
    document["record"][name] = {"=Unknown": {"kind": "a"}}
    with pytest.raises(ValueError, match=f"{name} is not of type "):
        document_from_bytes(packed(document))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("request", "the request is missing"),
        ("decision", "the decision is missing"),
        ("placements", "the placements are missing"),
    ],
)
def test_a_record_without_its_parts_is_none(name, complaint):
    document = unpacked(a_record())
    del document["record"][name]
    with pytest.raises(ValueError, match=complaint):
        document_from_bytes(packed(document))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "cut off"),
        (b"odd", "cannot be unpacked"),
        (zlib.compress(b"\xff\xff"), "."),
        (zlib.compress(b"[" * 100_000), "nested too deep"),
        (packed([]), "not a JSON object"),
        (packed({}), "version None"),
        (packed({"version": True}), "version True"),
        (packed({"version": 4, "record": {}, "snapshots": []}), "version 4; this release reads up"),
        (packed({"version": 1}), "missing"),
        (packed({"version": 2, "record": {"placements": [1]}, "snapshots": [1]}), "missing"),
    ],
)
@pytest.mark.parametrize("read", READERS[1:])
def test_what_is_no_document_is_refused(read, data, complaint):
    with pytest.raises(ValueError, match=complaint):
        read(data)


def test_placements_are_placements():
    document = unpacked(a_record())
    document["record"]["placements"] = [1]
    with pytest.raises(ValueError, match="placements have something else"):
        document_from_bytes(packed(document))


def test_bytes_that_are_cut_off_or_too_large_are_refused(monkeypatch):
    some = [to_bytes(a_record()), as_version_2(a_record()), snapshot_to_bytes(a_snapshot())]
    for read, data in zip(READERS, some, strict=True):
        with pytest.raises(ValueError, match="cut off or too large"):
            read(data[:-5])
    monkeypatch.setattr(serialization, "MAX_BYTES", 100)
    for read, data in zip(READERS, some, strict=True):
        with pytest.raises(ValueError, match="cut off or too large"):
            read(data)


def test_any_number_of_snapshots_is_packed():
    snapshot = a_snapshot()
    assert snapshot_from_bytes(snapshot_to_bytes(snapshot)).size == 3
    assert snapshots_from_bytes(snapshots_to_bytes([snapshot, snapshot]))[1].size == 3
    assert snapshots_from_bytes(snapshots_to_bytes([])) == []


def test_work_is_done_in_small_steps(monkeypatch):
    moments = iter(range(10**6))
    monkeypatch.setattr(serialization, "monotonic", lambda: next(moments))
    hosts = [a_host(f"h{n}", metrics=[{"name": "a", "value": n}]) for n in range(600)]
    snapshot = a_snapshot(*hosts)
    pauses = []
    data = snapshot_to_bytes(snapshot, lambda: pauses.append(None))
    # Every value that is new, and every few hundred rows.
    assert len(pauses) > 600
    assert snapshot_to_bytes(snapshot) == data
    pauses.clear()
    record = a_record()
    batch = DecisionBatch()
    for number in range(100):
        batch.add(number, record)
    assert DecisionsRead(batch.to_bytes(lambda: pauses.append(None))).get(7) == record
    assert len(pauses) > 5


def test_values_that_rows_share_are_written_once_and_shared_again():
    aggregate = an_aggregate(*(f"host-{n}" for n in range(50)))
    flavor, stats = Flavor(1, 2, 3, id=7), {"a": "b"}
    sets = [[aggregate, an_aggregate(f"own{n}")] for n in range(2)]
    hosts = [a_host(f"h{n}", aggregates=sets[n % 2], stats=stats) for n in range(600)]
    for number, host in enumerate(hosts):
        host.instances = {f"u{number}": Instance(f"u{number}", flavor=replace(flavor))}
    data = snapshot_to_bytes(a_snapshot(*hosts))
    assert zlib.decompress(data).count(b'host-7"') == 1
    assert zlib.decompress(data).count(b"rxtx_factor") == 1
    snapshot = snapshot_from_bytes(data)
    sets = [*snapshot.columns["aggregates"]]
    assert len({id(each) for each in sets}) == 2
    assert len({id(each[0]) for each in sets}) == 1
    assert sets[7] == hosts[7].aggregates
    assert len({id(each) for each in snapshot.columns["stats"]}) == 1
    flavors = [each.flavor for here in snapshot.instances.values() for each in here.values()]
    assert len({id(each) for each in flavors}) == 1
    assert flavors[0] == flavor
    assert [*snapshot.instances[7]] == ["u7"]


def test_an_instance_may_be_known_by_another_uuid():
    host = a_host("h1")
    host.instances = {"u1": Instance("other"), "u2": Instance("u2", host="h1")}
    snapshot = snapshot_from_bytes(snapshot_to_bytes(a_snapshot(host)))
    assert snapshot.instances == {0: dict(host.instances)}
    assert [*snapshot.instances[0]] == ["u1", "u2"]


def test_what_no_release_can_write_is_left_out_of_a_table():
    snapshot = snapshot_from_bytes(snapshot_to_bytes(a_snapshot(a_host("h1", stats=object()))))
    assert "Unknown" in repr([*snapshot.columns["stats"]])
    assert restore([snapshot]).row_of("h1", "h1") == 0


NUMBERS = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 5e-324, 1.5e308])
COLUMN_OF = {float: "updated", int: "node_id", bool: "forced_down"}


def a_table_with(column, values):
    """Return a table whose rows have these values in a column."""
    table = a_table(*(a_host(f"h{number}") for number in range(len(values))))
    table.write(range(len(values)), column, values)
    return table


def both_ways(snapshot):
    """Return a snapshot of a whole table as it is read from the database, and from a file."""
    text = "".join(snapshot_documents.json_pieces(snapshot))
    parsed = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    return snapshot_from_bytes(snapshot_to_bytes(snapshot)), snapshot_documents.of_json(parsed)


@settings(max_examples=50)
@given(
    st.lists(NUMBERS, min_size=1, max_size=9)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9)
    | st.lists(st.booleans(), min_size=1, max_size=9)
)
def test_numbers_are_the_same_to_the_bit(values):
    name = COLUMN_OF[type(values[0])]
    table, log = a_table_with(name, values), SnapshotLog()
    first = log.take(table)
    for found in both_ways(first):
        assert found.columns[name].tobytes() == first.columns[name].tobytes()
    table.set(0, name, values[-1])
    second = log.take(table)
    found = restore([first, snapshot_from_bytes(snapshot_to_bytes(second))])
    assert identical(found.get(0, name), table.get(0, name))


# Lone surrogates and large numbers have no place in MessagePack.
OBJECTS = [None, "a", "b", 1, 1.0, True, (1,), ("a", 2), "\ud800", 10**30, [math.nan, {"a": None}]]


@settings(max_examples=50)
@given(st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=9), st.sampled_from(OBJECTS))
def test_objects_are_the_same_again(values, later):
    table, log = a_table_with("cpu_info", values), SnapshotLog()
    first = log.take(table)
    for found in both_ways(first):
        assert identical([*found.columns["cpu_info"]], values)
    table.set(0, "cpu_info", later)
    name = later if type(later) is str else None
    table.instances.add(0, "u1", Instance("u1", host=name))
    second = snapshot_from_bytes(snapshot_to_bytes(log.take(table)))
    assert identical([*second.elements], [("cpu_info", 0, later)])
    assert identical(second.instance_changes, {0: {"u1": Instance("u1", host=name)}})


HEAD = {"log_id": 1, "number": 0, "size": 2, "numa_packing": False, "time": 1.0}
NOBODY = {"rows": [], "counts": {"each": []}, "facts": {"uuid": {"each": []}}}
EMPTY = HEAD | {"columns": {}, "instances": NOBODY}


def a_share(**changes):
    share = {"vcpus": 1, "memory_mb": 2048, "disk_mb": 0, "share": 0.5}
    return {"=FlavorShare": share | changes}


def with_column(name, **part):
    return EMPTY | {"columns": {name: {"rows": None} | part}}


def with_residents(**changes):
    one = {"rows": [1], "counts": {"each": [1]}, "facts": {"uuid": {"each": ["u1"]}}}
    return EMPTY | {"instances": one | changes}


def test_a_snapshot_of_another_release_is_read():
    document = with_column("free_ram_mb", column={"each": [1, 2]}, mood="good")
    document["columns"]["mood"] = 7
    found = snapshot_from_bytes(packed({"version": 2, "snapshots": [document | {"mood": 1}]}))
    assert found.columns["free_ram_mb"].tolist() == [1, 2]
    assert [*found.columns] == ["free_ram_mb"]
    document = with_residents()
    document["instances"]["facts"]["mood"] = 7
    found = snapshot_from_bytes(packed({"version": 2, "snapshots": [document]}))
    assert found == Snapshot(1, 0, 2, 1.0, instances={1: {"u1": Instance("u1")}})
    document = EMPTY | {"flavor_mix": [a_share(), a_share(vcpus=2, mood=7)]}
    found = snapshot_from_bytes(packed({"version": 2, "snapshots": [document]})).flavor_mix
    assert found == (FlavorShare(1, 2048, 0, 0.5), FlavorShare(2, 2048, 0, 0.5))
    rows = with_column("free_ram_mb", column={"all": None}, rows=[1])
    found = snapshot_from_bytes(packed({"version": 2, "snapshots": [rows]}))
    assert [*found.elements] == [("free_ram_mb", 1, None)]


@pytest.mark.parametrize(
    "document",
    [
        1,
        EMPTY | {"size": -1},
        EMPTY | {"size": 10**9},
        EMPTY | {"size": 2.0},
        EMPTY | {"size": True},
        EMPTY | {"time": "now"},
        EMPTY | {"columns": None},
        EMPTY | {"instances": None},
        HEAD,
        with_column("uuid"),
        with_column("uuid", column=[]),
        with_column("uuid", column={"each": [1]}),
        with_column("uuid", column={"each": {}}),
        with_column("uuid", column={"values": ["a"]}),
        with_column("uuid", column={"values": ["a"], "codes": [0, 1]}),
        with_column("uuid", column={"values": ["a"], "codes": [0, -1]}),
        with_column("uuid", column={"values": ["a"], "codes": [0, True]}),
        with_column("uuid", column={"values": ["a"], "codes": [0]}),
        with_column("uuid", column={"all": {"=shared": 0}}),
        with_column("uuid", column={"all": {"=shared": 0}, "shared": 5}),
        with_column("uuid", column={"all": 1}, rows=[2]),
        with_column("uuid", column={"all": 1}, rows=[-1]),
        with_column("uuid", column={"all": 1}, rows=["1"]),
        with_column("uuid", column={"all": 1}, rows=3),
        with_column("host", column={"all": 1}),
        with_column("free_ram_mb", column={"all": "much"}),
        with_column("free_ram_mb", column={"all": 2**63}),
        with_column("free_ram_mb", column={"all": 2**63}, rows=[1]),
        with_column("free_ram_mb", column={"all": {"=float": "inf"}}),
        with_column("free_ram_mb", column={"all": {"=float": "nan"}}),
        EMPTY | {"columns": {"uuid": 5}},
        with_residents(rows=[2]),
        with_residents(counts={"each": [-1]}),
        with_residents(counts={"each": ["1"]}),
        with_residents(counts={"all": 10**9}),
        with_residents(counts={"all": 2}),
        with_residents(facts={}),
        with_residents(facts=[]),
        with_residents(facts={"uuid": {"all": 1}}),
        with_residents(uuids={"all": None}),
        EMPTY | {"flavor_mix": ["4:8192"]},
        EMPTY | {"flavor_mix": [a_share(share=0)]},
        EMPTY | {"flavor_mix": [a_share(share=1.5)]},
        EMPTY | {"flavor_mix": [a_share(share={"=float": "nan"})]},
        EMPTY | {"flavor_mix": [a_share(vcpus=-1)]},
        EMPTY | {"flavor_mix": [a_share(memory_mb=2**50)]},
        EMPTY | {"flavor_mix": [a_share(disk_mb="much")]},
        EMPTY | {"flavor_mix": [a_share()] * 65},
    ],
    ids=str,
)
def test_what_is_no_snapshot_is_refused(document):
    with pytest.raises(ValueError, match=r"."):
        snapshots_from_bytes(packed({"version": 2, "snapshots": [document]}))
