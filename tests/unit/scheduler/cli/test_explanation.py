# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How explanations read."""

import io

import pytest

from scheduler.cli import explanation, telling
from scheduler.decision.explaining import Extent, explain
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.rpc.json_values import json_value
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop, Favourite

WEIGHER = Favourite(h1=1, h2=4, h3=2)


def explained(*filters, driver=None, near=3, **plan):
    hosts = a_table(a_host("h1", "n1"), a_host("h2"), a_host("h3"), a_host("h4", free_ram_mb=512))
    driver = driver or FilterScheduler(Plan((RamFilter(), *filters), (WEIGHER,), **plan))
    request = Request(a_request(memory_mb=1024), ["u1"])
    return json_value(explain(hosts, request, driver, 0, Extent(near=near)))


def rows(table):
    return [[str(each) for each in row] for row in table.rows]


def test_a_placement_is_told_with_its_weights():
    found = explained()
    assert explanation.headline(found) == (
        "Instance u1 goes to h2, out of 4 hosts, 3 of which pass all filters."
    )
    steps, weights = explanation.told(found)
    assert rows(steps) == [["RamFilter", "4", "3"]]
    assert weights.columns == ("Rank", "Host", "Favourite", "Total", "")
    assert rows(weights) == [
        ["1", "h2", "1.000", "1.000", "chosen"],
        ["2", "h3", "0.333", "0.333", ""],
        ["3", "h1 (n1)", "0.000", "0.000", ""],
    ]
    assert rows(explanation.weights(found, 1)) == rows(weights)[:1]


def test_a_refusal_is_told_with_all_reasons():
    found = explained(Drop("h1", "h2", "h3", "h4"))
    assert explanation.headline(found) == (
        "There was no host for instance u1, out of 4 hosts, 0 of which pass all filters."
    )
    _, reasons, near = explanation.told(found)
    assert reasons.title == "Why not"
    ram = "needs 1024 MB of memory, 512 left of 65536 x 1.0"
    assert rows(reasons) == [
        ["h1 (n1)", "Drop", "h1 was dropped"],
        ["h2", "Drop", "h2 was dropped"],
        ["h3", "Drop", "h3 was dropped"],
        ["h4", "RamFilter", ram],
        ["", "Drop", "h4 was dropped"],
    ]
    assert rows(near) == [
        [f"{name}, were it not for Drop: {name[:2]} was dropped"]
        for name in ("h1 (n1)", "h2", "h3")
    ]
    few = explanation.reasons(found, 3)
    assert (few.title, len(few.rows)) == ("Why not (1 more hosts are refused)", 3)
    assert rows(explanation.counted(found)) == [["Drop", "4"], ["RamFilter", "1"]]


def test_why_a_host_was_not_chosen():
    found = explained(Drop("h4"))
    line, table = explanation.about(found, "N1".lower())
    assert line == (
        "h1 (n1) passes all filters and is number 3 of 3, 1.000 behind h2, which was chosen."
        " The best host is taken."
    )
    assert table.columns == ("Weigher", "h1 (n1)", "h2", "Difference")
    assert rows(table) == [
        ["Favourite", "0.000", "1.000", "1.000"],
        ["total", "0.000", "1.000", "1.000"],
    ]
    assert explanation.about(found, "H2") == ["h2 was chosen. The best host is taken."]
    line, table = explanation.about(found, "h4")
    assert line == "h4 is refused for 2 reasons."
    assert [row[1] for row in rows(table)] == ["RamFilter", "Drop"]
    with pytest.raises(ValueError, match="no host 'h9'"):
        explanation.about(found, "h9")


def test_a_choice_may_be_one_of_chance():
    found = explained(host_subset_size=2)
    assert "One of the 2 best hosts is drawn at random." in explanation.about(found, "h1")[0]
    found = explained(driver=ChanceScheduler(Plan()))
    other = "h1" if found["chosen"] != "h1" else "h2"
    assert "The driver has a choice of its own" in explanation.about(found, other)[0]


def test_a_host_that_passes_may_be_refused_all_the_same():
    """By a rule of the driver that is no filter."""
    found = explained() | {"chosen": None, "chosen_node": None}
    for each in found["verdicts"]:
        each["chosen"] = False
    assert explanation.about(found, "h3") == ["h3 passes all filters and is number 2 of 3."]


def test_what_is_written():
    stream = io.StringIO()
    found = explained()
    telling.write_story(
        ["A line.", *explanation.told(found), explanation.near_misses(found)], stream
    )
    assert stream.getvalue().startswith("A line.\n\nHosts left by each filter\n+---")
    assert "Any one of these" not in stream.getvalue()
