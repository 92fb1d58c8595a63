# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One run of a stage of a plan: the moves of each step are checked, made and waited for."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from conf.plain_text import escaped
from inventory.claims import claims
from inventory.claims.types import PENDING, ClaimLost
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from scheduler.operators.cli.base import BaseCommand
from scheduler.operators.cli.live_fleet import read_fleet
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.cli.plan_journal import DONE, FAILED, GONE, STARTED, Journal
from scheduler.operators.cli.plan_move import LOOK_INTERVAL, REPORT_TIME, MoveWatch, claims_of
from scheduler.operators.cli.plan_program import (
    MoveFailed,
    Program,
    environment_of,
    is_running,
    words,
)
from scheduler.operators.cli.terminal import clear_line, progress
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning import check as checks
from scheduler.operators.planning.check import CheckedMove
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import EVACUATION, Place, PlannedMove
from scheduler.select_destinations.destination_builder import load_allocator


@dataclass(slots=True)
class Interruption:
    """Whether a run is to end after the move under way, why, and whether that was printed."""

    why: str = ""
    is_printed: bool = False


@dataclass(frozen=True, slots=True)
class MoveUnderWay:
    """A move by its number in the plan, what is seen of it, and until when it may take."""

    number: int
    watch: MoveWatch
    until: float

    def check_time(self, why: str) -> None:
        """Raise MoveFailed for a move that takes too long, and say why."""
        if time.monotonic() > self.until:
            raise MoveFailed(f"{why} in time")


class StageRun:
    """One run of a stage, and what has failed in it.

    A move that has failed has made no room, so those that need it are not possible in their turn.
    """

    def __init__(
        self,
        command: BaseCommand,
        args: Any,
        moves: Sequence[PlannedMove],
        journal: Journal,
        interruption: Interruption,
    ) -> None:
        self._command, self._asked = command, args
        self.moves, self.journal, self._interruption = moves, journal, interruption
        failed = {n for n in range(len(moves)) if journal.state(n) == FAILED}
        # What is not tried again.
        self.skipped = failed if args.skip_failed else set()
        # The one whose turn it is, None where nothing is left to do.
        self.stage = min((moves[n].stage for n in self.left()), default=None)
        self._failures = 0
        # What the moves of the step have claimed, by host and uuid, and when that was renewed.
        self._kept: set[tuple[str, str]] = set()
        self._renewed = -math.inf
        # What was said last of the instance on the move.
        self._seen = ""

    def left(self) -> list[int]:
        """Return the numbers of the moves of the plan that are left to do."""
        return [n for n in range(len(self.moves)) if not self._is_over(n)]

    def _is_over(self, number: int) -> bool:
        return number in self.skipped or self.journal.is_over(number)

    def steps(self) -> Iterator[list[int]]:
        """Yield the numbers of the moves of each step of the stage, until the run is to stop."""
        numbers = (n for n, each in enumerate(self.moves) if each.stage == self.stage)
        for _, step in groupby(numbers, key=lambda n: self.moves[n].turn):
            if self._stops:
                return
            yield [*step]

    @property
    def _stops(self) -> bool:
        at_most = self._asked.failures
        return bool(self._interruption.why) or self._failures >= (at_most or math.inf)

    def make(self, step: Sequence[int]) -> None:
        """Make the moves of a step that are not over, each if it is still possible."""
        if all(map(self._is_over, step)):
            return
        with live_hosts(self._command.app) as live:
            fleet = read_fleet(self._command, live, self._asked)
            # Not those before: what of them has failed has made no room.
            found = checks.check(fleet, self.moves[step[0] :])[: len(step)]
            checked = dict(zip(step, found, strict=True))
            not_held = self._claim(live, fleet, checked)
            self._kept = {(each.move.target.host, each.move.uuid) for each in found}
            self._renewed = -math.inf
            for number in step:
                if not self._is_over(number) and not self._stops:
                    self._make(live, fleet, checked[number], number, not_held.get(number))

    def _make(
        self, live: LiveHosts, fleet: Fleet, checked: CheckedMove, number: int, not_held: str | None
    ) -> None:
        """Make one move if it is possible, or note that its instance is gone, or why it fails."""
        # One that was under way may not be reported by either host yet.
        if checked.state == checks.GONE and not self._is_started(number):
            self.journal.note(number, GONE, checked.why)
            self._say(number, f"is passed over: {checked.why}")
            return
        try:
            self._check(live.database, number, checked, not_held)
            self._move(live.database, number, checks.is_host_back(fleet, checked.move))
        except MoveFailed as error:
            self._failures += 1
            self.journal.note(number, FAILED, str(error))
            self._say(number, f"failed: {error}")

    def _claim(
        self, live: LiveHosts, fleet: Fleet, checked: Mapping[int, CheckedMove]
    ) -> dict[int, str]:
        """Claim room for the possible moves; return why claims were refused, by move number."""
        conf = self._command.conf
        if not conf.claims.enabled or load_allocator(conf) is not None:
            return {}
        numbers = [n for n, each in checked.items() if each.state == checks.POSSIBLE]
        held = hold_room(conf, live, fleet, [self.moves[n] for n in numbers], None)
        return {
            n: each["why_not"] for n, each in zip(numbers, held, strict=True) if each["why_not"]
        }

    def _check(
        self, database: Database, number: int, checked: CheckedMove, not_held: str | None
    ) -> None:
        """Raise MoveFailed for a move that is not to be begun."""
        move = checked.move
        if not_held is not None:
            raise MoveFailed(f"no room is claimed on {move.target.host}: {not_held}")
        if checked.state in (checks.DONE, checks.POSSIBLE) or self._is_started(number):
            return
        # An instance with a claim looks as if it moved; one for this move may be of plan --claim.
        held = (each for each in claims_of(database, move) if each["state"] == PENDING)
        pending = {Place(each["host"], each["node"]) for each in held}
        if pending != {move.target}:
            raise MoveFailed(checked.why)

    def _is_started(self, number: int) -> bool:
        return self.journal.state(number) == STARTED

    def _move(self, database: Database, number: int, is_host_back: bool) -> None:
        """Have an instance moved, and return when it is there; raises MoveFailed."""
        move, began = self.moves[number], time.monotonic()
        # The client of OpenStack does not wait until an instance is evacuated.
        waits_for_task = move.kind == EVACUATION and not self._asked.command
        watch = MoveWatch(database, move, waits_for_task)
        under_way = MoveUnderWay(number, watch, began + self._asked.timeout)

        def rest() -> str:
            end = "stops after this move" if self._stops else "Ctrl-C stops after this move"
            return f"{time.monotonic() - began:.0f} s; {end}"

        what = f"{number + 1} of {len(self.moves)}: {move.uuid} to {move.target.host}"
        with progress(self._command.app, what, rest=rest):
            is_begun = self._is_started(number)
            self._say(
                number,
                "an earlier run began this move, which is waited for" if is_begun else "begins",
            )
            self._seen = ""
            self._await_others(under_way)
            if not watch.is_there:
                if is_host_back:
                    raise MoveFailed("the host is up again, so the instance is not evacuated")
                self._call(under_way)
                self._await_arrival(under_way)
        self.journal.note(number, DONE)
        self._say(number, f"done in {time.monotonic() - began:.0f} s")

    def _await_others(self, under_way: MoveUnderWay) -> None:
        """Wait until no other program moves the instance, such as that of a killed run."""
        watch, wait = under_way.watch, 0.0
        begun = self.journal.begun(under_way.number)
        if begun is not None and self._is_started(under_way.number):
            wait = REPORT_TIME - (datetime.now(UTC) - begun.at).total_seconds()
        while True:
            self._look(under_way)
            if begun and begun.program and is_running(begun.program):
                wait, why = (
                    REPORT_TIME,
                    f"process {begun.program.pid} of an earlier run has not ended",
                )
                watch.work_on()
            elif not watch.is_busy and (watch.is_there or watch.idle_time >= wait):
                return
            else:
                why = f"the instance is {watch.text}, and has not become idle"
            under_way.check_time(why)
            time.sleep(LOOK_INTERVAL)

    def _call(self, under_way: MoveUnderWay) -> None:
        """Run the programs that make a move, each to its end; raises MoveFailed."""
        move, command = self.moves[under_way.number], self._asked.command
        for call in command or under_way.watch.calls:
            with Program(words(call, move), environment_of(command)) as program:
                self.journal.note(under_way.number, STARTED, program=program.id)
                program.begin()
                while not program.has_ended(LOOK_INTERVAL):
                    self._look(under_way)
                    under_way.watch.work_on()
                    if time.monotonic() > under_way.until:
                        program.kill()
                        raise MoveFailed(f"{program.name} has not ended in time")
                program.check()

    def _await_arrival(self, under_way: MoveUnderWay) -> None:
        """Return when an instance is where its program has moved it; raises MoveFailed."""
        watch, is_said = under_way.watch, False
        watch.work_on()
        while True:
            self._look(under_way)
            watch.check()
            if watch.is_there and not watch.is_busy:
                return
            if not is_said:
                is_said = True
                self._say(
                    under_way.number,
                    f"the command has ended, and the instance is {watch.text}: waiting for the end"
                    " of the move",
                )
            under_way.check_time("the instance was not seen on the host")
            time.sleep(LOOK_INTERVAL)

    def _look(self, under_way: MoveUnderWay) -> None:
        """Look at a move that takes its time, and say what is new; keep the claims of the step."""
        watch, lease = under_way.watch, self._command.conf.claims.lease
        # What fails now is tried again at the next look.
        with suppress(ClaimLost, DatabaseUnavailable):
            if time.monotonic() > self._renewed + lease / 3:
                watch.database.write(lambda c: claims.renew(c, self._kept, lease))
                self._renewed = time.monotonic()
        watch.look()
        if self._asked.watch and watch.text != self._seen:
            self._seen = watch.text
            self.write(f"{under_way.number + 1} of {len(self.moves)}: {watch.text}")
        self.print_interruption()

    def print_interruption(self) -> None:
        """Say once why the run is going to end."""
        interruption = self._interruption
        if interruption.why and not interruption.is_printed:
            interruption.is_printed = True
            self.write(
                f"{interruption.why}: this run ends after the move under way; a second signal ends"
                " the run at once, and Nova goes on with the move"
            )

    def _say(self, number: int, what: str) -> None:
        move = self.moves[number]
        self.write(
            f"{number + 1} of {len(self.moves)}: {move.uuid} from {move.source.host} to"
            f" {move.target.host} by {move.kind}: {what}"
        )

    def write(self, line: str) -> None:
        """Print a line; a run that has lost its terminal, or who reads it, is to end."""
        app = self._command.app
        stream = app.stderr if self._asked.formatter == "json" else app.stdout
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} " if self._asked.watch else ""
        try:
            clear_line(app)
            stream.write(f"{now}{escaped(line)}\n")
            stream.flush()
        except OSError:
            self._interruption.why = self._interruption.why or "the output is lost"
