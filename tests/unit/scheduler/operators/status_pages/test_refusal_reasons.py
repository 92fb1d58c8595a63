# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A page about a refusal counts the reasons of all hosts, not of those that it can show."""

import json
from contextlib import closing

from markupsafe import escape

from scheduler.operators.status_pages.decision import _reasons, _shown
from scheduler.operators.status_pages.explaining import Explained
from scheduler.operators.status_pages.messages import PageRequest
from scheduler.operators.status_pages.routes import Site
from scheduler.operators.status_pages.source import Source
from tests.fixtures.keeping import configured
from tests.fixtures.shown_fleet import ShownFleet
from tests.unit.scheduler.operators.status_pages.conftest import NAMES

FEW = {"filter": "RamFilter", "reason": "768 MB left"}
OTHER = {"filter": "CoreFilter", "reason": "0 left"}
DISK = {"filter": "CoreFilter", "reason": "1 left"}
# As an explanation has them whose verdicts are 2 of 1,400 hosts.
EXPLANATION = {
    "chosen": None,
    "verdicts": [{"host": f"n{n}", "weighed": None, "refusals": [FEW]} for n in range(2)],
    "reasons": {"RamFilter": 1332, "CoreFilter": 368},
    "refused": [
        {"hosts": 1032, "first_hosts": ["n0", "n1", "n2"], "refusals": [FEW]},
        {"hosts": 300, "first_hosts": ["m0", "m1", "m2"], "refusals": [FEW, OTHER]},
        {"hosts": 68, "first_hosts": ["o0"], "refusals": [DISK]},
    ],
}


def test_each_filter_has_all_its_reasons_and_hosts():
    assert _reasons(EXPLANATION) == [
        {
            "filter": "RamFilter",
            "count": 1332,
            "reasons": [{"reason": "768 MB left", "count": 1332, "hosts": ["n0", "n1", "n2"]}],
            "rest": 0,
        },
        {
            "filter": "CoreFilter",
            "count": 368,
            "reasons": [
                {"reason": "0 left", "count": 300, "hosts": ["m0", "m1", "m2"]},
                {"reason": "1 left", "count": 68, "hosts": ["o0"]},
            ],
            "rest": 0,
        },
    ]


def test_the_nearest_hosts_come_with_all_their_reasons():
    found = Explained([], 0, [None], [], [], EXPLANATION)
    assert [each["hosts"] for each in _shown(found, 0, None)["nearest"]] == [1032, 300, 68]


def test_a_host_that_would_nearly_do_comes_first():
    misses = [{"host": host, "text": "1 vCPU less"} for host in ("o0", "m1", "o0")]
    found = Explained([], 0, [None], [], [], {**EXPLANATION, "near_misses": misses})
    assert [each["hosts"] for each in _shown(found, 0, None)["nearest"]] == [68, 300, 1032]


def test_the_page_shows_them(page):
    text = page("/decisions/2")
    assert "<h2>Nearest hosts</h2>" in text
    assert "other hosts" in text
    assert "<h2>Nearest hosts</h2>" not in page("/decisions/1")


def test_what_would_have_been_enough_comes_first(page):
    text = page("/decisions/2")
    titles = (
        "Changes, any of which would have",
        "Nearest hosts",
        "Hosts left by each",
        "Why hosts were",
    )
    places = [text.index(f"<h2>{each}") for each in titles]
    assert places == sorted(places)


def test_the_page_has_every_reason(tmp_path):
    with closing(ShownFleet(tmp_path)) as fleet:
        fleet.add_hosts(NAMES)
        fleet.decide({"name": "scene", "flavor": "x1.full"})
        site = Site(Source(configured(fleet.config)))
        found = json.loads(site.answer(PageRequest("/decisions/1", "format=json")).body)
        text = site.answer(PageRequest("/decisions/1")).body.decode()
    groups = found["explanation"]["refused"]
    reasons = {one["reason"] for each in groups for one in each["refusals"]}
    assert [each for each in reasons if f"<bdi>{escape(each)}</bdi>" not in text] == []
    assert f"{len(NAMES) - 5} more reasons</summary>" in text
