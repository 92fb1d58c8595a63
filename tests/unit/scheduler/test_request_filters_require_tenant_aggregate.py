# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.request_filters."""

import numpy as np
import pytest

from inventory.objects.aggregate import Aggregate
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.objects.request_spec import Destination
from scheduler.request_filters import RequireTenantAggregate
from tests.builders import a_request
from tests.hosts import a_host, a_table
from tests.refusals import refusals

RULE = RequireTenantAggregate(enabled=True)
STRICT = RequireTenantAggregate(enabled=True, required=True)


def a_cloud(**metadata):
    """Return hosts each of which is in aggregates with these metadata."""
    return a_table(
        *(
            a_host(host, aggregates=[Aggregate(name=f"a{n}", metadata=m) for n, m in enumerate(of)])
            for host, of in metadata.items()
        )
    )


def kept(rule, hosts, project):
    mask = rule.mask(hosts, a_request(project_id=project))
    return [hosts.get(row, "host") for row in np.flatnonzero(mask)]


HOSTS = a_cloud(
    one=[{"filter_tenant_id": "p1"}],
    two=[{"ssd": "true"}, {"filter_tenant_id": "p9", "filter_tenant_id2": "p2"}],
    both=[{"filter_tenant_id3": "p1"}, {"filter_tenant_id": "p2"}],
    listed=[{"filter_tenant_id": "p1,p3"}],
    key=[{"p1": "p1", "tenant": "p1"}],
    plain=[],
)


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ("p1", ["one", "both"]),
        ("p2", ["two", "both"]),
        ("p9", ["two"]),
        # A value that lists projects is none of them.
        ("p1,p3", ["listed"]),
    ],
)
@pytest.mark.parametrize("rule", [RULE, STRICT], ids=["optional", "required"])
def test_a_project_with_aggregates_is_kept_to_them(rule, project, expected):
    assert kept(rule, HOSTS, project) == expected


@pytest.mark.parametrize("project", ["p3", "P1", "", None])
def test_a_project_without_goes_anywhere_or_nowhere(project):
    assert kept(RULE, HOSTS, project) == ["one", "two", "both", "listed", "key", "plain"]
    assert kept(STRICT, HOSTS, project) == []


def test_hosts_whose_aggregates_are_unknown_are_in_none():
    assert kept(STRICT, a_table(a_host(aggregates=None)), None) == []
    assert kept(RULE, a_table(a_host(aggregates=None)), None) == ["h1"]


def test_it_applies_where_it_is_configured():
    assert not RequireTenantAggregate().applies(a_request())
    assert RULE.applies(a_request())


def test_the_aggregates_of_the_whole_cloud_count_not_of_the_candidates_alone():
    spec = a_request(project_id="p1", requested_destination=Destination(host="plain"))
    plan = Plan(request_filters=[RULE])
    shortage = decide(HOSTS.working_copy(), Request(spec, ["u"]), plan).shortage
    assert list(map(str, shortage.steps)) == [
        "requested_destination 6->1",
        "RequireTenantAggregate 1->0",
    ]


def test_the_reason_names_the_aggregates_and_the_project():
    found = refusals(HOSTS, a_request(project_id="p1"), Plan(request_filters=[STRICT]), most=9)
    assert {each.host: each.reason for each in found} == {
        "two": "no aggregate of the host (a0, a1) is for project p1",
        "listed": "no aggregate of the host (a0) is for project p1",
        "key": "no aggregate of the host (a0) is for project p1",
        "plain": "no aggregate of the host (none) is for project p1",
    }


def test_a_request_without_a_project_is_said_to_name_none():
    found = refusals(HOSTS, a_request(project_id=None), Plan(request_filters=[STRICT]), most=9)
    assert {each.reason for each in found} == {
        "needs an aggregate for the project of the request, which names none"
    }
