# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is seen of the instance of a move: where it is, and whether it is still on the way."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import NotFound
from inventory.instance_states import REBUILDING
from inventory.queries import instance_queries
from scheduler.operators.cli.plan_program import CALLS, MoveFailed
from scheduler.operators.planning.types import EVACUATION, Place, PlannedMove

# Seconds between two looks at an instance on the move.
LOOK_INTERVAL = 1.0
# Seconds in which everybody has reported what a program did: agents report every 60 s.
REPORT_TIME = 90.0
# Seconds that it may take from the end of a task to the place where its instance is then.
TASK_TIME = 10.0


class MoveWatch:
    """The places of the instance of a move, with their states and tasks, at each look.

    waits_for_task says that whoever moves it ends before its task is seen, or another place.
    """

    def __init__(self, database: Database, move: PlannedMove, waits_for_task: bool = False) -> None:
        self.database, self._move, self._waits_for_task = database, move, waits_for_task
        self.places: Sequence[Mapping[str, Any]] = _places(database, move)
        self._was_in_error, self._was_busy = self.is_in_error, False
        self._idle_since = time.monotonic()

    def look(self) -> None:
        """Look at the instance; while the database is away it is taken to be where it was."""
        try:
            self.places = _places(self.database, self._move)
        except DatabaseUnavailable:
            self.work_on()
        if self.is_busy:
            self._was_busy = True
            self.work_on()

    def work_on(self) -> None:
        """Note that the move is under way, whatever is seen of it."""
        self._idle_since = time.monotonic()

    @property
    def idle_time(self) -> float:
        """Seconds since the move was seen to be under way."""
        return time.monotonic() - self._idle_since

    @property
    def is_busy(self) -> bool:
        """Whether the instance has a task, or more than one place.

        On a host that is down all tasks but those of an evacuation have ended without an end.
        """
        tasks = (each["task"] for each in self.places if not self._is_left(each))
        left = (each["task"] in REBUILDING for each in self.places if self._is_left(each))
        return any(tasks) or any(left) or len(self._hosts) > 1

    @property
    def is_there(self) -> bool:
        return self._hosts == {self._move.target} and not self.is_unconfirmed

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the instance was migrated cold and still holds its room at the source."""
        return any(each["state"] == "resized" for each in self.places)

    @property
    def is_in_error(self) -> bool:
        some = [each for each in self.places if not self._is_left(each)] or self.places
        return any(each["state"] == "error" and not each["task"] for each in some)

    @property
    def text(self) -> str:
        return " and ".join(map(_place_text, self.places)) or "on no host"

    @property
    def calls(self) -> Sequence[str]:
        """The calls that are missing: a move that was begun may be confirmed only."""
        return CALLS[self._move.kind][1 if self.is_unconfirmed else 0 :]

    def check(self) -> None:
        """Raise MoveFailed for an instance that will not come any more."""
        # Nova may be set to confirm resizes itself, after a time.
        if self.is_busy or self.is_unconfirmed or (self.is_there and not self.is_in_error):
            return
        # One that is evacuated in this state stays in it until it is rebuilt.
        if self.is_in_error and (self.is_there or self._was_busy or not self._was_in_error):
            raise MoveFailed("the instance is in state error")
        if self.idle_time > (TASK_TIME if self._was_busy and self.places else REPORT_TIME):
            if self.is_in_error:
                raise MoveFailed("the instance is in state error still, without a task")
            if self._was_busy or not self._waits_for_task:
                raise MoveFailed(f"the instance is {self.text}, and is not moving")

    @property
    def _hosts(self) -> set[Place]:
        found = (each for each in self.places if not self._is_left(each))
        return {Place(each["host"], each["node"]) for each in found}

    def _is_left(self, place: Mapping[str, Any]) -> bool:
        """Return whether a place is on a host that is down, which does not report what leaves."""
        here = Place(place["host"], place["node"])
        return self._move.kind == EVACUATION and here == self._move.source


def claims_of(database: Database, move: PlannedMove) -> Sequence[Mapping[str, Any]]:
    """Return the claims of the instance of a move."""
    found: Sequence[Mapping[str, Any]] = _shown(database, move).get("claims", ())
    return found


def _places(database: Database, move: PlannedMove) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = _shown(database, move).get("places", ())
    return found


def _shown(database: Database, move: PlannedMove) -> dict[str, Any]:
    """Return what is known of an instance, nothing where neither of its hosts reports it."""
    try:
        return database.read(lambda connection: instance_queries.show(connection, move.uuid))
    except NotFound:
        return {}


def _place_text(place: Mapping[str, Any]) -> str:
    state = place["task"] or place["state"]
    return f"on {place['host']}" + (f" ({state})" if state else "")
