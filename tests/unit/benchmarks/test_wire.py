# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.wire: every captured call is measured, beside Nova where it is installed."""

import json
import os
import sys

import pytest
from oslo_context import context as oslo

from benchmarks import wire
from tests.fixtures import availability

CALLS = sorted(path.stem for path in wire.CAPTURED.glob("call_*select_destinations*.json"))


@pytest.fixture(autouse=True)
def _no_context_left_behind():
    yield
    if hasattr(oslo._request_store, "context"):
        del oslo._request_store.context


def test_each_captured_call_is_measured(monkeypatch, tmp_path, capsys):
    availability.require(availability.NOVA)
    processors = os.sched_getaffinity(0)
    figures = tmp_path / "figures.json"
    arguments = ["wire", "--turns", "1", "--calls", "1", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", arguments)
    wire.main()
    found = json.loads(figures.read_text())
    assert len(found) == len(CALLS) * len(wire.WORKS)
    # Nova has these three dictionaries in another form today, and does not read its older ones.
    refused = {each["call"] for each in found if "refusal" in each}
    assert refused == {
        "4.0_raw_build_request_spec",
        "newton_4.0_full_cap_liberty",
        "newton_4.0_raw_dicts",
    }
    assert all(each["ours_us"] > 0 for each in found)
    assert all(each["ratio"] > 0 for each in found if "refusal" not in each)
    printed = capsys.readouterr().out
    assert all(each["call"] in printed for each in found)
    assert max(map(len, printed.splitlines())) <= 200
    assert os.sched_getaffinity(0) == processors


@pytest.mark.parametrize("name", CALLS)
def test_the_answer_is_what_its_caller_asks_for(name):
    call = wire.Call(name)
    asked, digest = call.decode()
    answer = call.encode()
    assert len(answer) == len(asked.instance_uuids)
    assert isinstance(answer[0], list if asked.return_objects else dict)
    assert len(digest) == 64
    call.context()
    assert oslo.get_current().project_id == "project1"


def test_what_is_too_slow_is_said():
    def costs(us):
        return [wire.Cost("largest", 9000, work, [us], [8 * us]) for work in wire.WORKS]

    assert "largest: 102 us before it is decided, above 100" in wire.report(costs(51.0))
    assert "largest: 98 us before it is decided\n" in wire.report(costs(49.0))


def test_what_nova_refuses_is_not_compared():
    compared = [wire.Cost("one", 10, work, [1.0, 2.0], [4.0, 6.0]) for work in wire.WORKS]
    refused = [wire.Cost("two", 5, work, [7.0], [], "KeyError: 'x'") for work in wire.WORKS]
    printed = wire.report([*compared, *refused])
    assert "two: Nova refuses it, KeyError: 'x'" in printed
    assert "Nova's takes 3.5 to 3.5 times as long" in printed
    assert refused[0].figures == {
        "call": "two",
        "bytes": 5,
        "work": "decode",
        "ours_us": 7.0,
        "refusal": "KeyError: 'x'",
    }
