# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.chart: what is drawn, that it is drawn alike, and when it is not."""

from xml.etree import ElementTree

from benchmarks.chart import main
from benchmarks.figures import FLOOR, NOVA, OURS
from tests.unit.benchmarks.made_up import a_file, decided

COSTS = [
    decided(hosts, instances, cost * hosts * instances, 2 * cost * hosts * instances, who=who)
    for who, cost in ((OURS, 0.01), (NOVA, 10.0), (FLOOR, 0.001))
    for hosts, instances in ((100, 1), (1_000, 1), (10_000, 1), (1_000, 10), (1_000, 100))
    if who != NOVA or instances < 100
]


def texts(path):
    return {each.text for each in ElementTree.parse(path).iter() if each.tag.endswith("}text")}


def test_costs_are_drawn_against_hosts_and_against_instances(tmp_path, capsys):
    assert main([str(a_file(tmp_path, *COSTS))]) == 0
    hosts, instances = tmp_path / "latest-hosts.svg", tmp_path / "latest-instances.svg"
    assert capsys.readouterr().out.splitlines() == [str(hosts), str(instances)]
    told = {"Berthmaster", "Nova", "numpy floor", "milliseconds of one processor"}
    assert texts(hosts) >= {"hosts", "10,000", "One decision against hosts (instances: 1)", *told}
    title = "One decision against instances (hosts: 1,000)"
    assert texts(instances) >= {"instances", "100", title, *told}


def test_the_same_figures_give_the_same_files(tmp_path):
    path = a_file(tmp_path, *COSTS)
    into = tmp_path / "one", tmp_path / "other"
    for each in into:
        assert main([str(path), "--into", str(each)]) == 0
    one, other = ({each.name: each.read_bytes() for each in some.iterdir()} for some in into)
    assert one == other
    assert set(one) == {"latest-hosts.svg", "latest-instances.svg"}


def test_special_cases_are_left_out(tmp_path):
    special = [decided(50_000_000, 1, 1.0, list="comparable"), decided(7, 1, 1.0, grouped=0.1)]
    main([str(a_file(tmp_path, *COSTS, *special))])
    assert not {"10,000,000", "100,000,000"} & texts(tmp_path / "latest-hosts.svg")


def test_where_nothing_is_compared_nothing_is_drawn(tmp_path, capsys):
    assert main([str(a_file(tmp_path, decided(100, 1, 1.0)))]) == 0
    assert capsys.readouterr().out.count("no chart") == 2
    assert not list(tmp_path.glob("*.svg"))


def test_no_file(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "run make bench" in capsys.readouterr().err
