# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision that was kept, with what it was made from: it can be made again."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from inventory import decisions
from scheduler.decision.film import Film, Frame, last_picture
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Decision
from scheduler.drivers import BaseDriver
from scheduler.keeping import files
from scheduler.keeping.documents import Record, frames_from_bytes, record_from_bytes
from scheduler.keeping.plain import alike
from scheduler.keeping.settings import deciding_by, restored


@dataclass(frozen=True)
class Recalled:
    """A kept decision. hosts is the table that it was made on, None where that is lost, and why.

    number is its id in the database that it is from; moments are in UTC.
    """

    record: Record
    hosts: HostTable | None = None
    lost: str = ""
    number: int | None = None
    decided_at: datetime | None = None
    scheduler: str | None = None

    def deciding(self) -> AbstractContextManager[BaseDriver]:
        """Yield the driver that made the decision; inside, plug-ins find the settings of that time.

        Raises PluginError where a plug-in is not installed here, ValueError where it has no
        such setting.
        """
        return deciding_by(restored(self.record.settings))

    def again(self, driver: BaseDriver) -> Decision:
        """Return what a driver decides on the same hosts; raises Lost without them."""
        hosts = self.table().working_copy()
        try:
            return driver.decide(hosts, self.record.request)
        # A file may have been changed, so that what is read is no request.
        except (AttributeError, TypeError, OverflowError) as error:
            raise Lost(f"it cannot be made again: {type(error).__name__}: {error}") from error

    def table(self) -> HostTable:
        """Return the hosts as they were; raises Lost where that is not known any more."""
        if self.hosts is None:
            raise Lost(f"the hosts that it was made on are lost: {self.lost}")
        return self.hosts

    def is_same(self, decision: Decision) -> bool:
        """Tell whether a decision is the kept one, to the last bit; complaints do not count.

        What a plug-in complains about it says once for each value that it sees, and it may have
        seen some before.
        """
        kept = replace(self.record.decision, warnings=())
        return alike(kept, replace(decision, warnings=()))


class Lost(Exception):
    """What a decision was made on is not there any more; the text says why."""


def from_database(connection: sa.Connection, row: Any) -> Recalled:
    """Return a decision of the database by its row; see inventory.decisions.find().

    Raises Lost where even the decision itself is gone or cannot be read.
    """
    data = decisions.document(connection, row.id)
    if data is None:
        raise Lost(
            f"decision {row.id} was removed just now, as [decisions] max_age or max_number say"
        )
    try:
        record = record_from_bytes(data)
    except ValueError as error:
        raise Lost(f"decision {row.id} cannot be read: {error}") from error
    hosts, lost = None, ""
    try:
        hosts = _picture(decisions.frames(connection, row.film, row.frame), row.frame)
    except ValueError as error:
        lost = str(error)
    return Recalled(record, hosts, lost, row.id, row.decided_at, row.scheduler)


def _picture(batches: Iterable[bytes], last: int) -> HostTable:
    """Return the table as it was at a frame; raises ValueError where frames are missing."""
    frames = [frame for batch in batches for frame in frames_from_bytes(batch)]
    found = sorted((each for each in frames if each.number <= last), key=attrgetter("number"))
    if not found or found[-1].number != last:
        raise ValueError(f"frame {last} of the film is missing")
    return last_picture(found)


def from_file(path: Path) -> Recalled:
    """Return a decision that was saved; raises files.Unreadable and OSError."""
    saved = files.read(path)
    try:
        hosts = last_picture([saved.frame])
    except ValueError as error:
        raise files.Unreadable(path, str(error)) from error
    return Recalled(saved.record, hosts, "", saved.number, saved.decided_at)


def to_file(recalled: Recalled, path: Path) -> None:
    """Save a decision with what it was made from; raises Lost and OSError."""
    files.write(
        path,
        files.Saved(
            recalled.record, picture_of(recalled.table()), recalled.decided_at, recalled.number
        ),
    )


def picture_of(hosts: HostTable) -> Frame:
    """Return the whole of a table as one frame."""
    return Film().take(hosts)
