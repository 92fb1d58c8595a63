# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A saved decision with what it was made from, from the database or a file, to be made again.

The file is JSON that a person can read: a line for each part of the decision, and one for each
column of the host table.
"""

import json
import os
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from inventory import decisions
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.history import snapshot_documents
from scheduler.history.config_snapshot import deciding_by, restored
from scheduler.history.serialization import (
    DecisionDocument,
    DecisionsRead,
    document_from_bytes,
    document_from_json,
    document_pieces,
    parse_object,
    release,
    snapshots_from_bytes,
)
from scheduler.history.tagged_json import identical
from scheduler.hosts.snapshots import SnapshotLog, restore
from scheduler.hosts.table import HostTable
from scheduler.plugins import PluginError

FORMAT = "berthmaster decision"
VERSION = 2


class DecisionIncomplete(Exception):
    """A decision, or what it was made from, is not there any more; the text says why."""


class Unreadable(ValueError):
    """A file without a decision, or with one that this release cannot read."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"{path}: {cause}")
        self.path = path
        self.cause = cause


@dataclass(frozen=True)
class SavedDecision:
    """A decision with the host table that it was made on, None if that is lost, and why.

    number is its id in the database that it is from; decided_at is in UTC.
    """

    record: DecisionDocument
    hosts: HostTable | None = None
    lost: str = ""
    number: int | None = None
    decided_at: datetime | None = None
    scheduler: str | None = None

    @contextmanager
    def deciding(self) -> Iterator[BaseDriver]:
        """Yield the driver of the decision; inside, plug-ins read the settings of that time.

        Raises PluginError for a plug-in that is not installed here, ValueError for a setting that
        it does not have.
        """
        try:
            with deciding_by(restored(self.record.settings)) as driver:
                yield driver
        except PluginError as error:
            option = replace(error.option, source="the settings saved with the decision")
            raise PluginError(option, error.value, error.why) from error

    def again(self, driver: BaseDriver) -> Decision:
        """Return what a driver decides on the same hosts; raises DecisionIncomplete."""
        hosts = self.table().working_copy()
        try:
            return driver.decide(hosts, self.record.request)
        # A file may have been edited, so that the request has values of other types.
        except (AttributeError, TypeError, OverflowError) as error:
            raise DecisionIncomplete(
                f"it cannot be made again: {type(error).__name__}: {error}"
            ) from error

    def table(self) -> HostTable:
        """Return the hosts at that time; raises DecisionIncomplete."""
        if self.hosts is None:
            raise DecisionIncomplete(f"the hosts of the decision are lost: {self.lost}")
        return self.hosts

    def is_same(self, decision: Decision) -> bool:
        """Return whether a decision is the saved one to the last bit, apart from warnings.

        A plug-in warns of each value once, and may have seen some before.
        """
        return identical(replace(self.record.decision, warnings=()), replace(decision, warnings=()))


class DecisionReader:
    """Reads the documents of rows, most of which are in batches, of which it has the last ones."""

    _MAX_BATCHES = 8

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._batches: dict[tuple[str, int], DecisionsRead] = {}

    def read(self, row: Any, data: bytes) -> DecisionDocument:
        """Return the document of a row that has this in its place; raises ValueError."""
        found = document_from_bytes(data)
        if isinstance(found, DecisionDocument):
            return found
        key = row.snapshot_log, found
        if key not in self._batches:
            packed = decisions.batch(self._connection, *key)
            if packed is None:
                raise ValueError("the batch that it is in is missing")
            while len(self._batches) >= self._MAX_BATCHES:
                del self._batches[next(iter(self._batches))]
            self._batches[key] = DecisionsRead(packed)
        return self._batches[key].get(row.snapshot_number)


def from_database(connection: sa.Connection, row: Any) -> SavedDecision:
    """Return the decision of a row that inventory.decisions.find() has returned.

    Raises DecisionIncomplete if even the decision itself is gone or cannot be read.
    """
    data = decisions.document(connection, row.id)
    if data is None:
        raise DecisionIncomplete(
            f"decision {row.id} was removed just now, as [decisions] max_age or max_number say"
        )
    try:
        record = DecisionReader(connection).read(row, data)
    except ValueError as error:
        raise DecisionIncomplete(f"decision {row.id} cannot be read: {error}") from error
    hosts, lost = None, ""
    try:
        number = row.snapshot_number
        hosts = _restored(decisions.snapshots(connection, row.snapshot_log, number), number)
    except ValueError as error:
        lost = str(error)
    return SavedDecision(record, hosts, lost, row.id, row.decided_at, row.scheduler)


def _restored(batches: Iterable[bytes], last: int) -> HostTable:
    """Return the table at a snapshot; raises ValueError if snapshots are missing."""
    snapshots = [each for batch in batches for each in snapshots_from_bytes(batch)]
    found = sorted((each for each in snapshots if each.number <= last), key=attrgetter("number"))
    if not found or found[-1].number != last:
        raise ValueError(f"snapshot {last} of the log is missing")
    return restore(found)


def write_file(path: Path, saved: SavedDecision) -> None:
    """Write a file that only its owner can read, and replace one that is there.

    Raises DecisionIncomplete, and OSError, after which an older file is still there.
    """
    # Its mode is 0600 from the start.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(_pieces(saved))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def read_file(path: Path) -> SavedDecision:
    """Return the decision of a file; raises Unreadable, and OSError."""
    text = path.read_bytes()
    try:
        return _read(text)
    except ValueError as error:
        raise Unreadable(path, _cause(text, error)) from None


def _pieces(saved: SavedDecision) -> Iterator[str]:
    snapshot = SnapshotLog().take(saved.table())
    decided_at = saved.decided_at.isoformat() if saved.decided_at else None
    head = {
        "format": FORMAT,
        "version": VERSION,
        "release": release(),
        "decided_at": decided_at,
        "number": saved.number,
    }
    yield "{"
    for name, value in head.items():
        yield f'\n  "{name}": {json.dumps(value)},'
    yield '\n  "record": '
    yield from document_pieces(saved.record)
    yield ',\n  "snapshot": '
    yield from snapshot_documents.json_pieces(snapshot)
    yield "\n}\n"


def _read(text: bytes) -> SavedDecision:
    document = parse_object(text)
    if document.get("format") != FORMAT:
        raise ValueError(f"it is not of the format {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version > VERSION:
        by = f", written by release {document['release']!r}" if "release" in document else ""
        raise ValueError(f"it is of version {version!r}{by}; this release reads up to {VERSION}")
    snapshot = snapshot_documents.of_json(document.get("frame" if version == 1 else "snapshot"))
    if snapshot.number != 0:
        raise ValueError("its host table is incomplete")
    decided_at, number = document.get("decided_at"), document.get("number")
    if decided_at is not None and not isinstance(decided_at, str):
        raise ValueError("decided_at is not a time")
    if number is not None and type(number) is not int:
        raise ValueError("number is not a number")
    return SavedDecision(
        document_from_json(document.get("record")),
        restore([snapshot]),
        number=number,
        decided_at=None if decided_at is None else datetime.fromisoformat(decided_at),
    )


def _cause(text: bytes, error: ValueError) -> str:
    """Return in one line what is wrong with a file."""
    if not isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return " ".join(f"it holds no decision that can be read: {error}".split())
    if text.removeprefix(BOM_UTF8).lstrip()[:1] == b"{" and FORMAT.encode() in text[:200]:
        return "it is cut off or damaged: write it again with decision save"
    return "it is not JSON, so it is not a saved decision"
