# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision in a file of its own, with all hosts as they were, so that it can be made elsewhere.

The file is JSON that a person can read: a line for each thing that was kept, and one for each
column of the table.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler.decision.film import Frame
from scheduler.keeping import frames
from scheduler.keeping.documents import Record, parsed, record_from_plain, record_pieces, release

FORMAT = "berthmaster decision"
VERSION = 1


class Unreadable(ValueError):
    """A file that holds no decision, or none that this release can read."""

    def __init__(self, path: str | Path, cause: str) -> None:
        super().__init__(f"{path}: {cause}")
        self.path = path
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Saved:
    """A decision with the table that it was made on, as a frame that stands by itself.

    decided_at is in UTC without a zone, as the database has it, and number its number there.
    """

    record: Record
    frame: Frame
    decided_at: datetime | None = None
    number: int | None = None


def write(path: str | Path, saved: Saved) -> None:
    """Write a file that nobody else can read, in the place of one that is there.

    Raises OSError; what was there before is there still.
    """
    path = Path(path)
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


def read(path: str | Path) -> Saved:
    """Return what a file holds; raises Unreadable, and OSError where there is no such file."""
    text = Path(path).read_bytes()
    try:
        return _saved(text)
    except ValueError as error:
        raise Unreadable(path, _cause(text, error)) from None


def _pieces(saved: Saved) -> Iterator[str]:
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
    yield from record_pieces(saved.record)
    yield ',\n  "frame": '
    yield from frames.pieces(saved.frame)
    yield "\n}\n"


def _saved(text: bytes) -> Saved:
    document = parsed(text)
    if document.get("format") != FORMAT:
        raise ValueError(f"it is not of the format {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version > VERSION:
        by = f", written by release {document['release']!r}" if "release" in document else ""
        raise ValueError(f"it is of version {version!r}{by}; this release reads up to {VERSION}")
    frame = frames.read(document.get("frame"))
    if frame.number != 0:
        raise ValueError("its table is not whole")
    return Saved(
        record_from_plain(document.get("record")),
        frame,
        _moment(document.get("decided_at")),
        _number(document.get("number")),
    )


def _moment(value: Any) -> datetime | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("decided_at is no moment")
    return None if value is None else datetime.fromisoformat(value)


def _number(value: Any) -> int | None:
    if value is not None and type(value) is not int:
        raise ValueError("its number is none")
    return value


def _cause(text: bytes, error: ValueError) -> str:
    """Return in one line what is wrong with a file."""
    if not isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return " ".join(f"it holds no decision that can be read: {error}".split())
    if text.lstrip()[:1] == b"{" and FORMAT.encode() in text[:200]:
        return "it is cut off or damaged: write it again with decision save"
    return "it is no JSON and so no decision that was saved"
