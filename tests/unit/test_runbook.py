# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The runbook has each alert of the rules, with its figures, and commands that can be typed."""

import re
import shlex
from typing import Any

import pytest
import yaml
from cliff.commandmanager import CommandManager
from docutils.nodes import make_id

from scheduler.operators.cli.app import BerthmasterApp
from tests import guides
from tests.fixtures import documented
from tests.fixtures.documented import ROOT

URL = "https://docs.example.org/berthmaster/admin/runbook.html#"
PAGE = guides.page("admin/runbook")
SECTION = re.compile(r"^(Berthmaster\w+)\n-+\n(.*?)(?=^\S+[^\n]*\n[-=]{5,}\n|\Z)", re.M | re.S)
SECTIONS = {found[1]: " ".join(found[2].split()) for found in SECTION.finditer(PAGE)}
UNITS = {"m": "minute", "d": "day"}


def alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "etc/prometheus/berthmaster.rules.yml").read_text())["groups"]
    return {rule["alert"]: rule for each in groups for rule in each["rules"] if "alert" in rule}


ALERTS = alerts()


def test_each_alert_has_its_section_and_leads_to_it():
    assert {*SECTIONS} == {*ALERTS}
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == URL + make_id(name)


@pytest.mark.parametrize("name", ALERTS)
def test_a_section_says_when_its_alert_fires(name):
    rule = ALERTS[name]
    when = re.search(r":Fires when: (.*?) :Means: ", SECTIONS[name])
    assert when
    if "for" in rule:
        number, unit = rule["for"][:-1], UNITS[rule["for"][-1]]
        # Not followed by an s where the number is 1.
        assert f"for {number} {unit}{'s' * (number != '1')}" in when[1]
    floors = [int(each) for each in re.findall(r"> (\d+)(?![\d.])", rule["expr"])]
    for least in (each for each in floors if each > 1):
        assert re.search(rf"more than {least}\b", when[1]), when[1]
    for minutes in set(re.findall(r"increase\([^)]*\[(\d+)m\]", rule["expr"])) & {"5", "10"}:
        assert re.search(rf"(within|last) {minutes} minutes", when[1]), when[1]
    severity = rule["labels"]["severity"]
    assert ("warning" if "(" not in when[1] else when[1].rpartition("(")[2][:-2]) == severity


def test_a_share_has_a_floor():
    """Of a few tries by hand one is many percent."""
    shares = [each for each in ALERTS.values() if re.search(r"> 0\.\d+ \* sum\(rate", each["expr"])]
    assert len(shares) == 3
    assert [each["alert"] for each in shares if "sum(increase(" not in each["expr"]] == []


def test_the_commands_of_each_section_can_be_typed():
    manager, app = CommandManager("berthmaster.cli"), BerthmasterApp(None)
    steps = documented.steps("doc/source/admin/runbook.rst")
    commands = [each for each in steps if each.kind in ("command", "not run")]
    begins = {PAGE[: found.start()].count("\n"): found[1] for found in SECTION.finditer(PAGE)}
    sections = {
        max((line, name) for line, name in begins.items() if line < each.line)[1]
        for each in commands
    }
    assert sections == {*ALERTS}
    for each in commands:
        program, *words = shlex.split(each.text)
        if program == "berthmaster":
            command, name, rest = manager.find_command(words)
            # It ends the test where it does not know an argument.
            command(app, None).get_parser(name).parse_args(rest)
