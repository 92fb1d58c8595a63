# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.check: what holds, what does not and why, and what is not known."""

import pytest

from benchmarks.check import FAILS, HOLDS, UNKNOWN, main, rows
from benchmarks.figures import FLOOR, NOVA, OURS, Figure
from benchmarks.limits import LIMITS
from tests.unit.benchmarks.made_up import NOW, a_file, decided

DECIDE = "decide compared with bare numpy, 10,000 hosts, 1 instance"
ONE_EACH = {"hosts": 10_000, "instances": 1}
NOVAS = "Nova's loop compared with ours, 10,000 hosts, 1 instance"


def verdict_on(about, figures):
    (found,) = [each for each in rows(figures) if each.about == about]
    return found.verdict, found.found


def floor(turns=1, **case):
    """Return a millisecond for each turn of bare numpy."""
    return decided(10_000, 1, *[1.0] * turns, who=FLOOR, **case)


def test_it_is_said_of_every_figure_whether_it_holds(tmp_path, capsys):
    path = a_file(tmp_path, decided(10_000, 1, 0.8, 1.6, 3.6), floor(3))
    assert main([str(path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    about, heads, *lines = (" ".join(each.split()) for each in printed)
    assert about == f"{NOW}, v1"
    assert heads == "figure to reach found half of the turns verdict"
    assert lines[0].endswith("not measured in this run")
    assert lines[1].endswith("<= 2 x 1.6 1.2 to 2.6 holds")
    # Below them a note.
    assert len(lines) == len(LIMITS) + 1
    assert lines[-1].endswith("and by make chaos, not in this run.")


@pytest.mark.parametrize(("ms", "strict"), [(2.0, 0), (2.04, 1)])
def test_who_is_strict_gets_a_status(ms, strict, tmp_path):
    path = str(a_file(tmp_path, decided(10_000, 1, ms), floor()))
    assert main([path]) == 0
    assert main([path, "--strict"]) == strict


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no such file: run make bench"),
        ("{", "is no file of benchmarks"),
        ("[]", "is no file of benchmarks"),
        ('{"schema": 0}', "is of form 0, not 1"),
        ('{"schema": 1, "parts": {"wire": {}}}', "is no file of benchmarks: KeyError"),
        ('{"schema": 1, "parts": []}', "is no file of benchmarks"),
    ],
)
def test_a_file_that_is_none(text, why, tmp_path, capsys):
    path = tmp_path / "latest.json"
    if text is not None:
        path.write_text(text)
    assert main([str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"{path}: {why}")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_beside_nova_the_limit_is_a_least_one():
    ours = decided(10_000, 1, 1.0, 2.0)
    assert verdict_on(NOVAS, [ours]) == (UNKNOWN, None)
    for novas, verdict, found in (((2100.0, 2400.0), HOLDS, 1500), ((2124.0, 2340.0), FAILS, 1488)):
        nova = decided(10_000, 1, *novas, who=NOVA)
        assert verdict_on(NOVAS, [nova, ours]) == (verdict, found)


def test_other_cases_count_only_where_the_plain_one_is_absent():
    special = [decided(10_000, 1, 2.5, list="comparable"), floor(list="comparable")]
    assert verdict_on(DECIDE, special) == (FAILS, 2.5)
    assert verdict_on(DECIDE, [*special, decided(10_000, 1, 1.5), floor()]) == (HOLDS, 1.5)
    assert verdict_on(DECIDE, [decided(10_000, 10, 1.5), floor()]) == (UNKNOWN, None)


def test_the_same_thing_in_another_case_is_another_side():
    about = "requests of (anti-)affinity groups compared with plain ones, 5,000 hosts"

    def rate(grouped, number):
        return Figure("select, rate", OURS, "/s", [number], {"hosts": 5_000, "grouped": grouped})

    assert verdict_on(about, [rate(False, 500.0), rate(True, 250.0)]) == (HOLDS, 0.5)
    assert verdict_on(about, [rate(False, 500.0), rate(True, 240.0)]) == (FAILS, 0.48)
    assert verdict_on(about, [rate(True, 240.0)]) == (UNKNOWN, None)


def test_the_worst_case_counts_or_the_best():
    started = [
        Figure("guest started, known", OURS, "ms", [ms], {"agent": agent})
        for agent, ms in (("eventlet", 900.0), ("threading", 1100.0))
    ]
    assert verdict_on("guest started, until schedulers know", started) == (FAILS, 1100)
    placed = [
        Figure("claimed placements", OURS, "/s", [number], {**ONE_EACH, "workers": workers})
        for workers, number in ((1, 250.0), (2, 550.0))
    ]
    about = "claimed placements on one machine, 10,000 hosts, calls for 1 instance"
    assert verdict_on(about, placed) == (HOLDS, 550)
    notes = [each.note for each in rows([*started, *placed]) if "cases" in each.note]
    assert notes == [
        "This is the best of 2 cases: hosts 10,000, instances 1, workers 2.",
        "This is the worst of 2 cases: agent threading.",
    ]


def test_several_instances_are_compared_with_one_in_the_same_case():
    figures = [
        Figure("claimed placements", OURS, "/s", [number], {**ONE_EACH, **case})
        for number, case in (
            (200.0, {"workers": 1}),
            (500.0, {"workers": 1, "instances": 10}),
            (300.0, {"workers": 2}),
            (600.0, {"workers": 2, "instances": 10}),
        )
    ]
    about = "claimed placements of calls for 10 instances compared with those of calls for 1"
    assert verdict_on(about, figures) == (HOLDS, 2)
