# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One move of a plan: the program that makes it, and where its instance is seen."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inventory.engine import Database
from inventory.errors import NotFound
from inventory.queries import instance_queries
from scheduler.operators.planning.types import COLD, EVACUATION, LIVE, Place, PlannedMove

# By what the client of OpenStack makes each kind of move; it waits until the move is over, but not
# for evacuations: up to 10.5 it never sees the end of one.
CALLS: Mapping[str, Sequence[str]] = {
    LIVE: ("openstack server migrate --live-migration --host {host} --wait {server}",),
    COLD: (
        "openstack server migrate --host {host} --wait {server}",
        "openstack server resize confirm {server}",
    ),
    EVACUATION: ("openstack server evacuate --host {host} {server}",),
}
# What a call may name of a move.
_NAMES = re.compile(r"\{(server|host|node|source)\}")
# From this version on live migration and evacuation take the name of a host.
API_VERSION = {"OS_COMPUTE_API_VERSION": "2.56"}
# Seconds between two looks at an instance on the move.
LOOK_INTERVAL = 1.0


class MoveFailed(Exception):
    """A move that was not made; the text says why."""


def is_there(
    database: Database,
    move: PlannedMove,
    until: float,
    look: Callable[[], object],
    waits: bool = False,
) -> bool:
    """Return whether an instance is where it goes, once it is not on the move any more.

    With waits this is also waited for; raises MoveFailed for an instance that will not come.
    """
    while True:
        found = instance(database, move)["places"]
        places = {Place(each["host"], each["node"]) for each in found}
        # A host that is down does not report that an instance has left it.
        if move.kind == EVACUATION:
            places.discard(move.source)
        is_busy = any(each["task"] for each in found) or len(places) > 1
        is_over = places == {move.target} and not _is_unconfirmed(found)
        if not is_busy and (is_over or not waits):
            return is_over
        # An instance that is evacuated in this state stays in it, with a task, until it is rebuilt.
        if any(each["state"] == "error" and not each["task"] for each in found):
            raise MoveFailed("the instance is in state error")
        if time.monotonic() > until:
            return False
        look()
        time.sleep(LOOK_INTERVAL)


def instance(database: Database, move: PlannedMove) -> dict[str, Any]:
    """Return what is known of the instance of a move; raises MoveFailed."""
    try:
        return database.read(lambda connection: instance_queries.show(connection, move.uuid))
    except NotFound:
        raise MoveFailed("the instance is not on any host") from None


def calls_of(database: Database, move: PlannedMove) -> Sequence[str]:
    """Return the calls that are missing of a move: one that was begun may be confirmed only."""
    is_begun = _is_unconfirmed(instance(database, move)["places"])
    return CALLS[move.kind][1 if is_begun else 0 :]


def words(call: str, move: PlannedMove) -> list[str]:
    """Return a call as the arguments of a program; what is put in for a name is part of one."""
    known = {"server": move.uuid, "host": move.target.host, "node": move.target.node}
    known |= {"source": move.source.host}
    # In one pass: what is put in is no call itself.
    return [_NAMES.sub(lambda name: known[name[1]], word) for word in shlex.split(call)]


def _is_unconfirmed(places: Sequence[dict[str, Any]]) -> bool:
    """Return whether an instance was migrated cold, which still holds its room at the source."""
    return any(each["state"] == "resized" for each in places)


def where(found: Mapping[str, Any]) -> str:
    state = found["task"] or found["state"]
    return f"on {found['host']}" + (f" ({state})" if state else "")


def run_program(program: Sequence[str], until: float, look: Callable[[], object]) -> None:
    """Run a program to its end, and look again and again meanwhile; raises MoveFailed."""
    try:
        process = subprocess.Popen(
            program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=API_VERSION | os.environ,
            # Ctrl-C at the terminal lets the move end.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise MoveFailed(f"{program[0]}: {error}") from None
    with process:
        while (output := _output(process)) is None:
            if time.monotonic() > until:
                process.kill()
                raise MoveFailed(f"{program[0]} has not ended in time")
            look()
    if process.returncode:
        last = ([each for each in output.splitlines() if each.strip()] or ["no output"])[-1]
        raise MoveFailed(f"{program[0]} has ended with status {process.returncode}: {last.strip()}")


def _output(process: subprocess.Popen[str]) -> str | None:
    """Return what a program has printed, None while it runs."""
    try:
        return process.communicate(timeout=LOOK_INTERVAL)[0]
    except subprocess.TimeoutExpired:
        return None


def program_call(text: str) -> tuple[str]:
    """Return a call of --command; raises ArgumentTypeError."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no command: {error}") from None
    if unknown := re.findall(r"\{[^}]*\}", _NAMES.sub("", text)):
        raise argparse.ArgumentTypeError(
            f"{unknown[0]} stands for nothing; {{server}}, {{host}}, {{node}}, {{source}} do"
        )
    if not found or "{server}" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} does not name the instance: {{server}}")
    return (text,)


def missing_program(args: argparse.Namespace) -> str | None:
    program = shlex.split(args.command[0])[0] if args.command else "openstack"
    if shutil.which(program):
        return None
    if args.command:
        return f"argument --command: there is no program {program!r}"
    return (
        "there is no program 'openstack': install python-openstackclient, which is the extra"
        " [openstack], or name another program with --command"
    )
