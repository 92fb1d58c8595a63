# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions and the frames that they were made on as bytes, fit for a database, and back."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import metadata
from itertools import chain
from time import monotonic
from typing import Any

from scheduler.course import PLACED, Course
from scheduler.decision.film import Frame
from scheduler.decision.outcome import Decision, Placement
from scheduler.decision.pipeline import Request
from scheduler.keeping import frames as frame_texts
from scheduler.keeping.columns import text_of
from scheduler.keeping.plain import from_plain, to_plain
from scheduler.rpc.context import RequestContext

Pause = Callable[[], None]
# Of what is written here; who meets a higher one cannot read it.
VERSION = 1
# What a document is at most when it is unpacked.
MOST_BYTES = 2**27
# So long, in seconds, work goes on without a pause.
_SPELL = 0.001
# So much is packed at a time.
_BLOCK = 16 * 1024


@dataclass(frozen=True, slots=True)
class Record:
    """A decision with what it was made from, but for the table.

    instance_uuids are all that the caller asked for; request has those that were decided about.
    settings are those of the driver by group and name, the rest is as in Course. release is the one
    that wrote it.
    """

    request: Request
    decision: Decision
    instance_uuids: tuple[str | None, ...] = ()
    caller: RequestContext = field(default_factory=RequestContext)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    outcome: str = PLACED
    conflicts: int = 0
    view_age: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    total: float = 0.0
    release: str = ""


_KINDS: Mapping[str, type[Any]] = {
    "request": Request,
    "decision": Decision,
    "instance_uuids": tuple,
    "caller": RequestContext,
    "settings": dict,
    "outcome": str,
    "conflicts": int,
    "view_age": float,
    "seconds": dict,
    "total": float,
    "release": str,
}


@cache
def release() -> str:
    """Return the release of this installation."""
    return metadata.version("berthmaster")


def record_of(course: Course, settings: Mapping[str, Mapping[str, Any]]) -> Record | None:
    """Return the record of a request that is over, None where nothing was decided."""
    if course.request is None or course.decision is None:
        return None
    return Record(
        course.request,
        course.decision,
        tuple(course.instance_uuids),
        course.caller,
        settings,
        course.outcome,
        course.conflicts,
        course.view_age,
        course.seconds,
        course.total,
        release(),
    )


def record_pieces(record: Record) -> Iterator[str]:
    """Yield the text of a record, a fact or a placement to a line."""
    yield "{"
    for name in _KINDS:
        value = getattr(record, name)
        if name == "decision":
            value = replace(value, placements=())
        yield f'\n"{name}":{text_of(to_plain(value))},'
    yield '\n"placements":['
    for place, each in enumerate(record.decision.placements):
        yield f"{',' if place else ''}\n{text_of(to_plain(each))}"
    yield "\n]}"


def record_from_plain(document: Any) -> Record:
    """Return the record of a document; raises ValueError."""
    if type(document) is not dict:
        raise ValueError("the record is missing")
    found = {name: from_plain(document[name]) for name in _KINDS if name in document}
    for each in fields(Record)[:2]:
        if each.name not in found:
            raise ValueError(f"the {each.name} is missing")
    for name, value in found.items():
        kind = _KINDS[name]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{name} is no {kind.__name__}")
    placements = tuple(map(from_plain, _list_of(document, "placements")))
    if not all(isinstance(each, Placement) for each in placements):
        raise ValueError("the placements are none")
    return replace(Record(**found), decision=replace(found["decision"], placements=placements))


def record_to_bytes(record: Record, pause: Pause = lambda: None) -> bytes:
    """Return a record packed; pause is called again and again, see frames_to_bytes()."""
    return _packed(chain([f'{{"version":{VERSION},"record":'], record_pieces(record), "}"), pause)


def record_from_bytes(data: bytes) -> Record:
    """Return the record that was packed; raises ValueError."""
    return record_from_plain(_unpacked(data).get("record"))


def frames_to_bytes(frames: Iterable[Frame], pause: Pause = lambda: None) -> bytes:
    """Return frames packed, in their order.

    pause is called every thousandth of a second or so, that others who wait for the same thread get
    their turn.
    """
    return _packed(_pieces(frames), pause)


def frames_from_bytes(data: bytes) -> list[Frame]:
    """Return the frames that were packed; raises ValueError."""
    return [frame_texts.read(each) for each in _list_of(_unpacked(data), "frames")]


def frame_to_bytes(frame: Frame, pause: Pause = lambda: None) -> bytes:
    """Return a frame packed by itself; see frames_to_bytes()."""
    return frames_to_bytes([frame], pause)


def frame_from_bytes(data: bytes) -> Frame:
    """Return the frame that was packed by itself; raises ValueError."""
    found = frames_from_bytes(data)
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} frames and not one")
    return found[0]


def parsed(text: str | bytes) -> dict[str, Any]:
    """Return an object of JSON; raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object of JSON")
    return found


def _pieces(frames: Iterable[Frame]) -> Iterator[str]:
    yield f'{{"version":{VERSION},"frames":['
    for place, frame in enumerate(frames):
        if place:
            yield ","
        yield from frame_texts.pieces(frame)
    yield "]}"


def _list_of(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    if type(found) is not list:
        raise ValueError(f"the {name} are missing")
    return found


def _packed(pieces: Iterable[str], pause: Pause) -> bytes:
    packing = zlib.compressobj(1)
    packed: list[bytes] = []
    block: list[str] = []
    size, began = 0, monotonic()
    for piece in pieces:
        block.append(piece)
        size += len(piece)
        if size > _BLOCK:
            packed.append(packing.compress("".join(block).encode()))
            block, size = [], 0
        if monotonic() - began > _SPELL:
            pause()
            began = monotonic()
    packed.append(packing.compress("".join(block).encode()))
    return b"".join([*packed, packing.flush()])


def _unpacked(data: bytes) -> dict[str, Any]:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise ValueError("it is cut off or too large")
    found = parsed(text)
    version = found.get("version")
    if type(version) is not int or version > VERSION:
        raise ValueError(f"it is of version {version!r}; this release reads up to {VERSION}")
    return found
