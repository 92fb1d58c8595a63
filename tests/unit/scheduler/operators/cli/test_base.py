# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.base, through a command that prints a report."""

import json
from argparse import Namespace
from io import StringIO
from types import SimpleNamespace

import pytest

from scheduler.operators.cli.base import ListCommand, ReportCommand, Table, print_report

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
        "+----------+------+\n"
        "| Host     | Left |\n"
        "+----------+------+\n"
        "| h1       |    3 |\n"
        # What a terminal would obey is not printed: tenants choose names and hints.
        r"| h\x1b[2J |   12 |"
        "\n"
        "+----------+------+\n"
    )


def test_a_report_obeys_a_width(output):
    lines = output("table", 12).splitlines()
    assert max(map(len, lines)) == 12
    # Numbers stay whole as long as there is room for them.
    assert [each[-5:] for each in lines[-5:-1]] == ["  3 |", " 12 |", "    |", "    |"]


def test_titles_are_broken_as_cells_are():
    stream, args = StringIO(), Namespace(max_width=17, fit_width=False, print_empty=False)
    print_report([Table("", ("Host", "Memory MB"), [("h1", 4096), ("h2", 12)])], stream, args)
    assert stream.getvalue() == (
        "\n"
        "+------+--------+\n"
        "| Host | Memory |\n"
        "|      |     MB |\n"
        "+------+--------+\n"
        "| h1   |   4096 |\n"
        "| h2   |     12 |\n"
        "+------+--------+\n"
    )


def test_programs_read_a_document(output):
    assert json.loads(output("json")) == {"a": [1, None]}


def test_a_list_is_watched_until_it_is_interrupted(command, monkeypatch):
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ListCommand, "pause", staticmethod(pause))
    done = command.run("host", "list", "--print-empty", "--watch", "0.5")
    assert (done.status, pauses) == (0, [0.5] * 3)
    # A pipe gets one list after the other, and nothing for terminals.
    assert done.stdout.count("| Host |") == 3
    assert "\033" not in done.stdout
    pauses.clear()
    command.run("service", "list", "--watch")
    assert pauses == [2.0] * 3


def test_what_changes_something_is_not_watched(command):
    assert "--watch" in command.refused("claim", "release", "u1", "--watch", status=2)


def test_an_empty_list_says_so_to_people(command):
    for formatter in ("table", "value", "csv"):
        assert command.run("instance", "list", "-f", formatter).stderr == "The list is empty.\n"
    for formatter in ("json", "yaml"):
        assert command.run("instance", "list", "-f", formatter).stderr == ""


@pytest.mark.parametrize(
    ("line", "problem", "usage"),
    [
        ("host show", "the following arguments are required: host", "host show [OPTION ...] host"),
        ("host disable", "no host is given", "host disable [OPTION ...] [host ...]"),
        ("select --vcpus x", "argument --vcpus: 'x' is not", "select [OPTION ...]"),
    ],
)
def test_an_error_of_a_command_line_is_before_its_usage(command, line, problem, usage):
    done = command.run(*line.split())
    name = usage.partition(" [")[0]
    error, *rest = done.stderr.splitlines()
    assert done.status == 2
    assert error.startswith(f"berthmaster {name}: error: {problem}")
    assert rest == [f"usage: berthmaster {usage}", f"options: berthmaster {name} --help"]
