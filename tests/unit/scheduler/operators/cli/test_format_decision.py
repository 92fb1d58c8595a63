# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How explanations read."""

import io

import numpy as np
import pytest

from scheduler.analysis.explain import Extent, explain
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.chance import ChanceScheduler
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.operators.cli import base, format_decision
from scheduler.weighers import BaseHostWeigher
from scheduler.wire.to_json import json_value
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop, Favourite


class Silent(BaseHostWeigher):
    """Prefer no host."""

    def weigh(self, hosts, spec):
        return np.zeros(hosts.size)


WEIGHER = Favourite(h1=1, h2=4, h3=2)


def explained(*filters, driver=None, near=3, **plan):
    hosts = a_table(a_host("h1", "n1"), a_host("h2"), a_host("h3"), a_host("h4", free_ram_mb=512))
    driver = driver or FilterScheduler(Plan((RamFilter(), *filters), (WEIGHER,), **plan))
    request = Request(a_request(memory_mb=1024), ["u1"])
    return json_value(explain(hosts, request, driver, 0, Extent(near=near)))


def rows(table):
    return [[str(each) for each in row] for row in table.rows]


def test_a_placement_is_shown_with_its_weights():
    found = explained()
    assert "\n".join(format_decision.format_result(found)) == (
        "Instance u1 goes to h2, out of 4 hosts, 3 of which pass all filters."
    )
    steps, weights = format_decision.format_explanation(found)
    assert rows(steps) == [["RamFilter", "4", "3"]]
    assert weights.columns == ("Rank", "Host", "Favourite", "Total", "")
    assert rows(weights) == [
        ["1", "h2", "1.000", "1.000", "chosen"],
        ["2", "h3", "0.333", "0.333", ""],
        ["3", "h1 (n1)", "0.000", "0.000", ""],
    ]
    assert rows(format_decision.weights_table(found, 1)) == rows(weights)[:1]


def test_a_refusal_is_shown_with_all_reasons():
    found = explained(Drop("h1", "h2", "h3", "h4"))
    assert "\n".join(format_decision.format_result(found)) == (
        "0 of 4 hosts: 3 Drop (h1 was dropped, and 2 other reasons),"
        " 1 RamFilter (needs 1024 MB, most free 512)\nThere was no host for instance u1."
    )
    _, reasons, near = format_decision.format_explanation(found)
    assert reasons.title == "Why hosts were refused"
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
    few = format_decision.reasons_table(found, 3)
    assert (few.title, len(few.rows)) == ("Why hosts were refused (1 more host is refused)", 3)
    assert rows(format_decision.refusals_table(found)) == [["Drop", "4"], ["RamFilter", "1"]]


def test_equal_reasons_are_one_line_with_a_count():
    hosts = a_table(*(a_host(f"h{number}", free_ram_mb=512) for number in range(2000)))
    driver = FilterScheduler(Plan((RamFilter(),), (WEIGHER,)))
    request = Request(a_request(memory_mb=1024), ["u1"])
    found = json_value(explain(hosts, request, driver, 0, Extent(most=20, near=3)))
    assert format_decision.format_result(found)[0] == (
        "0 of 2000 hosts: 2000 RamFilter (needs 1024 MB, most free 512)"
    )
    reasons = format_decision.reasons_table(found)
    ram = "needs 1024 MB of memory, 512 left of 65536 x 1.0"
    assert rows(reasons) == [["h0 and 1999 more", "RamFilter", ram]]
    assert reasons.title == "Why hosts were refused"
    assert rows(format_decision.near_misses_table(found)) == [
        ["512 MB of memory less, or 512 MB of memory more free on h0 or 1999 other hosts"]
    ]


def test_a_tie_is_named_and_weighers_without_a_word_are_left_out():
    hosts = a_table(*(a_host(f"h{number}") for number in range(3)))
    weighers = (Favourite(h0=1, h1=1, h2=0), Silent())
    request = Request(a_request(), ["u1"])

    def found(**plan):
        driver = FilterScheduler(Plan((RamFilter(),), weighers, **plan))
        return json_value(explain(hosts, request, driver, 0))

    line, tie = format_decision.format_result(found())
    assert line == "Instance u1 goes to h0, out of 3 hosts, 3 of which pass all filters."
    assert tie == (
        "2 hosts tie for this weight: h0 was chosen since this host is the first in the table."
    )
    assert "Silent" in found()["verdicts"][0]["weighed"]["shares"]
    assert format_decision.weights_table(found()).columns == (
        "Rank",
        "Host",
        "Favourite",
        "Total",
        "",
    )
    _, tie = format_decision.format_result(found(host_subset_size=2))
    assert tie.endswith("was chosen since one of these hosts was drawn at random.")


def test_why_a_host_was_not_chosen():
    found = explained(Drop("h4"))
    line, table = format_decision.format_host(found, "N1".lower())
    assert line == (
        "h1 (n1) passes all filters and is number 3 of 3, 1.000 behind h2, which was chosen."
        " The best host is chosen."
    )
    assert table.columns == ("Weigher", "h1 (n1)", "h2", "Difference")
    assert rows(table) == [
        ["Favourite", "0.000", "1.000", "1.000"],
        ["total", "0.000", "1.000", "1.000"],
    ]
    assert format_decision.format_host(found, "H2") == ["h2 was chosen. The best host is chosen."]
    line, table = format_decision.format_host(found, "h4")
    assert line == "h4 is refused by 2 filters."
    assert [row[1] for row in rows(table)] == ["RamFilter", "Drop"]
    with pytest.raises(ValueError, match="no host 'h9'"):
        format_decision.format_host(found, "h9")


def test_a_choice_may_be_one_of_chance():
    found = explained(host_subset_size=2)
    assert (
        "One of the 2 best hosts is drawn at random." in format_decision.format_host(found, "h1")[0]
    )
    found = explained(driver=ChanceScheduler(Plan()))
    other = "h1" if found["chosen"] != "h1" else "h2"
    assert "The driver chooses without weights" in format_decision.format_host(found, other)[0]


def test_a_host_that_passes_may_be_refused_all_the_same():
    """By a rule of the driver that is no filter."""
    found = explained() | {"chosen": None, "chosen_node": None}
    for each in found["verdicts"]:
        each["chosen"] = False
    assert format_decision.format_host(found, "h3") == [
        "h3 passes all filters and is number 2 of 3."
    ]


def test_what_is_written():
    stream = io.StringIO()
    found = explained()
    base.print_report(
        [
            "A line.",
            *format_decision.format_explanation(found),
            format_decision.near_misses_table(found),
        ],
        stream,
    )
    assert stream.getvalue().startswith("A line.\n\nHosts left by each filter\n+---")
    assert "Any one of these" not in stream.getvalue()
