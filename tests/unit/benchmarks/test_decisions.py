# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.decisions and of what benchmarks beside Nova share."""

import json
import sys

import pytest

from benchmarks import decisions, nova, wire
from tests.fixtures import availability


def test_both_decide_for_the_same_hosts(monkeypatch, tmp_path, capsys):
    availability.require(availability.NOVA)
    figures = tmp_path / "figures.json"
    monkeypatch.setattr(decisions, "QUICK", ((40, 1), (40, 60)))
    arguments = ["decisions", "--quick", "--turns", "1", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", arguments)
    decisions.main()
    found = json.loads(figures.read_text())
    assert [(each["hosts"], each["instances"]) for each in found] == [(40, 1), (40, 60)]
    assert all(each["same_hosts"] for each in found)
    assert all(each["ours"] and each["nova"] for each in found)
    assert "same hosts" in capsys.readouterr().out


@pytest.mark.parametrize("program", [decisions, wire])
def test_without_nova_it_is_said_what_brings_it(program, monkeypatch, tmp_path):
    monkeypatch.setattr(nova, "_ENVIRONMENT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(SystemExit, match="run make peer"):
        program.main()
