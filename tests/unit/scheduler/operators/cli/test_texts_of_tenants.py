# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What tenants write into names and properties does nothing to a terminal, a list or a shell."""

import re
import subprocess

import pytest
import yaml

from conf.plain_text import escaped
from inventory import instances
from inventory.queries import instance_queries
from tests.databases import a_node, an_instance, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of

(WEB,) = uuids_of("web")
# A window's title, a bell, C1, directions and a row of a list; then what a shell would run.
HOSTILE = (
    "\x1b]0;t\x07\x9b2J\r\u202egpj\u2066\u200f\n| forged | row |\n"
    "\"; touch ran; $(touch ran) `touch ran` \\\" $HOME '; touch ran; ' ! #"
)
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200f\u202e\u2066]|^[|] forged", re.MULTILINE)
FORMATS = {
    "list": ["table", "value", "csv", "json", "yaml"],
    "show": ["table", "value", "shell", "json", "yaml"],
}


@pytest.fixture
def cloud(database, command):
    """An instance with a hostile name, flavor and project, placed and refused by decisions."""
    save(database, a_node("h1"))
    serve(database, "h1")
    hostile = {"project_id": HOSTILE, "scheduler_hints": {HOSTILE: [HOSTILE]}}
    with KeepingScheduler(database, configured(command.config)) as keeping:
        assert keeping.ask("web", memory_mb=64, **hostile)
        assert not keeping.ask("large", memory_mb=600_000, **hostile)
    guest = an_instance(WEB, display_name=HOSTILE, project_id=HOSTILE, flavor_name=HOSTILE)
    database.write(lambda c: instances.replace(c, "h1", "h1", [guest]))
    return database


@pytest.mark.parametrize("kind", ["list", "show"])
def test_no_format_has_what_a_terminal_obeys_or_a_row_that_nobody_wrote(cloud, command, kind):
    words = ["instance", kind, *([WEB] if kind == "show" else ["--long"])]
    for each in FORMATS[kind]:
        done = command.run(*words, "-f", each)
        assert done.status == 0
        assert not UNSAFE.search(done.stdout), each
        assert "forged" in done.stdout


def test_lists_of_values_have_a_line_for_each_instance(cloud, command):
    text = command.run("instance", "list", "-f", "value", "-c", "Name", "-c", "ID").stdout
    assert len(text.splitlines()) == 1
    assert escaped(HOSTILE) in text
    text = command.run("instance", "list", "-f", "csv", "-c", "Name", "-c", "Host").stdout
    assert len(text.splitlines()) == 2


def test_a_shell_that_evaluates_the_output_runs_nothing(cloud, command, tmp_path):
    text = command.run("instance", "show", WEB, "-f", "shell", "--prefix", "vm_").stdout
    script = f'{text}printf %s "$vm_name"'
    for shell in ("bash", "sh"):
        done = subprocess.run(
            [shell, "-euc", script], cwd=tmp_path, capture_output=True, check=True, timeout=30
        )
        assert done.stdout.decode() == escaped(HOSTILE)
        assert done.stderr == b""
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("decision", "list", "-f", "value"), 0),
        (("explain", "1"), 0),
        (("explain", "2", "--near-miss"), 0),
        (("explain", "2", "--host", "h1"), 0),
        (("instance", "list", "--project", HOSTILE), 0),
        (("instance", "show", HOSTILE), 0),
        (("instance", "show", WEB, HOSTILE), 2),
    ],
)
def test_reports_and_errors_have_nothing_that_a_terminal_obeys(cloud, command, words, status):
    done = command.run(*words)
    assert done.status == status, done.stderr
    assert "forged" in done.stdout + done.stderr
    assert not UNSAFE.search(done.stdout + done.stderr)


def test_an_error_with_such_a_text_changes_nothing_in_a_terminal(cloud, command, monkeypatch):
    def fail(*_arguments):
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr(instance_queries, "show", fail)
    done = command.run("instance", "show", WEB)
    assert done.status == 1
    assert "forged" in done.stderr
    assert not re.search("[^\n -~]", done.stderr)


@pytest.mark.parametrize("words", [("host", "show", "h1"), ("instance", "show", WEB)])
def test_yaml_is_written_of_what_the_database_calls_its_columns(cloud, command, words):
    done = command.run(*words, "-f", "yaml")
    assert (done.status, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["host"] == "h1"
