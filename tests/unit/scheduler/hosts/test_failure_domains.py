# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of what fails together."""

from scheduler.hosts.failure_domains import domains_of, doubtful, in_any, named_domains
from tests.hosts import a_host, a_table, an_aggregate


def rack(*names):
    return [an_aggregate(failure_domain=name) for name in names]


HOSTS = a_table(
    a_host("h1", aggregates=rack("a")),
    a_host("h2", aggregates=rack("a, power", "b")),
    a_host("h3", aggregates=rack("")),
    a_host("h4", aggregates=[an_aggregate(other="a")]),
    a_host("h4", "h4-second", aggregates=None),
)


def test_a_host_is_in_all_domains_that_its_aggregates_name():
    assert named_domains(rack("a, power", "b")) == {"a", "power", "b"}
    assert [domains_of(HOSTS, row) for row in range(3)] == [
        ("a",),
        ("a", "b", "power"),
        ("host:h3",),
    ]


def test_hosts_that_share_a_name_fail_together():
    assert in_any(HOSTS, ["power"]).tolist() == [False, True, False, False, False]
    assert in_any(HOSTS, ["a", "x"]).tolist() == [True, True, False, False, False]


def test_a_host_without_a_name_fails_with_all_of_its_nodes():
    assert in_any(HOSTS, ["host:h4"]).tolist() == [False, False, False, True, True]
    assert in_any(HOSTS, ["host:gone"]).tolist() == [False] * 5


def test_names_that_are_perhaps_meant_as_one_are_in_doubt():
    hosts = a_table(
        a_host("h1", aggregates=rack("rack-a", "power")),
        a_host("h2", aggregates=rack("Rack A, rack_a")),
        a_host("h3", aggregates=rack("rack-11")),
        a_host("h4", aggregates=rack("rack-1-1")),
    )
    (found,) = doubtful(hosts)
    assert found.startswith("Failure domains 'Rack A', 'rack-a' and 'rack_a' differ by letter")
    assert list(doubtful(HOSTS)) == []


def test_so_are_keys_that_are_perhaps_meant_as_the_property():
    keys = {"failure-domain": "a", "Failure_Domain": "a", "failure_domains": "a"}
    hosts = a_table(a_host("h1", aggregates=[an_aggregate(**keys)]))
    found = [*doubtful(hosts)]
    assert len(found) == 2
    assert "has a property 'Failure_Domain', which names no failure domain" in found[0]
