# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.cli.telling."""

import json
from argparse import Namespace
from io import StringIO
from types import SimpleNamespace

import pytest

from scheduler.cli.telling import Table, TellingCommand

STORY = [
    "A line.",
    Table("Hosts", ("Host", "Left"), [("h1", 3), ("h\x1b[2J", 12)]),
    Table("", (), []),
]


class Teller(TellingCommand):
    """Tells the same whatever it is asked."""

    def take_action(self, parsed_args):
        self.tell(parsed_args, STORY, {"a": [1, None]})


@pytest.fixture
def told():
    """Return a function that gives what a command prints in a format."""

    def tell(form):
        app = SimpleNamespace(stdout=StringIO())
        Teller(app, Namespace()).take_action(Namespace(format=form))
        return app.stdout.getvalue()

    return tell


def test_people_read_lines_and_tables(told):
    assert told("table") == (
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


def test_programs_read_a_document(told):
    assert json.loads(told("json")) == {"a": [1, None]}
