# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of simulation_page: one file with the table and the plots, whatever names hold."""

import re
import sys
from base64 import b64decode
from xml.etree import ElementTree

import pytest

from inventory.errors import OperationRefused
from scheduler.operators.cli import simulation_page

HOSTILE = "<script>alert('$1')</script>$"


def a_sample(time, requests=1, share=0.5):
    every = {"vcpus": share, "memory": share, "disk": 0.0}
    usage = {"used": every, "stranded": every, "empty_hosts": 3, "drain_moves": 2}
    return {"time": time, "requests": requests, "refused": 1, "usage": usage}


def a_run(configuration, refused=(), hours=10):
    return {
        "configuration": configuration,
        "seed": 1,
        "hosts": 5,
        "requests": 100,
        "refused": sum(each["instances"] for each in refused),
        "refused_sizes": [*refused],
        "first_refusal": None,
        "samples": [a_sample(0), a_sample(3600 * hours, 100, 0.75)],
        "as_decided": None,
    }


def a_size(vcpus, instances):
    return {"vcpus": vcpus, "memory_mb": 2048, "disk_mb": 512, "instances": instances}


def plots(page):
    """Return the texts of each plot."""
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    trees = [ElementTree.fromstring(b64decode(each)) for each in found]
    return [[each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")] for tree in trees]


def test_the_page_has_the_table_and_six_plots_and_loads_nothing():
    page = simulation_page.render([a_run("mix"), a_run("spread")], ["One note."])
    assert "5 hosts, 100 requests in each run" in page
    assert re.search(r"<td>mix</td>\s*<td>1</td>\s*<td>100</td>", page)
    assert "<p>One note.</p>" in page
    every = plots(page)
    assert len(every) == 6
    for texts in every:
        assert {"hours", "mix", "spread"} <= {*texts}
    assert not re.search(r"<script|https?://|@import|url\(", page)
    assert "default-src 'none'" in page


def test_the_same_runs_give_the_same_page():
    one, other = (simulation_page.render([a_run("mix")], []) for _ in range(2))
    assert one == other


def test_names_are_texts_whatever_they_hold():
    page = simulation_page.render([a_run(HOSTILE, [a_size(2, 3)]), a_run("b")], [HOSTILE])
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(&#39;$1&#39;)&lt;/script&gt;$") == 3
    assert all(HOSTILE in texts for texts in plots(page))


def test_what_was_refused_most_often_comes_first_with_all_runs_together():
    runs = [a_run("a", [a_size(2, 3), a_size(4, 4)]), a_run("a", [a_size(2, 5)]), a_run("b")]
    page = simulation_page.render(runs, [])
    rows = re.findall(r"<tr><td>(\d+)</td><td>2048</td><td>0.5</td><td>(\d+)</td>", page)
    assert rows == [("2", "8"), ("4", "4")]
    assert page.count("<h3>") == 1
    assert "What was refused" not in simulation_page.render([a_run("a")], [])


@pytest.mark.parametrize(("hours", "unit"), [(1, "minutes"), (70, "hours"), (80, "days")])
def test_time_is_in_a_unit_that_fits(hours, unit):
    assert all(
        unit in texts for texts in plots(simulation_page.render([a_run("a", hours=hours)], []))
    )


@pytest.mark.parametrize("library", ["jinja2", "matplotlib"])
def test_a_library_that_is_missing_is_named_with_what_installs_it(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(OperationRefused) as refused:
        simulation_page.check_libraries()
    assert str(refused.value) == f"a page needs {library}: pip install 'berthmaster[simulation]'"
