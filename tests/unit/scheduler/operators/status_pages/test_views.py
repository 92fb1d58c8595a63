# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the views on a small fleet, by their facts."""

import json
import math
import time

import pytest

from inventory.audit_log import Actor, acting
from inventory.operations import service_operations
from scheduler.operators.status_pages import claims, decisions, fleet, host_list
from scheduler.operators.status_pages.messages import PageRequest
from scheduler.operators.status_pages.routes import Site
from scheduler.operators.status_pages.source import Source
from tests.databases import a_uuid
from tests.fixtures.keeping import configured
from tests.fixtures.shown_fleet import ZONES
from tests.unit.scheduler.operators.status_pages.conftest import NAMES


def test_the_map_has_each_host_in_its_zone_with_its_state(facts):
    _, found = facts("/hosts/")
    assert found["hosts"] == len(NAMES)
    assert found["states"] == {"up": 9, "disabled": 1, "maintenance": 1, "forced_down": 1}
    assert [each["name"] for each in found["groups"]] == [*ZONES]
    assert {node["host"] for each in found["groups"] for node in each["nodes"]} == {*NAMES}
    first = found["groups"][0]
    assert first["fullest"]["host"] in {node["host"] for node in first["nodes"]}
    assert first["hosts"] == len(first["nodes"]) == 4


def test_a_host_in_several_aggregates_is_in_each(facts):
    _, found = facts("/hosts/", "group=aggregate")
    names = [each["name"] for each in found["groups"]]
    assert names == [*ZONES[:2], *(f"rack-{each}" for each in range(1, 7)), ZONES[2]]
    assert sum(len(each["nodes"]) for each in found["groups"]) == 2 * len(NAMES)


def test_the_map_has_pages(facts, monkeypatch):
    monkeypatch.setattr(fleet, "MAX_SQUARES", 5)
    pages = [facts("/hosts/", f"page={each}")[1] for each in (1, 2, 3, 4)]
    shown = [
        [node["host"] for group in each["groups"] for node in group["nodes"]] for each in pages
    ]
    assert [len(each) for each in shown] == [5, 5, 2, 2]
    assert {host for each in shown for host in each} == {*NAMES}
    assert shown[3] == shown[2]


@pytest.mark.parametrize("color", ["fullest", "vcpus", "memory", "disk", "state"])
def test_squares_are_links_that_say_what_they_show(page, color):
    text = page("/hosts/", f"color={color}")
    assert (
        '<a href="compute-00005" title="compute-00005: disabled"><span class="square disabled">'
        "</span><bdi>compute-00005</bdi></a>" in text
    )
    assert text.count('title="compute-') == len(NAMES)


def test_many_squares_leave_no_room_for_names(page, monkeypatch):
    monkeypatch.setattr(fleet, "_MAX_NAMED", 3)
    text = page("/hosts/")
    assert '<a class=disabled href="compute-00005" title="compute-00005: disabled"></a>' in text


def test_the_list_of_hosts_is_searched_sorted_and_paged(facts, monkeypatch):
    ask = "as=table&sort=memory"
    _, found = facts("/hosts/", ask)
    used = [each["used"]["memory"] for each in found["nodes"]]
    assert used == sorted(used, reverse=True)
    assert facts("/hosts/", "as=table&name=COMPUTE-0001")[1]["hosts"] == 3
    assert facts("/hosts/", "state=forced_down")[1]["nodes"][0]["host"] == NAMES[6]
    assert facts("/hosts/", "state=down")[1]["hosts"] == 0
    assert facts("/hosts/", "as=table&zone=east&aggregate=rack-1")[1]["hosts"] == 2
    assert facts("/hosts/", "as=table&zone=nowhere")[1]["nodes"] == []
    monkeypatch.setattr(host_list, "PAGE", 5)
    assert len(facts("/hosts/", f"{ask}&page=3")[1]["nodes"]) == 2


def test_a_state_is_a_link_to_the_hosts_that_are_in_it(facts, page):
    for path, query, link, hosts in (
        ("/hosts/", "", "state=forced_down", 1),
        ("/hosts/", "", "state=disabled&zone=north", 1),
        ("/hosts/", "group=aggregate", "state=up&aggregate=rack-1", 1),
    ):
        assert f'href="../hosts/?{link}"'.replace("&", "&amp;") in page(path, query)
        _, found = facts("/hosts/", link)
        assert (found["title"], found["hosts"]) == ("Hosts", hosts)
    assert ">1 forced down</a>" in page("/hosts/")


def test_decisions_are_found_by_what_they_were_about(facts):
    def numbers(query=""):
        return [each["id"] for each in facts("/decisions/", query)[1]["decisions"]]

    assert numbers() == [2, 1]
    assert numbers("outcome=refused") == [2]
    assert numbers("project=shop") == [1]
    assert numbers("request=req-web") == [1]
    assert numbers("flavor=4,8192,80") == [1]
    assert numbers("flavor=m1.large") == [1]
    assert numbers("flavor=1,1,1") == []
    assert numbers("conflicts=1") == []
    assert numbers("before=2") == [1]
    assert numbers("before=1") == []
    assert numbers("project=shop&outcome=refused") == []


def test_pages_of_decisions_follow_each_other(facts, page, monkeypatch):
    monkeypatch.setattr(decisions, "PAGE", 1)
    _, found = facts("/decisions/")
    assert found["next"] == 2
    assert 'href="?before=2"' in page("/decisions/")
    _, last = facts("/decisions/", "before=2")
    assert ([each["id"] for each in last["decisions"]], last["next"]) == ([1], None)


def test_a_refusal_has_its_funnel_its_reasons_and_what_would_help(facts, page):
    _, found = facts("/decisions/2")
    assert (found["decision"]["outcome"], found["same"], found["missing"]) == ("refused", True, "")
    assert found["steps"][-1]["name"] == "RamFilter"
    assert found["steps"][-1]["after"] == 0
    assert found["explanation"]["reasons"]["RamFilter"] == len(NAMES)
    assert found["explanation"]["near_misses"]
    text = page("/decisions/2")
    assert "<h2>Changes, any of which would have been enough</h2>" in text
    assert '<strong>ComputeFilter</strong> <span class="dim">3 hosts</span>' in text


def test_a_placement_has_the_weights_of_each_instance(facts, page):
    _, found = facts("/decisions/1", "instance=2")
    assert (found["instance"], found["instances"]) == (2, 2)
    assert found["instance_uuid"] == a_uuid("web 1")
    assert len(found["placements"]) == 2
    chosen = next(each for each in found["explanation"]["verdicts"] if each["chosen"])
    assert chosen["host"] == found["placements"][1]["chosen"]["host"]
    assert '<span class="badge good">chosen</span>' in page("/decisions/1", "instance=2")
    assert facts("/decisions/1", "instance=3")[0] == "404"


def test_a_decision_is_found_by_request_and_instance_and_says_why_not_a_host(facts, page):
    assert facts("/decisions/req-mega")[1]["decision"]["id"] == 2
    assert facts(f"/decisions/{a_uuid('web 0')}")[1]["decision"]["id"] == 1
    _, found = facts("/decisions/2", f"host={NAMES[0].upper()}")
    assert [each["host"] for each in found["explanation"]["verdicts"]] == [NAMES[0]]
    assert "The host was refused:" in page("/decisions/2", f"host={NAMES[0]}")


def test_a_host_has_its_figures_cells_guests_and_why_it_was_refused(facts, page):
    status, found = facts(f"/hosts/{NAMES[0].upper()}")
    assert (status, found["host"], found["state"]) == ("200", NAMES[0], "up")
    assert found["zones"] == ["east"]
    assert found["aggregates"] == ["east", "rack-1"]
    (node,) = found["nodes"]
    assert node["resources"]["vCPUs"]["limit"] == 256
    assert node["hypervisor"] == "QEMU 8.2.0"
    assert [each["cpus"] for each in node["cells"]] == [32, 32]
    assert found["number_of_instances"] == len(found["instances"]) >= 2
    assert [(each["id"], each["reasons"][0]["filter"]) for each in found["refused"]] == [
        (2, "RamFilter")
    ]
    # What a reason says of memory is in the table with the same digits.
    reason = found["refused"][0]["reasons"][0]["reason"]
    assert "262144" in reason
    assert ">262144 MB</td>" in page(f"/hosts/{NAMES[0]}")


def test_a_host_that_is_switched_off_says_why(facts, page):
    assert facts(f"/hosts/{NAMES[4]}")[1]["service"]["reason"] == "waits for new disks"
    text = page(f"/hosts/{NAMES[4]}")
    assert "Switched off by <bdi>an operator</bdi>: <bdi>waits for new disks</bdi>" in text
    assert "the time is not in the audit log" in text
    assert "Forced down by <bdi>an operator</bdi>" in page(f"/hosts/{NAMES[6]}")


def test_a_host_has_its_recent_changes(fleet, facts, page):
    hosts, actor = [NAMES[0], NAMES[1]], Actor("<b>alice</b>", "console", "host disable")
    for work in (service_operations.disable, service_operations.enable):
        fleet.database.write(lambda c, work=work: work(acting(c, actor), hosts))
        if work is service_operations.disable:
            (changed,) = facts(f"/hosts/{NAMES[0]}")[1]["changes"]
            by = "Switched off by <bdi>&lt;b&gt;alice&lt;/b&gt;</bdi>"
            since = f"(since {changed['changed_at']} UTC)"
            text = page(f"/hosts/{NAMES[0]}")
            assert by in text
            assert since in text
    _, found = facts(f"/hosts/{NAMES[0]}")
    enabled, disabled = found["changes"]
    assert (disabled["operator"], disabled["command"]) == ("<b>alice</b>", "host disable")
    assert (disabled["after"], enabled["after"]) == ({"disabled": True}, {"disabled": False})
    text = page(f"/hosts/{NAMES[0]}")
    assert "<bdi>&lt;b&gt;alice&lt;/b&gt;</bdi>" in text
    assert "<bdi>disabled=False</bdi></td><td><bdi>disabled=True</bdi>" in text
    assert f"<code>berthmaster audit list --host {NAMES[0]}</code>" in text
    assert "The audit log has no changes of this host." in page(f"/hosts/{NAMES[2]}")


def test_claims_wait_with_their_ages(facts, monkeypatch):
    _, found = facts("/claims/")
    assert found["states"] == {"pending": 2, "alternate": 0, "leaving": 0, "confirmed": 0}
    assert {each["instance_uuid"] for each in found["claims"]} == {a_uuid("web 0"), a_uuid("web 1")}
    assert found["oldest"] >= found["claims"][-1]["age"] >= 0
    assert not any(each["overdue"] for each in found["claims"])
    assert len(facts("/claims/", f"instance={a_uuid('web 0')}")[1]["claims"]) == 1
    assert facts("/claims/", "host=none")[1]["claims"] == []
    monkeypatch.setattr(claims, "PAGE", 1)
    assert len(facts("/claims/", "page=2")[1]["claims"]) == 1


def test_conflicts_are_counted_by_scheduler(facts):
    _, found = facts("/conflicts/")
    assert found["totals"] == {"decisions": 2, "conflicted": 0, "conflicts": 0, "given_up": 0}
    assert [each["scheduler"] for each in found["schedulers"]] == ["s1"]
    assert found["decisions"] == []


def test_capacity_is_counted_by_flavor_and_zone(facts):
    _, found = facts("/capacity/", "flavor=4,8192,80")
    (row,) = found["flavors"]
    assert sum(row["zones"].values()) == row["total"] > 0
    assert row["more"] is False
    assert row["names"] == ["m1.large"]
    assert row["bounded_by"]["ComputeFilter"] == 3
    assert sum(row["bounded_by"].values()) == len(NAMES)
    usual = facts("/capacity/")[1]["flavors"]
    assert 1 < len(usual) <= 8


@pytest.fixture
def own_filter_site(fleet, tmp_path):
    """The pages of the fleet where an own filter of the plainest form alone decides."""
    config = tmp_path / "own.conf"
    own = "available_filters = tests.plugins.Drop\nenabled_filters = Drop\n"
    config.write_text(fleet.config.read_text() + own + "[claims]\nenabled = false\n")
    return Site(Source(configured(config)))


def test_a_count_that_is_not_ready_in_time_is_shown_as_far_as_it_goes(own_filter_site):
    began = time.monotonic()
    request = PageRequest("/capacity/", "format=json", until=began + 2)
    answer = own_filter_site.answer(request)
    assert (answer.status, time.monotonic() - began < 5) == ("200 OK", True)
    found = json.loads(answer.body)
    assert all(each["more"] and each["total"] > 0 for each in found["flavors"])
    assert len(found["flavors"]) + len(found["not_counted"]) > 1


def test_a_page_that_waits_for_another_one_gives_up_at_its_deadline(own_filter_site):
    source = own_filter_site._source
    for path in ("/capacity/", "/decisions/1"):
        with source.live_hosts(math.inf):
            request = PageRequest(path, until=time.monotonic() + 0.3)
            answer = own_filter_site.answer(request)
        assert answer.status == "503 Service Unavailable"
        assert b"Too much to show in time" in answer.body
