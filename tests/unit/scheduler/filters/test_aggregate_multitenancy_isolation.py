# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of a filter for reserved aggregates."""

import pytest

from scheduler.filters.aggregate_multitenancy_isolation import AggregateMultiTenancyIsolation
from tests.builders import a_request
from tests.hosts import a_host, a_table, an_aggregate

RULE = AggregateMultiTenancyIsolation()
KEY = "filter_tenant_id"


@pytest.mark.parametrize(
    ("metadata", "project", "kept_for"),
    [
        ([{KEY: "p1"}], "p1", None),
        ([{KEY: "p1"}], "p2", "'p1'"),
        ([{KEY: "p1, p2"}], "p2", None),
        ([{KEY: "p1, p2"}], "p3", "'p1', 'p2'"),
        ([{f"{KEY}2": "p1"}], "p2", "'p1'"),
        ([{f"{KEY}2": "p1"}], "p1", None),
        ([{KEY: "p1", f"{KEY}2": "p2"}], "p2", None),
        ([{KEY: "p1"}, {KEY: "p2"}], "p2", None),
        ([{KEY: "p1"}, {"ssd": "true"}], "p2", "'p1'"),
        ([], "p1", None),
        ([{"ssd": "true", "old_filter_tenant_id": "p2"}], "p1", None),
        ([{KEY: "P1"}], "p1", "'P1'"),
        # As in Nova, an empty value is a list of nobody and any key that begins so counts.
        ([{KEY: ""}], "p1", "''"),
        ([{"filter_tenant_idea": "p1"}], "p2", "'p1'"),
        ([{KEY: "p1"}], None, "'p1'"),
        ([], None, None),
    ],
)
def test_worked_cases(metadata, project, kept_for):
    host = a_host(aggregates=[an_aggregate(**each) for each in metadata])
    spec = a_request(project_id=project)
    passes = RULE.host_passes(host, spec)
    assert passes == (kept_for is None)
    asked = "names no project" if project is None else f"is of {project!r}"
    reason = f"is kept for the projects {kept_for}, the request {asked}"
    assert passes or RULE.reason(host, spec) == reason


def test_a_mask_has_each_host_s_own_verdict():
    hosts = a_table(
        a_host("h1", aggregates=[an_aggregate(**{KEY: "p1"})]),
        a_host("h2", aggregates=[an_aggregate(**{f"{KEY}3": "p2"})]),
        a_host("h3", aggregates=None),
    )
    for project, expected in (("p1", [True, False, True]), ("p2", [False, True, True])):
        assert RULE.mask(hosts, a_request(project_id=project)).tolist() == expected


def test_when_it_is_asked():
    assert RULE.run_filter_once_per_request
    assert not RULE.RUN_ON_REBUILD
