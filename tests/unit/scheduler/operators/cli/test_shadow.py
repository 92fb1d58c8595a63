# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of berthmaster shadow report."""

import json

import pytest

from inventory import shadow_reports
from tests.databases import execute

SHARES = {"vcpus": 0.5, "memory": 0.25, "disk": 0.0}
FLEET = {
    "hosts": 4,
    "empty_hosts": 1,
    "instances": 9,
    "used": SHARES,
    "stranded": SHARES,
    "drain_moves": 2,
}
DOCUMENT = {
    "requests": 8,
    "same": 6,
    "moves": 0,
    "unreadable": 0,
    "refused": 1,
    "refused_by_shadow": 0,
    "real": FLEET,
    "shadow": FLEET | {"empty_hosts": 3},
    "different": [
        {
            "decision": number,
            "request_id": f"req-{number}",
            "decided_at": "2026-11-24T10:00:00",
            "hosts": hosts,
            "hosts_of_shadow": ["h1", "h2"],
        }
        for number, hosts in ((1, ["h3", "h4"]), (2, []))
    ],
}


@pytest.fixture
def report(database):
    """Return a function that writes the report of a shadow."""
    number = database.write(lambda c: shadow_reports.begin(c, "controller1", "/etc/mix.conf"))

    def write(document):
        database.write(lambda c: shadow_reports.write(c, number, json.dumps(document)))

    return write


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_both_fleets_stand_side_by_side_and_what_was_decided_otherwise(command, report):
    report(DOCUMENT)
    text = command.run("shadow", "report").stdout
    assert "/etc/mix.conf, by scheduler controller1 since " in text
    assert "6 of 8 requests (75.0 %) have the same hosts" in text
    assert "left out" not in text
    assert "not at work" not in text
    rows = cells(text)
    assert ["Refused", "1", "0"] in rows
    assert ["vCPU %", "50.0", "50.0"] in rows
    assert ["Empty Hosts", "1", "3"] in rows
    newest, older = ([*row[1:]] for row in rows if row[:1] == ["2026-11-24T10:00:00"])
    assert newest == ["req-2", "refused", "h1, h2"]
    assert older == ["req-1", "h3, h4", "h1, h2"]
    (shadow,) = command.json("shadow", "report")["shadows"]
    assert DOCUMENT.items() <= shadow.items()
    assert (shadow["config"], shadow["scheduler"]) == ("/etc/mix.conf", "controller1")


def test_what_is_left_out_is_said(command, report, database):
    report(DOCUMENT | {"moves": 3, "unreadable": 2, "requests": 0, "same": 0, "different": []})
    execute(database, "UPDATE shadow_reports SET written_at = '2026-01-01 00:00:00'")
    text = command.run("shadow", "report").stdout
    assert "The shadow is not at work: it wrote this report at 2026-01-01T00:00:00 UTC" in text
    assert "0 of 0 requests have the same hosts" in text
    assert "3 requests about instances that were there before are left out" in text
    assert "2 decisions that another release has saved are left out" in text
    assert "Decided otherwise" not in text


def test_a_shadow_that_has_begun_has_not_reported_yet(command, report):
    assert "The shadow has not reported yet" in command.run("shadow", "report").stdout


def test_without_a_shadow_it_says_what_to_do(command, database):
    refused = command.refused("shadow", "report")
    assert "no shadow has reported yet: set [shadow] config of a scheduler" in refused


def test_an_unreadable_report_costs_no_other(command, report, database):
    report(DOCUMENT)
    execute(database, "UPDATE shadow_reports SET document = '{'")
    assert "The shadow has not reported yet" in command.run("shadow", "report").stdout
