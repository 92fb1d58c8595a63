# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.database_connection, by the command, on failing databases."""

import socket

import pytest

from inventory import migrations, services
from tests.databases import execute, serve

ADVICE = "check that it runs and can be reached from here, or wait longer with berthmaster"


@pytest.fixture
def server():
    """A server that lets clients connect and then says nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def elsewhere(command, server):
    """The command, with the database of that server; daemons would wait for it for 100 s."""
    port = server.getsockname()[1]
    command.config.write_text(
        f"[database]\nconnection = mysql+pymysql://me:secret@127.0.0.1:{port}/bm\n"
    )
    return command


def test_a_wait_is_announced_and_its_failure_reported(elsewhere, server):
    place = f"127.0.0.1:{server.getsockname()[1]}"
    waiting, refused = elsewhere.refused("--database-timeout=1.2", "host", "list").splitlines()
    assert waiting == f"waiting for the database at {place} ..."
    assert refused.startswith(
        f"the database is not available: no answer from {place} within 1.2 s; {ADVICE}"
    )
    assert refused.endswith(f"([database] connection is mysql+pymysql://me:***@{place}/bm)")


def test_a_server_that_is_not_there_is_tried_until_then(elsewhere, server):
    server.close()
    output = elsewhere.refused("--database-timeout=2.5", "db", "sync").splitlines()
    assert output[0].startswith("waiting for the database at 127.0.0.1:")
    assert "Connection refused" in output[1]
    assert ADVICE in output[1]


def test_a_server_is_called_by_its_socket_too(command, tmp_path):
    path = tmp_path / "db.sock"
    url = f"mysql+pymysql://me:secret@/bm?unix_socket={path}"
    command.config.write_text(f"[database]\nmax_retries = -1\nconnection = {url}\n")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        output = command.refused("--database-timeout=0.1", "host", "list")
    assert output.startswith(f"waiting for the database at {path} ...\n")


@pytest.mark.parametrize("timeout", ["0", "x", "-1"])
def test_a_wrong_timeout_is_refused(command, timeout):
    output = command.refused(f"--database-timeout={timeout}", "host", "list", status=2)
    assert f"--database-timeout: '{timeout}' is not a number of seconds above 0" in output


@pytest.mark.parametrize(
    "arguments",
    [
        ["host", "list"],
        ["explain", "req-1"],
        ["capacity", "--flavor=1,1,1"],
        ["aggregate", "create", "rack"],
        ["db", "version"],
    ],
)
def test_only_db_sync_makes_a_file(command, tmp_path, arguments):
    path = tmp_path / "state" / "inventory.sqlite"
    command.config.write_text(f"[database]\nconnection = sqlite:///{path}\n")
    output = command.refused(*arguments)
    assert output == (
        f"there is no database {path} yet: run 'berthmaster {command.options[0]} db sync' once"
        f" ([database] connection is sqlite:///{path})"
    )
    assert not path.parent.exists()
    assert command.run("db", "sync").status == 0
    assert path.exists()


def test_an_error_of_the_database_is_shown_without_its_statement(command, database):
    execute(database, "DROP TABLE aggregate_metadata")
    columns = "aggregate_id INTEGER, key TEXT, value TEXT CHECK (value <> 'b')"
    execute(database, f"CREATE TABLE aggregate_metadata ({columns})")
    output = command.refused("aggregate", "create", "secret rack", "--property", "a=b")
    assert output.startswith("the database refused a statement: CHECK constraint failed")
    for each in ("INSERT", "secret rack", "sqlalche.me"):
        assert each not in output


def test_a_database_that_refuses_a_value_is_not_said_to_be_away(command):
    """As the name of a host is one that was typed in another character set than UTF-8."""
    refused = command.refused("host", "show", "Z\udcfcrich")
    assert refused.startswith("the database refuses a value: a text contains half of a character")


@pytest.fixture
def running(database):
    """A scheduler and two agents that are up, and an agent that is down."""
    serve(database, "h1", "h2", "gone")

    def scheduler(connection):
        ids = services.register(connection, ["control"], services.SCHEDULER, 1)
        services.beat(connection, ids)

    database.write(scheduler)
    execute(
        database, "UPDATE services SET last_seen_up = '2020-01-01 00:00:00' WHERE host = 'gone'"
    )


RUNNING = "1 scheduler runs, on control; 2 agents run, on h1, h2"


def test_an_upgrade_names_the_daemons_that_run(command, running, monkeypatch):
    monkeypatch.setattr(migrations, "sync", lambda _: ("0015", "0016"))
    monkeypatch.setattr(migrations, "revision", lambda _: "0015")
    done = command.run("db", "sync")
    assert (done.status, "is now at 0016" in done.stdout) == (0, True)
    assert done.stderr == (
        f"Daemons of the release before go on with it; restart them with this release: {RUNNING}.\n"
    )
    monkeypatch.undo()
    assert command.run("db", "sync").stderr == ""


def test_an_upgrade_that_needs_a_stop_is_refused_while_daemons_run(command, running, monkeypatch):
    monkeypatch.setattr(migrations, "revision", lambda _: "0009")
    assert command.refused("db", "sync") == (
        f"stop all daemons before this upgrade: {RUNNING}. Daemons that have ended count as running"
        " for 60 s"
    )
