# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of 'plan run' with a program that moves instances between rows, as agents report them."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys

import pytest
import sqlalchemy as sa

from inventory import instances
from inventory.errors import OperationRefused
from inventory.tables import allocations
from scheduler.operators.cli import plan_move, plan_stage, terminal
from scheduler.operators.cli.plan import PlanDrain
from scheduler.select_destinations.destinations import Destinations
from scheduler.wire.errors import InvalidInput
from tests.databases import a_node, an_instance, execute, save, serve
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
    change = "host = ?1, node = ?1"
    if os.path.exists(f"{directory}/ruin-{uuid}"):
        change = "vm_state = 'error', display_name = ?1"
    connection.execute(f"UPDATE instances SET {change} WHERE uuid = ?2", (host, uuid))
"""

# Confirms the resize of its last argument.
CLIENT = """#!{python}
import json, sqlite3, sys
with open("{directory}/calls", "a") as calls:
    calls.write(json.dumps([" ".join(sys.argv[1:])]) + "\\n")
with sqlite3.connect("{directory}/inventory.sqlite", timeout=60) as connection:
    connection.execute("UPDATE instances SET vm_state = 'active' WHERE uuid = ?", sys.argv[-1:])
"""


def a_client(tmp_path, script):
    """Write a client of OpenStack that is a script of the shell."""
    client = tmp_path / "openstack"
    client.write_text(f"#!/bin/sh\n{script}\n")
    client.chmod(0o755)


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


def plan_of_one(plan, uuid):
    """Leave only the move of one instance in a plan."""
    document = json.loads(plan.read_text())
    document["moves"] = [each for each in document["moves"] if each["instance"] == uuid]
    plan.write_text(json.dumps(document))


def program(command):
    """Return the command as a program of its own."""
    text = "from scheduler.operators.cli.cmd import main; main()"
    return [sys.executable, "-c", text, f"--config-file={command.config}"]


def test_all_moves_are_made_in_their_order(command, plan, mover, tmp_path):
    done = command.run("plan", "run", str(plan), mover)
    assert done.status == 0, done
    what = "1 of 3: i3 from old to new by live migration: "
    assert done.stdout.splitlines()[0] == f"{what}begins"
    assert done.stdout.splitlines()[1].startswith(f"{what}done in ")
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


def test_what_is_claimed_for_the_step_is_held_as_long_as_a_move_takes(
    command, plan, mover, cloud, tmp_path
):
    with command.config.open("a") as config:
        config.write("[claims]\nlease = 3\n")
    (tmp_path / "wait").touch()

    def ends():
        c = allocations.c
        query = sa.select(c.instance_uuid, c.expires_at)
        return dict(map(tuple, cloud.read(lambda connection: connection.execute(query).all())))

    with subprocess.Popen([*program(command), "plan", "run", str(plan), mover]) as run:
        try:
            assert wait_until(lambda: calls(tmp_path))
            before = ends()
            assert before.keys() == {"i1", "i2", "i3"}
            assert wait_until(lambda: all(ends()[uuid] > end for uuid, end in before.items()))
        finally:
            (tmp_path / "wait").unlink()
        assert run.wait(PATIENCE) == 0


def test_who_watches_sees_what_becomes_of_each_move(command, plan, mover, monkeypatch):
    monkeypatch.setattr(plan_move, "LOOK_INTERVAL", 0.01)
    plan_of_one(plan, "i3")
    done = command.run("plan", "run", str(plan), mover, "--watch")
    time = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ "
    begins, *between, over, _ = done.stdout.splitlines()
    assert re.fullmatch(f"{time}1 of 1: i3 from old to new by live migration: begins", begins)
    assert re.fullmatch(f"{time}1 of 1: i3 from old to new by live migration: done in .*", over)
    assert [re.sub(time, "", each) for each in between][:1] == ["1 of 1: on old (active)"]


def test_a_program_gets_what_became_of_each_move(command, plan, mover, tmp_path):
    (tmp_path / "fail-i2").touch()
    done = command.run("plan", "run", str(plan), mover, "-f", "json")
    found = json.loads(done.stdout)
    assert [each["state"] for each in found["moves"]] == ["done", "failed", "done"]
    assert "does not like to move" in found["moves"][1]["why"]
    assert (found["complete"], found["file"]) == (False, str(plan))
    assert shlex.split(found["goes_on"])[2:] == ["plan", "run", str(plan), mover]
    # How it goes is for people.
    assert done.stderr.startswith("1 of 3: i3 from old to new")


def test_a_move_that_fails_is_tried_again_by_the_command_that_is_named(
    command, plan, mover, tmp_path
):
    (tmp_path / "fail-i2").touch()
    done = command.run("plan", "run", str(plan), mover)
    assert done.status == 1
    assert "failed: " in done.stdout
    assert "has ended with status 1: i2 does not like to move\n" in done.stdout
    said, line = done.stdout.splitlines()[-1].split("; to go on, run: ")
    assert said == "2 of 3 moves done"
    assert calls(tmp_path) == ["i3", "i2", "i1"]
    (tmp_path / "fail-i2").unlink()
    program, config, *again = shlex.split(line)
    assert (program, config) == ("berthmaster", f"--config-file={command.config}")
    assert command.run(*again).status == 0
    assert calls(tmp_path) == ["i3", "i2", "i1", "i2"]


def test_at_most_so_many_moves_fail(command, plan, mover, tmp_path):
    for uuid in ("i3", "i2"):
        (tmp_path / f"fail-{uuid}").touch()
    done = command.run("plan", "run", str(plan), mover, "--at-most=2", "--timeout=1200")
    assert "0 of 3 moves done; to go on, run: " in done.stdout
    assert calls(tmp_path) == ["i3", "i2"]
    # What was asked for holds for the rest as well.
    line = shlex.split(done.stdout.splitlines()[-1])
    assert line[-3:] == ["--at-most=2", "--timeout=1200", mover]


def a_move(uuid, source, target, step, gb):
    ends = {"from": source, "from_node": source, "to": target, "to_node": target}
    rest = {"memory_mb": gb * 1024, "disk_mb": 0, "reason": "", "stage": 1, "step": step}
    return {"instance": uuid, "how": "live migration", **ends, **rest}


def test_a_move_that_fails_stops_those_only_that_depend_on_it(command, database, mover, tmp_path):
    """One needs the room that it frees, one is of the same instance, one depends on nothing."""
    save(database, *(a_node(each, initial_ram_allocation_ratio=1.0) for each in ("h1", "h2", "h3")))
    serve(database, "h1", "h2", "h3")
    rows = {"h1": [("a", 40)], "h3": [("b", 40), ("c", 10)]}
    for host, guests in rows.items():
        listed = [an_instance(uuid, memory_mb=gb * 1024) for uuid, gb in guests]
        database.write(lambda c, at=(host, host, listed): instances.replace(c, *at))
        free = 65536 - sum(gb for _, gb in guests) * 1024
        change = f"free_ram_mb = {free}, memory_mb_used = {65536 - free}"
        execute(database, f"UPDATE compute_nodes SET {change} WHERE host = '{host}'")
    moves = [
        a_move("a", "h1", "h2", 1, 40),
        a_move("b", "h3", "h1", 2, 40),
        a_move("a", "h2", "h3", 2, 40),
        a_move("c", "h3", "h2", 2, 10),
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "moves": moves}))
    (tmp_path / "fail-a").touch()
    found = json.loads(command.run("plan", "run", str(plan), mover, "-f", "json").stdout)
    assert [each["state"] for each in found["moves"]] == ["failed", "failed", "failed", "done"]
    assert found["moves"][1]["why"].startswith("RamFilter: ")
    assert calls(tmp_path) == ["a", "c"]


def test_an_instance_for_which_no_claim_can_be_asked_stops_no_other(
    command, plan, mover, tmp_path, monkeypatch
):
    def select(self, arguments, *others):
        if arguments.instance_uuids == ["i3"]:
            raise InvalidInput("instance_uuids: i3 has come to be elsewhere")
        return select_all(self, arguments, *others)

    select_all = Destinations.select
    monkeypatch.setattr(Destinations, "select", select)
    done = command.run("plan", "run", str(plan), mover)
    assert (
        "failed: no room is claimed on new: Invalid input received: instance_uuids" in done.stdout
    )
    assert calls(tmp_path) == ["i2", "i1"]


@pytest.mark.parametrize("state", ["paused", "suspended", "rescued", "resized"])
def test_an_instance_that_nova_does_not_evacuate_stops_no_other(
    command, cloud, mover, tmp_path, state
):
    """It has come to this state since the plan was made."""
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "repair", "-f", "json").stdout)
    execute(cloud, f"UPDATE instances SET vm_state = '{state}' WHERE uuid = 'i3'")
    done = command.run("plan", "run", str(plan), mover, "--evacuate")
    assert f"failed: the instance is in state {state}: Nova evacuates only " in done.stdout
    assert "2 of 3 moves done; to go on, run: " in done.stdout
    assert calls(tmp_path) == ["i2", "i1"]
    # As the page advises; the program leaves it in this state.
    execute(cloud, "UPDATE instances SET vm_state = 'error' WHERE uuid = 'i3'")
    done = command.run("plan", "run", str(plan), mover, "--evacuate")
    assert done.stdout.splitlines()[1].endswith("failed: the instance is in state error")
    assert calls(tmp_path) == ["i2", "i1", "i3"]


def test_an_instance_that_is_gone_is_passed_over(command, plan, mover, cloud, tmp_path):
    execute(cloud, "DELETE FROM instances WHERE uuid = 'i3'")
    done = command.run("plan", "run", str(plan), mover)
    assert done.stdout.splitlines()[0] == (
        "1 of 3: i3 from old to new by live migration: is passed over: the instance is not on any"
        " host"
    )
    assert done.stdout.splitlines()[-1] == "2 of 3 moves done, 1 instance is gone"
    assert (done.status, calls(tmp_path)) == (0, ["i2", "i1"])


def test_a_move_that_is_not_possible_any_more_is_not_begun(command, plan, mover, tmp_path):
    assert command.run("host", "disable", "new").status == 0
    done = command.run("plan", "run", str(plan), mover)
    assert "1 of 3: i3 from old to new by live migration: failed: ComputeFilter: " in done.stdout
    assert calls(tmp_path) == []


def test_an_instance_that_does_not_arrive_is_a_failure(command, plan, mover, monkeypatch):
    monkeypatch.setattr(plan_move, "LOOK_INTERVAL", 0.01)
    missing = mover.replace("{host}", "old")
    done = command.run("plan", "run", str(plan), missing, "--timeout=3")
    assert " in time\n" in done.stdout


def test_an_instance_in_error_is_not_waited_for(command, plan, mover, tmp_path):
    (tmp_path / "ruin-i3").touch()
    done = command.run("plan", "run", str(plan), mover)
    why = "1 of 3: i3 from old to new by live migration: failed: the instance is in state error"
    assert why in done.stdout


def a_run(command, *arguments):
    """Return a run of its own, as who reads it from a file sees it."""
    line = [*program(command), "plan", "run", *arguments]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize(
    ("how", "times"),
    [
        (signal.SIGKILL, 1),
        (signal.SIGTERM, 1),
        (signal.SIGHUP, 1),
        # A lost terminal may send several of them.
        (signal.SIGHUP, 3),
        # The second one is as good as a kill.
        (signal.SIGTERM, 2),
        (signal.SIGINT, 2),
    ],
)
def test_a_run_that_was_ended_during_a_move_goes_on(command, plan, mover, tmp_path, how, times):
    """The program lives on and ends its move, which no other one begins again meanwhile."""
    (tmp_path / "wait").touch()
    with a_run(command, str(plan), mover) as run:
        try:
            assert wait_until(lambda: calls(tmp_path))
            assert run.stdout.readline().endswith(": begins\n")
            for _ in range(times):
                run.send_signal(how)
                if how in (signal.SIGTERM, signal.SIGINT):
                    assert run.stdout.readline()
            ends_at_once = how == signal.SIGKILL or (how != signal.SIGHUP and times == 2)
            if ends_at_once:
                run.wait(PATIENCE)
                with a_run(command, str(plan), mover) as other:
                    line = other.stdout.readline()
                    assert line.endswith("an earlier run began this move, which is waited for\n"), (
                        line
                    )
                    (tmp_path / "wait").unlink()
                    assert other.wait(PATIENCE) == 0
        finally:
            (tmp_path / "wait").unlink(missing_ok=True)
        assert run.wait(PATIENCE) != 0
    assert wait_until(lambda: "i3" in on(command, "new"))
    assert command.run("plan", "run", str(plan), mover).status == 0
    assert calls(tmp_path) == ["i3", "i2", "i1"]


def test_a_program_that_outlives_two_runs_is_waited_for_still(command, plan, mover, tmp_path):
    """The second one has given up; its move counts as failed."""
    (tmp_path / "wait").touch()
    try:
        with a_run(command, str(plan), mover) as run:
            assert run.stdout.readline().endswith(": begins\n")
            assert wait_until(lambda: calls(tmp_path))
            run.kill()
        done = command.run("plan", "run", str(plan), mover, "--timeout=1", "--at-most=1")
        assert "of an earlier run has not ended in time\n" in done.stdout
        with a_run(command, str(plan), mover) as run:
            assert run.stdout.readline().endswith(": begins\n")
            (tmp_path / "wait").unlink()
            assert run.wait(PATIENCE) == 0
    finally:
        (tmp_path / "wait").unlink(missing_ok=True)
    assert calls(tmp_path) == ["i3", "i2", "i1"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_each_signal_is_answered(command, plan, mover, tmp_path, how):
    (tmp_path / "wait").touch()
    with a_run(command, str(plan), mover) as run:
        try:
            assert run.stdout.readline().endswith(": begins\n")
            run.send_signal(how)
            name = {signal.SIGINT: "Ctrl-C"}.get(how, how.name)
            assert run.stdout.readline().startswith(f"{name}: this run ends after the move under w")
            run.send_signal(how)
            assert run.stdout.readline().startswith("0 of 3 moves done; to go on, run: berthmaster")
            assert run.wait(PATIENCE) in (128 + how, -how)
        finally:
            (tmp_path / "wait").unlink()


def test_a_run_goes_on_without_a_terminal_if_nohup_has_it(command, plan, mover, tmp_path):
    (tmp_path / "wait").touch()
    line = ["nohup", *program(command), "plan", "run", str(plan), mover]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        try:
            assert b"begins" in run.stdout.readline()
            run.send_signal(signal.SIGHUP)
        finally:
            (tmp_path / "wait").unlink()
        assert run.stdout.read().endswith(b"3 of 3 moves done\n")


def test_a_run_whose_output_is_lost_ends_after_the_move_under_way(command, plan, mover, tmp_path):
    (tmp_path / "wait").touch()
    with a_run(command, str(plan), mover) as run:
        try:
            assert run.stdout.readline().endswith(": begins\n")
            run.stdout.close()
        finally:
            (tmp_path / "wait").unlink()
        assert run.wait(PATIENCE) != 0
    assert on(command, "new") == {"i3"}
    assert calls(tmp_path) == ["i3"]


def test_a_run_whose_terminal_is_lost_ends_after_the_move_under_way(command, plan, mover, tmp_path):
    """As when a connection breaks: there is a SIGHUP, and nothing can be printed any more."""
    (tmp_path / "wait").touch()
    terminal_side, program_side = os.openpty()
    # The terminal is that of the session of the program.
    line = ["setsid", "--ctty", *program(command), "plan", "run", str(plan), mover]
    with subprocess.Popen(
        line, stdin=program_side, stdout=program_side, stderr=program_side
    ) as run:
        try:
            os.close(program_side)
            assert wait_until(lambda: calls(tmp_path))
            os.close(terminal_side)
            (tmp_path / "wait").unlink()
            assert run.wait(PATIENCE) > 0
        finally:
            (tmp_path / "wait").unlink(missing_ok=True)
    journal = (tmp_path / "plan.json.journal").read_text().splitlines()
    assert json.loads(journal[-1])["state"] == "done"
    assert calls(tmp_path) == ["i3"]


def test_a_run_that_an_error_ends_says_how_to_go_on(command, plan, mover, monkeypatch):
    def is_away(*_):
        raise OperationRefused("the database is away")

    monkeypatch.setattr(plan_stage, "read_fleet", is_away)
    done = command.run("plan", "run", str(plan), mover)
    assert (done.status, done.stderr) == (1, "the database is away\n")
    assert done.stdout.startswith("0 of 3 moves done; to go on, run: berthmaster ")


def test_what_a_program_leaves_in_the_background_is_not_waited_for(command, plan, mover, tmp_path):
    """As ssh does with ControlPersist; it has the output of the program still."""
    call = mover.removeprefix("--command=")
    left = tmp_path / "left.sh"
    left.write_text(f'#!/bin/sh\nsleep 1000 & echo $! >> {tmp_path}/left\nexec "$@"\n')
    left.chmod(0o755)
    try:
        done = command.run("plan", "run", str(plan), f"--command={left} {call}")
        assert done.status == 0, done
    finally:
        for pid in (tmp_path / "left").read_text().split():
            # It is there still.
            os.kill(int(pid), signal.SIGKILL)


def test_a_cold_migration_that_is_not_confirmed_yet_is_only_confirmed(
    command, plan, cloud, tmp_path, monkeypatch
):
    """As after a kill between the calls of the client of OpenStack, which a program plays."""
    client = tmp_path / "openstack"
    client.write_text(CLIENT.format(python=sys.executable, directory=tmp_path))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    plan.write_text(plan.read_text().replace("live migration", "cold migration"))
    plan_of_one(plan, "i3")
    rows = [an_instance("i3", memory_mb=3000, vm_state="resized")]
    cloud.write(lambda c: instances.replace(c, "new", "new", rows))
    cloud.write(lambda c: instances.replace(c, "old", "old", []))
    assert command.run("plan", "run", str(plan)).stdout.endswith("1 of 1 move done\n")
    assert calls(tmp_path) == ["server resize confirm i3"]


@pytest.mark.parametrize("exported", ["2", "2.latest", "2.95", None])
def test_the_version_of_novas_api_is_not_that_of_the_environment(
    command, plan, tmp_path, monkeypatch, exported
):
    """From 2.95 on an instance that is evacuated is left switched off."""
    a_client(tmp_path, f"echo $OS_COMPUTE_API_VERSION >> {tmp_path}/versions; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if exported is None:
        monkeypatch.delenv("OS_COMPUTE_API_VERSION", raising=False)
    else:
        monkeypatch.setenv("OS_COMPUTE_API_VERSION", exported)
    command.run("plan", "run", str(plan))
    assert (tmp_path / "versions").read_text().split() == ["2.56"] * 3


def test_a_program_of_the_operator_has_the_version_that_he_has_exported(
    command, plan, tmp_path, monkeypatch
):
    a_client(tmp_path, f"echo $OS_COMPUTE_API_VERSION >> {tmp_path}/versions; exit 1")
    monkeypatch.setenv("OS_COMPUTE_API_VERSION", "2.90")
    command.run("plan", "run", str(plan), f"--command={tmp_path}/openstack {{server}}")
    assert (tmp_path / "versions").read_text().split() == ["2.90"] * 3


def test_evacuations_are_made_only_if_they_are_asked_for(command, cloud, mover, tmp_path):
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "repair", "-f", "json").stdout)
    assert command.refused("plan", "run", str(plan), mover) == (
        "the plan has 3 evacuations, so nothing is moved: switch off the hosts that are down, and"
        " give --evacuate"
    )
    assert calls(tmp_path) == []
    done = command.run("plan", "run", str(plan), mover, "--evacuate")
    assert "1 of 3: i3 from old to new by evacuation: done" in done.stdout
    assert (done.status, calls(tmp_path)) == (0, ["i3", "i2", "i1"])


def test_an_instance_in_error_is_evacuated(command, cloud, mover, tmp_path):
    """While Nova rebuilds it, it stays in that state, and is busy."""
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    execute(cloud, "UPDATE instances SET vm_state = 'error' WHERE uuid = 'i3'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "repair", "-f", "json").stdout)
    plan_of_one(plan, "i3")
    execute(cloud, "UPDATE instances SET task_state = 'rebuilding' WHERE uuid = 'i3'")
    arguments = ("plan", "run", str(plan), mover, "--evacuate", "--watch")
    with subprocess.Popen([*program(command), *arguments], stdout=subprocess.PIPE) as run:
        assert b"begins" in run.stdout.readline()
        assert b"on old (rebuilding)" in run.stdout.readline()
        change = "host = 'new', node = 'new', vm_state = 'active', task_state = NULL"
        execute(cloud, f"UPDATE instances SET {change} WHERE uuid = 'i3'")
        assert b"done in" in run.stdout.read()
    assert (run.returncode, calls(tmp_path)) == (0, [])


def test_an_instance_in_error_may_get_its_task_after_the_client_has_ended(
    command, cloud, tmp_path, monkeypatch
):
    """The client of OpenStack does not wait for an evacuation, and its task is seen later."""
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    execute(cloud, "UPDATE instances SET vm_state = 'error' WHERE uuid = 'i3'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "repair", "-f", "json").stdout)
    plan_of_one(plan, "i3")
    a_client(tmp_path, "true")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    arguments = ("plan", "run", str(plan), "--evacuate")
    with subprocess.Popen([*program(command), *arguments], stdout=subprocess.PIPE) as run:
        assert b"begins" in run.stdout.readline()
        assert b"the command has ended, and the instance is on old (error)" in run.stdout.readline()
        for change in (
            "task_state = 'rebuilding'",
            "host = 'new', node = 'new', vm_state = 'active', task_state = NULL",
        ):
            execute(cloud, f"UPDATE instances SET {change} WHERE uuid = 'i3'")
        assert b"done in" in run.stdout.read()
    assert run.returncode == 0


def test_a_task_that_died_with_its_host_is_not_waited_for(command, cloud, mover, tmp_path):
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    execute(cloud, "UPDATE instances SET task_state = 'image_snapshot' WHERE uuid = 'i3'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "repair", "-f", "json").stdout)
    plan_of_one(plan, "i3")
    (tmp_path / "ruin-i3").touch()
    # The program runs, which is all that matters.
    command.run("plan", "run", str(plan), mover, "--evacuate", "--timeout=3")
    assert calls(tmp_path) == ["i3"]


def test_a_migration_that_is_rolled_back_is_not_waited_for(command, plan, mover, monkeypatch):
    monkeypatch.setattr(plan_move, "LOOK_INTERVAL", 0.01)
    monkeypatch.setattr(plan_move, "REPORT_TIME", 0.05)
    done = command.run("plan", "run", str(plan), mover.replace("{host}", "old"))
    assert "failed: the instance is on old (active), and is not moving\n" in done.stdout
    assert "0 of 3 moves done" in done.stdout


def test_a_host_that_is_back_is_not_evacuated(command, cloud, mover, tmp_path):
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "drain", "old", "-f", "json").stdout)
    execute(cloud, "UPDATE services SET forced_down = 0")
    done = command.run("plan", "run", str(plan), mover, "--evacuate")
    why = "failed: the instance can be moved by live migration now, not by evacuation"
    assert why in done.stdout
    assert (done.status, calls(tmp_path)) == (1, [])


@pytest.mark.parametrize("state", ["failed", "started"])
def test_what_an_earlier_run_has_begun_is_not_evacuated_from_a_host_that_is_back(
    command, cloud, mover, tmp_path, state
):
    """The claims of that run make it look as if its instances had moved."""
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    plan = tmp_path / "evacuations.json"
    plan.write_text(command.run("plan", "repair", "-f", "json").stdout)
    plan_of_one(plan, "i3")
    (tmp_path / "fail-i3").touch()
    assert command.run("plan", "run", str(plan), mover, "--evacuate").status == 1
    journal = tmp_path / "evacuations.json.journal"
    lines = journal.read_text().splitlines()
    # A run that was killed has not written the last line, and was so long ago.
    kept = (
        lines if state == "failed" else [re.sub(r'"at": "2\d', '"at": "19', e) for e in lines[:-1]]
    )
    journal.write_text("\n".join(kept) + "\n")
    execute(cloud, "UPDATE services SET forced_down = 0")
    done = command.run("plan", "run", str(plan), mover, "--evacuate")
    assert "failed: the host is up again, so the instance is not evacuated\n" in done.stdout
    assert (done.status, calls(tmp_path)) == (1, ["i3"])


def test_each_run_carries_out_one_stage(command, cloud, mover, tmp_path):
    """Between two of them the hosts have their maintenance."""
    save(cloud, a_node("third"))
    serve(cloud, "third")
    cloud.write(lambda c: instances.replace(c, "new", "new", [an_instance("i4", memory_mb=10)]))
    plan = tmp_path / "stages.json"
    arguments = ("plan", "drain", "old", "new", "--at-most=1", "-f", "json")
    plan.write_text(command.run(*arguments).stdout)
    done = command.run("plan", "run", str(plan), mover)
    assert (done.status, calls(tmp_path)) == (0, ["i4"])
    said = done.stdout.splitlines()[-1]
    assert said.startswith("1 of 4 moves done; stage 1 is done; to begin the next stage, run: ")
    done = command.run(*shlex.split(said)[-4:])
    assert (done.status, calls(tmp_path)) == (0, ["i4", "i3", "i2", "i1"])
    assert done.stdout.endswith("4 of 4 moves done\n")


def test_a_stage_with_a_failed_move_is_over_for_who_skips_it(command, cloud, mover, tmp_path):
    save(cloud, a_node("third"))
    serve(cloud, "third")
    cloud.write(lambda c: instances.replace(c, "new", "new", [an_instance("i4", memory_mb=10)]))
    plan = tmp_path / "stages.json"
    arguments = ("plan", "drain", "old", "new", "--at-most=1", "-f", "json")
    plan.write_text(command.run(*arguments).stdout)
    (tmp_path / "fail-i4").touch()
    for _ in range(2):
        done = command.run("plan", "run", str(plan), mover)
        assert "0 of 4 moves done; to go on, run: " in done.stdout
    done = command.run("plan", "run", str(plan), mover, "--skip-failed")
    assert done.stdout.endswith("3 of 4 moves done, 1 skipped\n")
    assert (done.status, calls(tmp_path)) == (0, ["i4", "i4", "i3", "i2", "i1"])
    # It may still be tried.
    (tmp_path / "fail-i4").unlink()
    done = command.run("plan", "run", str(plan), mover)
    assert done.stdout.endswith("4 of 4 moves done\n")


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """The current directory, where --run writes plans."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_host_is_drained_at_once(command, cloud, mover, directory):
    done = command.run("plan", "drain", "old", "--run", mover)
    assert done.status == 0, done
    (plan,) = directory.glob("drain-*Z.json")
    assert done.stderr == f"The plan is in {plan.name}\n"
    lines = done.stdout.splitlines()
    # The plan comes first.
    assert lines[0] == "empties old"
    assert [each[:11] for each in lines[-7:]] == [
        *["1 of 3: i3 "] * 2,
        *["2 of 3: i2 "] * 2,
        *["3 of 3: i1 "] * 2,
        "3 of 3 move",
    ]
    assert on(command, "new") == {"i1", "i2", "i3"}
    # Nothing new comes to it, as after 'host disable'.
    host = command.json("service", "show", "old")
    assert (host["status"], host["disabled_reason"]) == (
        "disabled",
        "is drained by 'plan drain --run'",
    )
    # Once more there is nothing to do, and the reason of somebody else stays.
    execute(cloud, "UPDATE services SET disabled_reason = 'new fans' WHERE host = 'old'")
    assert command.run("plan", "drain", "old", "--run", mover).status == 0
    assert command.json("service", "show", "old")["disabled_reason"] == "new fans"
    assert len(calls(directory)) == 3


@pytest.mark.usefixtures("cloud")
def test_a_drain_that_fails_goes_on_by_the_command_that_it_names(command, mover, directory):
    (directory / "fail-i2").touch()
    done = command.run("plan", "drain", "old", "--run", "--watch", "--timeout=900", mover)
    assert done.status == 1
    line = shlex.split(done.stdout.splitlines()[-1].split("; to go on, run: ")[1])
    (plan,) = directory.glob("drain-*Z.json")
    assert line[2:] == ["plan", "run", plan.name, "--timeout=900", "--watch", mover]
    (directory / "fail-i2").unlink()
    assert command.run(*line[2:]).status == 0
    assert calls(directory) == ["i3", "i2", "i1", "i2"]


@pytest.mark.usefixtures("directory")
def test_other_plans_are_carried_out_at_once_too(command, cloud, mover):
    execute(cloud, "UPDATE services SET forced_down = 1 WHERE host = 'old'")
    done = command.run("plan", "repair", "--run", mover)
    assert (done.status, on(command, "new")) == (1, set())
    assert done.stderr.endswith("give --evacuate\n")
    found = command.json("plan", "repair", "--run", "--evacuate", mover)
    assert [each["state"] for each in found["run"]["moves"]] == ["done"] * 3
    assert found["moves"][0]["how"] == "evacuation"
    # Drains alone empty hosts.
    assert command.json("service", "show", "new")["status"] == "enabled"


@pytest.mark.usefixtures("cloud", "directory")
def test_a_drain_without_time_for_a_plan_changes_nothing(command, mover):
    done = command.run("plan", "drain", "old", "--run", "--time-limit=0.000001", mover)
    assert (done.status, done.stdout.splitlines()[-1]) == (1, "0 of 0 moves done")
    assert command.json("service", "show", "old")["status"] == "enabled"


@pytest.mark.usefixtures("cloud", "directory", "interruptible")
def test_nothing_is_moved_by_a_plan_whose_search_was_interrupted(command, mover, monkeypatch):
    def interrupted(self, *arguments):
        signal.raise_signal(signal.SIGINT)
        return make_plan(self, *arguments)

    make_plan = PlanDrain.make_plan
    monkeypatch.setattr(PlanDrain, "make_plan", interrupted)
    done = command.run("plan", "drain", "old", "--run", mover)
    assert (done.status, done.stderr) == (1, "the search was interrupted, so nothing is moved\n")
    assert command.json("service", "show", "old")["status"] == "enabled"
    assert on(command, "new") == set()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--watch", "argument --watch: is for --run only"),
        ("--evacuate", "argument --evacuate: is for --run only"),
        ("--run --claim", "argument --run: cannot be used with --claim or -f script"),
        ("--timeout=7", "argument --timeout: is for --run only"),
        ("--run -f script", "argument --run: cannot be used with --claim or -f script"),
        ("--run --at-most=1", "argument --run: cannot be used with --at-most: write the plan"),
        ("--run --command=nosuch", "does not name the instance: {server}"),
    ],
)
def test_options_that_contradict_each_other_are_refused(command, options, why):
    assert why in command.refused("plan", "drain", "old", *options.split(), status=2)


def test_a_terminal_shows_the_move_under_way(command, plan, mover, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "PROGRESS_AFTER", 0.0)
    _, shown = command.at_terminal("plan", "run", str(plan), mover, "--watch")
    assert re.search(r"1 of 3: i3 to new, 0 s; Ctrl-C stops after this move", shown)
    # What is printed meanwhile has lines of its own.
    assert re.search(r"\r\033\[K20\S+Z 1 of 3: i3 from old .*: begins\n", shown)


def test_two_runs_of_one_plan_are_refused(command, plan, mover, tmp_path):
    journal = tmp_path / "plan.json.journal"
    lock = f"import fcntl; file = open({str(journal)!r}, 'a'); fcntl.flock(file, fcntl.LOCK_EX)"
    line = [sys.executable, "-c", f"{lock}; print(flush=True); input()"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline()
        refused = command.refused("plan", "run", str(plan), mover)
        other.communicate(b"\n")
    assert refused == f"another 'plan run' is carrying out {plan}"


def test_the_journal_of_another_plan_is_refused(command, plan, mover, tmp_path):
    assert command.run("plan", "run", str(plan), mover).status == 0
    plan.write_text(plan.read_text() + "\n")
    refused = command.refused("plan", "run", str(plan), mover)
    assert refused == (
        f"{plan}.journal cannot be used: it belongs to another plan; move this file away to begin"
        " anew"
    )


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
        ("echo {server} {where}", "{where} is unknown; known are"),
        ("echo '{server}", "is not a command: No closing quotation"),
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
    hostile = "$(touch x) {host};"
    plan.write_text(plan.read_text().replace('"i3"', json.dumps(hostile)))
    execute(cloud, f"UPDATE instances SET uuid = '{hostile}' WHERE uuid = 'i3'")
    assert command.run("plan", "run", str(plan), mover).status == 0
    assert calls(tmp_path) == [hostile, "i2", "i1"]


def test_a_plan_that_is_made_anew_takes_a_failed_move_for_one_under_way(
    command, plan, mover, tmp_path
):
    """Its room is claimed still, in case the program has failed and the move goes on."""
    plan_of_one(plan, "i3")
    (tmp_path / "fail-i3").touch()
    assert command.run("plan", "run", str(plan), mover).status == 1
    (tmp_path / "fail-i3").unlink()
    again = json.loads(command.run("plan", "drain", "old", "-f", "json").stdout)
    assert [each["instance"] for each in again["moves"]] == ["i2", "i1"]
    assert command.run("plan", "run", str(plan), mover).status == 0
