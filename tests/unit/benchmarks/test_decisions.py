# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.decisions and of what benchmarks beside Nova share."""

import json
import sys
from itertools import islice

import pytest

from benchmarks import comparable, nova, wire
from benchmarks.decisions import __main__ as decisions
from benchmarks.decisions import cases, keeping, streams
from benchmarks.decisions.cases import Case
from benchmarks.decisions.growth import exponent, growth
from benchmarks.decisions.report import report
from benchmarks.decisions.sides import Nova, Numpy, Ours
from benchmarks.figures import FLOOR, NOVA, OURS, Figure, find
from tests.fixtures import availability


@pytest.fixture(scope="module")
def peer():
    availability.require(availability.NOVA)
    with nova.a_peer("benchmarks.peer.decisions") as found:
        yield found


def _figure(who, milliseconds, **case):
    return Figure("decide", who, "ms", [milliseconds], Case(**case).to_dict(), {"same_hosts": True})


@pytest.mark.parametrize(
    "case",
    [
        Case(60, 40),
        Case(60, 10, weighing=cases.STACK),
        Case(60, 10, aggregate_sets=2_000),
        Case(60, 10, list=cases.COMPARABLE),
        Case(60, 10, grouped=0.1),
        Case(60, 3, grouped=0.1, policy=cases.AFFINITY),
    ],
)
def test_nova_chooses_the_same_hosts(case, peer):
    fleet = case.fleet()
    wish, rival = case.wish(fleet), Nova(peer, fleet)
    rival.set(case.settings)
    ours = Ours(fleet.table(), case.settings).decide(wish, case.instances)
    # The second time as the first: nothing stays taken.
    for _ in range(2):
        assert rival.decide(wish, case.instances).hosts == ours.hosts
    assert len(ours.hosts) == case.instances
    assert rival.decide(wish).ms > 0


def test_settings_of_one_case_are_not_those_of_the_next(peer):
    fleet = comparable.fleet(60)
    rival = Nova(peer, fleet)
    rival.set(cases.STACKING)
    stacked = rival.decide(comparable.PLAIN).hosts
    rival.set({})
    assert rival.decide(comparable.PLAIN).hosts != stacked
    assert (
        rival.decide(comparable.PLAIN).hosts
        == Ours(fleet.table(), {}).decide(comparable.PLAIN).hosts
    )


@pytest.mark.parametrize("kind", [streams.ordinary, streams.fresh])
def test_what_streams_take_stays_taken_on_both_sides(kind, peer):
    fleet = comparable.fleet(30)
    ours, rival = Ours(fleet.table(), {}), Nova(peer, fleet)
    rival.set({})
    wishes = list(islice(kind(), 12))
    chosen = [ours.answer(wish).hosts for wish in wishes]
    assert [rival.answer(wish).hosts for wish in wishes] == chosen
    assert chosen != [Ours(fleet.table(), {}).decide(wish).hosts for wish in wishes]


def test_fresh_requests_have_nothing_in_common():
    wishes = list(streams.fresh())
    assert len(wishes) == (streams.FRESH + 1) * streams.ROUND
    for name in ("flavor", "image"):
        assert len({tuple(getattr(wish, name).items()) for wish in wishes}) == len(wishes)


@pytest.mark.parametrize(("hosts", "instances"), [(1, 3), (60, 40), (500, 20)])
def test_numpy_chooses_the_same_hosts(hosts, instances):
    fleet = comparable.fleet(hosts)
    ours = Ours(fleet.table(), {}).decide(comparable.PLAIN, instances)
    bare = Numpy(fleet)
    for _ in range(2):
        assert bare.decide(comparable.PLAIN, instances).hosts == ours.hosts


def test_numpy_leaves_out_the_hosts_without_room():
    fleet = comparable.fleet(3)
    for full, each in zip(("vcpus_used", "free_ram_mb", None), fleet.hosts, strict=True):
        if full is not None:
            each[full] = 256 if full == "vcpus_used" else 0
    assert Numpy(fleet).decide(comparable.PLAIN).hosts == [fleet.hosts[2]["host"]]
    assert Ours(fleet.table(), {}).decide(comparable.PLAIN).hosts == [fleet.hosts[2]["host"]]


def test_an_exponent_is_the_slope_of_the_logarithms():
    assert exponent({10: 3.0, 100: 30.0, 1_000: 300.0}) == pytest.approx(1)
    assert exponent({10: 7.0, 1_000: 7.0}) == pytest.approx(0)
    assert exponent({1: 2.0, 100: 20.0, 10_000: 200.0}) == pytest.approx(0.5)


def test_growth_is_of_the_matrix_alone():
    figures = [
        _figure(OURS, 9.0, hosts=100),
        _figure(OURS, 1.0, hosts=1_000),
        _figure(OURS, 10.0, hosts=10_000),
        _figure(OURS, 109.0, hosts=10_000, instances=100),
        _figure(OURS, 5_000.0, hosts=10_000, weighing=cases.STACK),
        _figure(OURS, 5_000.0, hosts=10_000, list=cases.COMPARABLE),
        Figure("decide", OURS, "ms", [700.0], {"hosts": 10_000, "instances": 1, "stream": True}),
        _figure(NOVA, 1.0, hosts=1_000),
    ]
    found = list(growth(figures))
    assert {each.who for each in found} == {OURS}
    by_hosts = find(found, "growth with hosts", instances=1)
    assert by_hosts.median == pytest.approx(1)
    assert (by_hosts.unit, by_hosts.facts) == ("exponent", {"from": 1_000, "to": 10_000})
    assert find(found, "growth with instances", hosts=10_000).median == pytest.approx(0.5187, 1e-3)
    further = find(found, "further instance", hosts=10_000)
    assert (further.unit, further.median) == ("ms", pytest.approx(1))
    assert further.facts == {"instances": 100, "of_first": pytest.approx(0.1)}


def test_nova_takes_part_where_that_is_a_matter_of_seconds():
    parts = [each for each in cases.WHOLE if each.with_nova]
    assert Case(100_000) in parts
    assert Case(10_000, 10, weighing=cases.STACK) in parts
    assert Case(10_000, 100) not in parts
    assert all(each.turns_of_nova(9)[1] >= 1 for each in parts)
    assert Case(10_000).turns_of_nova(2) == (0, 2)
    assert Case(100).turns_of_nova(9) == (1, 9)


def test_figures_say_what_makes_a_case_another_one():
    plain = {
        "hosts": 5, "instances": 1, "weighing": "spread", "grouped": 0, "aggregate_sets": 40
    }  # fmt: skip
    assert Case(5).to_dict() == plain
    assert Case(5, list=cases.COMPARABLE).to_dict() == {**plain, "list": "comparable"}
    assert Case(5, grouped=0.1).to_dict() == {**plain, "grouped": 0.1}
    affinity = Case(5, grouped=0.1, policy=cases.AFFINITY).to_dict()
    assert affinity == {**plain, "grouped": 0.1, "policy": "affinity"}


def test_a_program_measures_reports_and_writes(monkeypatch, tmp_path, capsys):
    availability.require(availability.NOVA)
    figures = tmp_path / "figures.json"
    tiny = (Case(40), Case(40, 60), Case(40, grouped=0.1, rivals=False))
    monkeypatch.setattr(cases, "QUICK", tiny)
    arguments = ["decisions", "--quick", "--turns", "1", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", arguments)
    decisions.main()
    measured = [Figure.from_dict(each) for each in json.loads(figures.read_text())]
    found = [each for each in measured if each.what == "decide"]
    assert [(each.who, each.case["instances"]) for each in found] == [
        (OURS, 1), (NOVA, 1), (FLOOR, 1), (OURS, 60), (NOVA, 60), (FLOOR, 60), (OURS, 1),
        (OURS, 1), (FLOOR, 1),
    ]  # fmt: skip
    assert [each.facts.get("same_hosts") for each in found] == [True] * 6 + [None] * 3
    assert found[-1].case["foreign_changes"] == 4
    assert all(each.median > 0 for each in found)
    said = capsys.readouterr().out
    assert "same hosts" in said
    assert "10% anti-affinity" in said
    assert find(measured, keeping.DECIDED, hosts=keeping.QUICK, kept=True)
    assert "times as much" in said


def test_a_report_has_a_line_for_each_case_the_matrix_first():
    stacked = _figure(OURS, 3.0, hosts=10_000, weighing=cases.STACK)
    figures = [
        stacked,
        _figure(OURS, 2.0, hosts=10_000),
        _figure(NOVA, 1_000.0, hosts=10_000),
        _figure(FLOOR, 1.0, hosts=10_000),
        _figure(OURS, 4.0, hosts=10_000, instances=10),
    ]
    head, first, second, third, *rest = report([*figures, *growth(figures)]).splitlines()
    assert head.split()[:2] == ["hosts", "instances"]
    assert first.split() == [
        "10000",
        "1",
        "2.000",
        "2.000",
        "2.000",
        "1000.0",
        "500",
        "yes",
        "1.000",
        "0.50",
    ]
    assert second.split()[:2] == ["10000", "10"]
    assert third.split()[:3] == ["10000", "1", "stack"]
    assert rest[0] == "growth with instances, ours: 0.30 from 1 to 10"
    assert rest[1].startswith("further instance, ours: 0.222 ms, 0.111 of the first")


def test_keeping_is_measured_beside_not_keeping(monkeypatch):
    monkeypatch.setattr(keeping, "QUICK", 50)
    found = list(keeping.figures(quick=True))
    kept = find(found, keeping.DECIDED, kept=True)
    plain = find(found, keeping.DECIDED, kept=False)
    assert len(kept.turns) == len(plain.turns) == keeping.TURNS_OF_A_LOOK
    others = {(each.what, each.unit) for each in found} - {(keeping.DECIDED, "ms")}
    assert others == {
        (keeping.AFTERWARDS, "ms"),
        (keeping.SIZE, "kB"),
        (keeping.FIRST, "ms"),
        (keeping.FIRST, "kB"),
    }
    assert all(each.median > 0 for each in found)
    *_, row, afterwards, _size, _first, first_size = report(found).splitlines()
    assert row.startswith(f"kept: {kept.median:.3f} ms, not kept: {plain.median:.3f} ms")
    assert afterwards.startswith("keep a decision: ")
    assert first_size.startswith("first full snapshot: ")


@pytest.mark.parametrize("program", [decisions, wire])
def test_without_nova_it_is_said_what_brings_it(program, monkeypatch, tmp_path):
    monkeypatch.setattr(nova, "_ENVIRONMENT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(SystemExit, match="run make peer"):
        program.main()
