# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.prefilter, seen through the pipeline."""

import numpy as np
import pytest

from inventory.objects.aggregate import Aggregate
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.decision.prefilter import prefilter, rules, why_not
from scheduler.objects.request_spec import CellMapping, Destination
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.plugins import Drop, DropOnRebuild

NODES = {"11": ("h1", "n1"), "12": ("h1", "n2"), "23": ("H2", "n3"), "34": ("h3", "n4")}
REBUILD = {"_nova_check_type": ["rebuild"]}


def survivors(spec, *filters):
    """Return the names in NODES of the hosts that are left, by asking for as many as possible."""
    hosts = a_table(*(a_host(*place) for place in NODES.values()))
    left = set()
    for _ in range(len(NODES) + 1):
        decision = decide(hosts, Request(spec, ["u"]), Plan(filters=filters))
        if decision.shortage:
            return left
        chosen = decision.placements[0].chosen
        left.add(
            next(name for name, place in NODES.items() if place == (chosen.host, chosen.nodename))
        )
        hosts.set(chosen.row, "unserved", True)
    raise AssertionError("a host was chosen twice")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"23", "34"}),
        ({"ignore_hosts": ["H1"]}, {"23", "34"}),
        ({"ignore_hosts": ["h2"]}, {"34"}),
        ({"ignore_hosts": []}, {"23", "34"}),
        # Forced hosts are not asked any filter.
        ({"force_hosts": ["H1"]}, {"11", "12"}),
        ({"force_hosts": ["h1"], "force_nodes": ["n2"]}, {"12"}),
        ({"force_nodes": ["N2"]}, set()),
        ({"force_nodes": ["n2", "n4"]}, {"12", "34"}),
        ({"ignore_hosts": ["h1"], "force_hosts": ["h1", "h3"]}, {"34"}),
        ({"ignore_hosts": ["h1"], "force_hosts": ["h1"]}, set()),
        ({"force_hosts": ["h1"], "scheduler_hints": REBUILD}, set()),
        ({"requested_destination": Destination(host="h3")}, {"34"}),
        ({"requested_destination": Destination(host="H3")}, set()),
        ({"requested_destination": Destination(host="h3", node="n3")}, set()),
        ({"requested_destination": Destination(node="n3")}, {"23"}),
        ({"requested_destination": Destination()}, {"23", "34"}),
        (
            {"requested_destination": Destination(host="h1", node="n1"), "force_hosts": ["h1"]},
            {"11"},
        ),
    ],
)
def test_worked_cases_with_a_filter_that_removes_h1(changes, expected):
    assert survivors(a_request(**changes), DropOnRebuild("h1")) == expected


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        (Destination(cell=CellMapping("c1")), ["a", "any"]),
        (Destination(cell=CellMapping("c2")), ["any", "b"]),
        (Destination(cell=CellMapping("c1"), allow_cross_cell_move=True), ["a", "any", "b"]),
        (Destination(cell=CellMapping("c3")), ["any"]),
        (Destination(host="b", cell=CellMapping("c1")), []),
    ],
)
def test_a_requested_cell_allows_its_hosts_and_those_of_no_known_cell(destination, expected):
    hosts = a_table(
        a_host("a", cell_uuid="c1"), a_host("b", cell_uuid="c2"), a_host("any", cell_uuid=None)
    )
    drop = Drop()
    decide(hosts, Request(a_request(requested_destination=destination), ["u"]), Plan([drop]))
    assert sorted(host for host, _ in drop.asked) == expected


def in_aggregates(host, uuids):
    return a_host(host, aggregates=[Aggregate(uuid=uuid, name=uuid.upper()) for uuid in uuids])


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        ({"aggregates": None, "forbidden_aggregates": None}, "a ab b none unknown"),
        ({"aggregates": [], "forbidden_aggregates": set()}, "a ab b none unknown"),
        ({"aggregates": ["a"]}, "a ab"),
        # One text lists alternatives, all texts must hold.
        ({"aggregates": ["a,b"]}, "a ab b"),
        ({"aggregates": ["b , x"]}, "ab b"),
        ({"aggregates": ["a", "b"]}, "ab"),
        ({"aggregates": ["a", "x"]}, ""),
        ({"aggregates": ["A"]}, ""),
        ({"aggregates": [""]}, ""),
        ({"forbidden_aggregates": {"a"}}, "b none unknown"),
        ({"forbidden_aggregates": {"a", "b"}}, "none unknown"),
        ({"forbidden_aggregates": {"x", ""}}, "a ab b none unknown"),
        ({"aggregates": ["a,b"], "forbidden_aggregates": {"b"}}, "a"),
    ],
)
@pytest.mark.parametrize("also", [{}, {"force_hosts": ["a", "ab", "b", "none", "unknown"]}])
def test_aggregates_may_be_requested_and_forbidden(destination, expected, also):
    hosts = a_table(
        *(in_aggregates(each, "" if each == "none" else each) for each in ("a", "ab", "b", "none")),
        a_host("unknown", aggregates=None),
    )
    mask, _ = prefilter(hosts, a_request(requested_destination=Destination(**destination), **also))
    assert [hosts.get(row, "host") for row in np.flatnonzero(mask)] == expected.split()


def test_an_instance_that_is_rebuilt_stays_in_whatever_aggregates_it_is():
    hosts = a_table(in_aggregates("h1", "a"))
    away = Destination(aggregates=["b"], forbidden_aggregates={"a"})
    spec = a_request(requested_destination=away, scheduler_hints=REBUILD, force_hosts=["h1"])
    assert decide(hosts, Request(spec, ["u"]), Plan()).placements


def test_each_rule_that_was_used_is_a_step():
    spec = a_request(
        requested_destination=Destination(
            host="h1", cell=CellMapping("c"), aggregates=["a"], forbidden_aggregates={"b"}
        ),
        ignore_hosts=["h2"],
        force_hosts=["h1"],
        force_nodes=["n1", "n9"],
    )
    aggregates = [Aggregate(uuid="a")]
    hosts = a_table(
        a_host("h1", "n1", aggregates=aggregates),
        a_host("h1", "n2", aggregates=aggregates),
        a_host("h2", "n1"),
    )
    steps = decide(hosts, Request(spec, ["u"]), Plan()).placements[0].steps
    assert list(map(str, steps)) == [
        "requested_destination 3->2",
        "requested_cell 2->2",
        "requested_aggregates 2->2",
        "forbidden_aggregates 2->2",
        "ignore_hosts 2->2",
        "force_hosts 2->2",
        "force_nodes 2->1",
    ]


def test_a_host_without_compute_service_is_no_candidate_even_when_it_is_forced():
    hosts = a_table(a_host("h1", unserved=True))
    assert decide(hosts, Request(a_request(force_hosts=["h1"]), ["u"]), Plan()).shortage


@pytest.mark.parametrize(
    ("destination", "reason"),
    [
        (Destination(host="h9"), "No such host - host: h9 node:  "),
        (Destination(host="h1", node="n9"), "No such host - host: h1 node: n9 "),
        # It exists, and only its filters say no.
        (Destination(host="h1"), "There are not enough hosts available."),
        (Destination(node="n9"), "There are not enough hosts available."),
        (None, "There are not enough hosts available."),
    ],
)
def test_the_reason_says_when_a_requested_host_does_not_exist(destination, reason):
    spec = a_request(requested_destination=destination)
    decision = decide(a_table(a_host("h1", "n1")), Request(spec, ["u"]), Plan([Drop("h1")]))
    assert decision.shortage.reason == reason


def test_rows_that_were_given_up_are_no_hosts():
    hosts = a_table(a_host("h1"), a_host("h2"))
    hosts.remove(hosts.row_of("h1", "h1"))
    decision = decide(hosts, Request(a_request(ignore_hosts=["h2"]), ["u"]), Plan())
    assert decision.shortage.steps[0].after == 0
    assert decision.hosts == 1


CELL, OTHER_CELL = CellMapping("c1"), "c2"


@pytest.mark.parametrize(
    ("rule", "changes", "expected"),
    [
        (
            "requested_destination",
            {"requested_destination": Destination(host="h9")},
            "is not the requested destination h9",
        ),
        (
            "requested_destination",
            {"requested_destination": Destination(host="h9", node="n9")},
            "is not the requested destination h9 (n9)",
        ),
        (
            "requested_destination",
            {"requested_destination": Destination(node="n9")},
            "is not the requested destination n9",
        ),
        (
            "requested_cell",
            {"requested_destination": Destination(cell=CELL)},
            "is in cell c2, requested is c1",
        ),
        (
            "requested_aggregates",
            {"requested_destination": Destination(aggregates=["a1", "a3, a2", "a4"])},
            "is in none of the requested aggregates a2 or a3 and a4",
        ),
        (
            "forbidden_aggregates",
            {"requested_destination": Destination(forbidden_aggregates=["a1", "a2"])},
            "is in the forbidden aggregates a1",
        ),
        ("ignore_hosts", {"ignore_hosts": ["H1"]}, "is among the hosts to be ignored"),
        ("force_hosts", {"force_hosts": ["h2", "h3"]}, "is not among the forced hosts h2, h3"),
        ("force_nodes", {"force_nodes": ["n2"]}, "is not among the forced nodes n2"),
        ("placement", {"offered_nodes": {"other"}}, "has no allocation candidate in Placement"),
        (
            "placement",
            {"refused_nodes": {"own"}, "offered_nodes": {"own"}},
            "has no allocation candidate in Placement",
        ),
    ],
)
def test_each_rule_says_why(rule, changes, expected):
    aggregates = [Aggregate(1, uuid="a1"), Aggregate(2)]
    hosts = a_table(a_host("h1", uuid="own", cell_uuid=OTHER_CELL, aggregates=aggregates))
    spec = a_request(**changes)
    ((name, allowed),) = rules(hosts, spec)
    assert (name, allowed.tolist()) == (rule, [False])
    assert why_not(hosts, spec, rule, 0) == expected
