# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.decision.by_value."""

from scheduler.decision.by_value import rows_where
from tests.hosts import a_table, hosts_with


def test_each_value_is_asked_about_once():
    hosts = hosts_with("hypervisor_type", {"h1": "kvm", "h2": "xen", "h3": "kvm", "h4": None})
    asked = []

    def holds(value):
        asked.append(value)
        return value != "xen"

    assert rows_where(hosts, "hypervisor_type", holds).tolist() == [True, False, True, True]
    assert sorted(asked, key=str) == [None, "kvm", "xen"]


def test_an_empty_table_has_no_rows():
    assert rows_where(a_table(), "host", lambda value: True).tolist() == []
