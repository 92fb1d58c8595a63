# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The programs that make moves: each outlives a run that is killed, and the next run finds it."""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from scheduler.operators.planning.types import COLD, EVACUATION, LIVE, PlannedMove

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
# From this version on live migration and evacuation take the name of a host; from 2.95 on Nova
# leaves what it has evacuated switched off.
API_VERSION = {"OS_COMPUTE_API_VERSION": "2.56"}
# What a call may name of a move.
_NAMES = re.compile(r"\{(server|host|node|source)\}")
# The program is begun only once it is written down that it runs, so no run misses it.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
# Of what a program has printed, the end that is looked at, in bytes.
_TAIL = 65536


class MoveFailed(Exception):
    """A move that was not made; the text says why."""


class ProgramId(NamedTuple):
    """A process that no other one is mistaken for: when it began, after which start of the host."""

    pid: int
    began: str
    boot: str


class Program:
    """A program in a session of its own, so that the signals for a run do not reach it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Prepare a program that begin() begins; raises MoveFailed."""
        self.name = arguments[0]
        # A pipe would stay open as long as anything that the program leaves in the background, and
        # would end the program when the run is killed.
        self._output = TemporaryFile()  # noqa: SIM115  # closed by end()
        try:
            self._process = subprocess.Popen(
                [*_GATE, *arguments],
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._output.close()
            raise MoveFailed(f"{self.name}: {error}") from None
        self.id = program_id(self._process.pid)

    def begin(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as gate:
            gate.write(b"\n")

    def has_ended(self, seconds: float) -> bool:
        """Return whether it has ended after so many seconds at the most."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def kill(self) -> None:
        """Kill it with all that it has begun in its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def check(self) -> None:
        """Raise MoveFailed for one that has ended with another status than 0."""
        if not self._process.returncode:
            return
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - _TAIL))
        lines = self._output.read().decode(errors="replace").splitlines()
        last = ([each for each in lines if each.strip()] or ["no output"])[-1].strip()
        status = self._process.returncode
        raise MoveFailed(f"{self.name} has ended with status {status}: {last}")

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self._output.close()
        # One that has not begun ends by this, one that has is left alone.
        assert self._process.stdin is not None
        self._process.stdin.close()


def program_id(pid: int) -> ProgramId | None:
    """Return what tells a running process from all others, None without one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Behind the name of the program, which may have brackets itself: its state and so on.
    state, *numbers = text.rpartition(")")[2].split()
    return None if state in "ZX" else ProgramId(pid, numbers[18], boot)


def is_running(program: ProgramId) -> bool:
    return program_id(program.pid) == program


def environment_of(command: Any) -> dict[str, str]:
    """Return the environment of programs; the version of Nova's API is ours for calls of ours."""
    return API_VERSION | os.environ if command else {**os.environ} | API_VERSION


def words(call: str, move: PlannedMove) -> list[str]:
    """Return a call as the arguments of a program; what is put in for a name is part of one."""
    known = {"server": move.uuid, "host": move.target.host, "node": move.target.node}
    known |= {"source": move.source.host}
    # In one pass: what is put in is no call itself.
    return [_NAMES.sub(lambda name: known[name[1]], word) for word in shlex.split(call)]


def program_call(text: str) -> tuple[str]:
    """Return a call of --command; raises ArgumentTypeError."""
    try:
        found = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a command: {error}") from None
    if unknown := re.findall(r"\{[^}]*\}", _NAMES.sub("", text)):
        raise argparse.ArgumentTypeError(
            f"{unknown[0]} is unknown; known are {{server}}, {{host}}, {{node}} and {{source}}"
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
