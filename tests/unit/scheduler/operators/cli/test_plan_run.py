# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of 'plan run' with a program that moves instances between rows, as agents report them."""

import json
import signal
import subprocess
import sys

import pytest

from inventory import instances
from scheduler.operators.cli import plan_run
from tests.databases import a_node, an_instance, save, serve
from tests.fixtures.daemons.process import PATIENCE, wait_until

# Moves an instance from its host to another; it logs its arguments, and can be told to fail.
MOVER = """
import json, os, sqlite3, sys, time
directory, uuid, host = sys.argv[1:4]
with open(f"{directory}/calls", "a") as calls:
    calls.write(json.dumps(sys.argv[2:]) + "\\n")
if os.path.exists(f"{directory}/fail-{uuid}"):
    sys.exit(f"{uuid} does not like to move")
while os.path.exists(f"{directory}/wait"):
    time.sleep(0.01)
with sqlite3.connect(f"{directory}/inventory.sqlite", timeout=60) as connection:
    connection.execute("UPDATE instances SET host = ?, node = ? WHERE uuid = ?", (host, host, uuid))
"""

# Confirms the resize of its last argument.
CLIENT = """#!{python}
import json, sqlite3, sys
with open("{directory}/calls", "a") as calls:
    calls.write(json.dumps([" ".join(sys.argv[1:])]) + "\\n")
with sqlite3.connect("{directory}/inventory.sqlite", timeout=60) as connection:
    connection.execute("UPDATE instances SET vm_state = 'active' WHERE uuid = ?", sys.argv[-1:])
"""


@pytest.fixture
def cloud(database):
    """A host with three instances, and an empty one."""
    save(database, a_node("old"), a_node("new"))
    serve(database, "old", "new")
    rows = [an_instance(f"i{number}", memory_mb=1000 * number) for number in (3, 2, 1)]
    database.write(lambda c: instances.replace(c, "old", "old", rows))
    return database


@pytest.fixture
def plan(command, cloud, tmp_path):
    """A plan that empties the host, in a file."""
    path = tmp_path / "plan.json"
    path.write_text(command.run("plan", "drain", "old", "-f", "json").stdout)
    return path


@pytest.fixture
def mover(tmp_path):
    """The arguments that make moves by the program above."""
    program = tmp_path / "mover.py"
    program.write_text(MOVER)
    return f"--command={sys.executable} {program} {tmp_path} {{server}} {{host}}"


def calls(tmp_path):
    path = tmp_path / "calls"
    return [json.loads(each)[0] for each in path.read_text().splitlines()] if path.exists() else []


def on(command, host):
    listed = command.json("instance", "list", "--host", host)
    return {each["ID"] for each in listed if each["State"] != "pending"}


def test_all_moves_are_made_in_their_order(command, plan, mover, tmp_path):
    done = command.run("plan", "run", str(plan), mover)
    assert done.status == 0, done
    assert done.stdout.splitlines()[0].startswith(
        "1 of 3: i3 from old to new by live migration: done in "
    )
    assert done.stdout.splitlines()[-1] == "3 of 3 moves done"
    assert calls(tmp_path) == ["i3", "i2", "i1"]
    assert on(command, "new") == {"i1", "i2", "i3"}
    # Once more there is nothing to do.
    assert command.run("plan", "run", str(plan), mover).stdout == "3 of 3 moves done\n"
    assert len(calls(tmp_path)) == 3


def test_room_is_claimed_for_the_step_under_way(command, plan, mover, tmp_path):
    (tmp_path / "fail-i3").touch()
    assert command.run("plan", "run", str(plan), mover).status == 1
    claims = {(each["Instance"], each["Host"]) for each in command.json("claim", "list")}
    assert claims == {(f"i{number}", "new") for number in (1, 2, 3)}
    # They are those of the plan, and so in the way of nothing when it goes on.
    (tmp_path / "fail-i3").unlink()
    assert command.run("plan", "run", str(plan), mover).status == 0


def test_it_stops_at_the_first_failure_and_goes_on_with_it(command, plan, mover, tmp_path):
    (tmp_path / "fail-i2").touch()
    done = command.run("plan", "run", str(plan), mover)
    assert done.status == 1
    assert "failed: " in done.stdout
    assert "has ended with status 1: i2 does not like to move\n" in done.stdout
    assert done.stdout.endswith("1 of 3 moves done; the same command goes on\n")
    assert calls(tmp_path) == ["i3", "i2"]
    (tmp_path / "fail-i2").unlink()
    assert command.run("plan", "run", str(plan), mover).status == 0
    assert calls(tmp_path) == ["i3", "i2", "i2", "i1"]


def test_at_most_so_many_moves_fail(command, plan, mover, tmp_path):
    for uuid in ("i3", "i1"):
        (tmp_path / f"fail-{uuid}").touch()
    done = command.run("plan", "run", str(plan), mover, "--at-most=2")
    assert done.stdout.endswith("1 of 3 moves done; the same command goes on\n")
    assert calls(tmp_path) == ["i3", "i2", "i1"]


def test_a_move_that_is_not_possible_any_more_is_not_begun(command, plan, mover, tmp_path):
    assert command.run("host", "disable", "new").status == 0
    done = command.run("plan", "run", str(plan), mover)
    assert "1 of 3: i3 from old to new by live migration: failed: ComputeFilter: " in done.stdout
    assert calls(tmp_path) == []


def test_an_instance_that_does_not_arrive_is_a_failure(command, plan, mover, monkeypatch):
    monkeypatch.setattr(plan_run, "LOOK_INTERVAL", 0.01)
    missing = mover.replace("{host}", "old")
    done = command.run("plan", "run", str(plan), missing, "--timeout=3")
    assert " in time\n" in done.stdout


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_ended_during_a_move_goes_on(command, plan, mover, tmp_path, how):
    """The program lives on and ends its move, which is not begun again."""
    (tmp_path / "wait").touch()
    program = "from scheduler.operators.cli.cmd import main; main()"
    line = [sys.executable, "-c", program, f"--config-file={command.config}"]
    with subprocess.Popen([*line, "plan", "run", str(plan), mover]) as run:
        try:
            assert wait_until(lambda: calls(tmp_path))
            run.send_signal(how)
            if how == signal.SIGKILL:
                run.wait(PATIENCE)
        finally:
            (tmp_path / "wait").unlink()
    assert wait_until(lambda: on(command, "new") == {"i3"})
    assert command.run("plan", "run", str(plan), mover).status == 0
    assert calls(tmp_path) == ["i3", "i2", "i1"]


def test_a_cold_migration_that_is_not_confirmed_yet_is_only_confirmed(
    command, plan, cloud, tmp_path, monkeypatch
):
    """As after a kill between the calls of the client of OpenStack, which a program plays."""
    client = tmp_path / "openstack"
    client.write_text(CLIENT.format(python=sys.executable, directory=tmp_path))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = plan.read_text().replace("live migration", "cold migration")
    (one,) = (each for each in json.loads(text)["moves"] if each["instance"] == "i3")
    plan.write_text(json.dumps(json.loads(text) | {"moves": [one]}))
    rows = [an_instance("i3", memory_mb=3000, vm_state="resized")]
    cloud.write(lambda c: instances.replace(c, "new", "new", rows))
    cloud.write(lambda c: instances.replace(c, "old", "old", []))
    assert command.run("plan", "run", str(plan)).stdout.endswith("1 of 1 move done\n")
    assert calls(tmp_path) == ["server resize confirm i3"]


def test_two_runs_of_one_plan_are_refused(command, plan, mover, tmp_path):
    journal = tmp_path / "plan.json.journal"
    lock = f"import fcntl; file = open({str(journal)!r}, 'a'); fcntl.flock(file, fcntl.LOCK_EX)"
    line = [sys.executable, "-c", f"{lock}; print(flush=True); input()"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        refused = command.refused("plan", "run", str(plan), mover)
        other.communicate(b"\n")
    assert refused == f"another 'plan run' carries out {plan}"


def test_the_journal_of_another_plan_is_refused(command, plan, mover, tmp_path):
    assert command.run("plan", "run", str(plan), mover).status == 0
    plan.write_text(plan.read_text() + "\n")
    refused = command.refused("plan", "run", str(plan), mover)
    assert refused == f"{plan}.journal cannot be used, move it away: it is of another plan"


def test_a_line_that_a_kill_has_cut_off_is_no_error(command, plan, mover, tmp_path):
    assert command.run("plan", "run", str(plan), mover).status == 0
    journal = tmp_path / "plan.json.journal"
    journal.write_text(journal.read_text() + '{"mov')
    assert command.run("plan", "run", str(plan), mover).status == 0
    assert "mov\n" not in journal.read_text()


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("nosuch {server}", "argument --command: there is no program 'nosuch'"),
        ("echo {host}", "does not name the instance: {server}"),
        ("echo {server} {where}", "{where} stands for nothing"),
        ("echo '{server}", "is no command: No closing quotation"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused(command, plan, call, why):
    assert why in command.refused("plan", "run", str(plan), f"--command={call}", status=2)


def test_without_the_client_of_openstack_it_is_said_how_to_get_it(command, plan, monkeypatch):
    monkeypatch.setenv("PATH", "")
    refused = command.refused("plan", "run", str(plan), status=2)
    assert "there is no program 'openstack': install python-openstackclient" in refused


def test_no_shell_sees_what_is_put_in(command, plan, mover, cloud, tmp_path):
    """Not even a name that is a command, or another name of a call."""
    hostile = plan.read_text().replace('"i3"', json.dumps("$(touch x) {host};"))
    plan.write_text(hostile)
    done = command.run("plan", "run", str(plan), mover)
    assert "$(touch x) {host}; from old to new" in done.stdout
    assert "failed: the instance is not on any host" in done.stdout
    assert calls(tmp_path) == []
