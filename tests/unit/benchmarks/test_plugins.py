# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.plugins: every plug-in that is installed can be measured."""

import json
import sys

from stevedore import ExtensionManager

from benchmarks import plugins
from benchmarks.figures import Figure
from benchmarks.fleet import AGGREGATE_SETS, a_fleet


def test_each_filter_and_weigher_is_measured(monkeypatch, tmp_path, capsys):
    figures = tmp_path / "figures.json"
    arguments = ["plugins", "--hosts", "200", "--calls", "3", "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", arguments)
    plugins.main()
    found = [Figure.from_dict(each) for each in json.loads(figures.read_text())]
    installed = [*ExtensionManager(plugins.FILTERS), *ExtensionManager(plugins.WEIGHERS)]
    assert {each.case["name"] for each in found} == {each.name for each in installed}
    assert all(len(each.turns) == 3 and each.median > 0 for each in found)
    printed = capsys.readouterr().out
    assert "us for each distinct topology" in printed
    assert all(each.name in printed for each in installed)


def test_a_fleet_is_as_varied_as_it_says():
    hosts = a_fleet(120)
    assert len({*hosts.codes("aggregates").tolist()}) == AGGREGATE_SETS
    assert len({*hosts.codes("stats").tolist()}) == 120
    one, other = a_fleet(50), a_fleet(50)
    assert one.free_ram_mb.tolist() == other.free_ram_mb.tolist()
