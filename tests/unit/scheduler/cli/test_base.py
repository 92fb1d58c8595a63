# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.cli.base, through a command that prints a report."""

import json
from argparse import Namespace
from io import StringIO
from types import SimpleNamespace

import pytest

from scheduler.cli.base import ReportCommand, Table

SECTIONS = [
    "A line.",
    Table("Hosts", ("Host", "Left"), [("h1", 3), ("h\x1b[2J", 12)]),
    Table("", (), []),
]


class Reporter(ReportCommand):
    """Prints the same report for all arguments."""

    def take_action(self, parsed_args):
        self.report(parsed_args, SECTIONS, {"a": [1, None]})


@pytest.fixture
def output():
    """Return a function that returns what a command prints in a format."""

    def print_as(output_format, width=0):
        app = SimpleNamespace(stdout=StringIO())
        args = Namespace(formatter=output_format, max_width=width, fit_width=False)
        args.print_empty = False
        Reporter(app, Namespace()).take_action(args)
        return app.stdout.getvalue()

    return print_as


def test_people_read_lines_and_tables(output):
    assert output("table") == (
        "A line.\n"
        "\nHosts\n"
        "+-------+------+\n"
        "| Host  | Left |\n"
        "+-------+------+\n"
        "| h1    |    3 |\n"
        # What a terminal would obey is not printed: tenants choose names and hints.
        "| h?[2J |   12 |\n"
        "+-------+------+\n"
    )


def test_a_report_obeys_a_width(output):
    lines = output("table", 12).splitlines()
    assert max(map(len, lines)) == 12
    # Numbers stay whole as long as there is room for them.
    assert lines[-4:] == ["| h1  |  3 |", "| h?[ | 12 |", "| 2J  |    |", "+-----+----+"]


def test_programs_read_a_document(output):
    assert json.loads(output("json")) == {"a": [1, None]}
