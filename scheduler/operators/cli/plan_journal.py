# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a run of a plan has done, in a file beside the plan: a run that was killed goes on by it."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from inventory.errors import OperationRefused
from scheduler.operators.cli.plan_program import ProgramId

STARTED, DONE, FAILED = "started", "done", "failed"
# The instance was on no host when its turn came: there is nothing to move.
GONE = "gone"


class Begun(NamedTuple):
    """When a program was started for a move, and which; None where the host has no /proc."""

    at: datetime
    program: ProgramId | None


class Journal:
    """One line of JSON for each change of a move, the number of which is its place in the plan."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._states: dict[int, str] = {}
        self._whys: dict[int, str] = {}
        self._begun: dict[int, Begun] = {}

    def state(self, number: int) -> str | None:
        return self._states.get(number)

    def is_over(self, number: int) -> bool:
        """Return whether nothing is left to do for a move."""
        return self.state(number) in (DONE, GONE)

    def why(self, number: int) -> str:
        return self._whys.get(number, "")

    def begun(self, number: int) -> Begun | None:
        """Return by what a move was begun last; it may run still, though the move has failed."""
        return self._begun.get(number)

    def note(
        self, number: int, state: str, why: str = "", program: ProgramId | None = None
    ) -> None:
        """Write the state of a move, and the program that has been started for it, for good."""
        line = {"move": number, "state": state, "why": why, "at": _now(), "program": program}
        self._take(line)
        self.append(line)

    def append(self, line: dict[str, object]) -> None:
        self._file.write(f"{json.dumps(line)}\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def read(self, plan: str) -> None:
        """Take the states from the file; raise ValueError for one of another plan."""
        self._file.seek(0)
        # A kill may have cut off the last line.
        lines = [each for each in self._file if each.endswith("\n")]
        self._file.truncate(sum(map(len, lines)))
        if not lines:
            self.append({"plan": plan, "at": _now()})
            return
        first, *others = map(json.loads, lines)
        if first["plan"] != plan:
            raise ValueError("it belongs to another plan")
        for each in others:
            self._take(each)

    def _take(self, line: Mapping[str, Any]) -> None:
        number, program = line["move"], line.get("program")
        self._states[number], self._whys[number] = line["state"], line["why"]
        if line["state"] == STARTED:
            at = datetime.fromisoformat(line["at"])
            self._begun[number] = Begun(at, ProgramId(*program) if program else None)


@contextmanager
def journal_of(plan: Path) -> Iterator[Journal]:
    """Yield the journal of a plan; raise OperationRefused, also while another run has it."""
    path = plan.with_name(f"{plan.name}.journal")
    with ExitStack() as stack:
        try:
            digest = hashlib.sha256(plan.read_bytes()).hexdigest()
            file = stack.enter_context(path.open("a+", encoding="ascii"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal = Journal(file)
            journal.read(digest)
        except BlockingIOError:
            raise OperationRefused(f"another 'plan run' is carrying out {plan}") from None
        except OSError as error:
            raise OperationRefused(f"cannot write {path}: {error.strerror}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise OperationRefused(
                f"{path} cannot be used: {error}; move this file away to begin anew"
            ) from None
        yield journal


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
