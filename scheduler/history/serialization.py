# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions, and snapshots of the hosts that they were made on, as bytes and back."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from importlib import metadata
from itertools import chain
from time import monotonic
from typing import Any

from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision, Placement
from scheduler.history import snapshot_json
from scheduler.history.tagged_json import decode, encode, has_type, json_text
from scheduler.hosts.snapshots import Snapshot
from scheduler.request_trace import PLACED, RequestTrace
from scheduler.wire.context import RequestContext

Pause = Callable[[], None]
# A higher version cannot be read.
VERSION = 2
# Of an unpacked document.
MAX_BYTES = 2**27
# Seconds of work between two pauses.
_PAUSE_INTERVAL = 0.001
# Bytes that are packed at a time.
_BLOCK = 16 * 1024


@dataclass(frozen=True, slots=True)
class DecisionDocument:
    """A decision with what it was made from, without the host table.

    instance_uuids are all of the call; request has those that were decided about. settings are
    those of the driver, by group and name. release has written the document. For the other fields
    see RequestTrace.
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


_TYPES: Mapping[str, type[Any]] = {"request": Request, "decision": Decision} | {
    each.name: type(each.default if each.default_factory is MISSING else each.default_factory())
    for each in fields(DecisionDocument)[2:]
}
# The fields of a placement, and whether they are left out where they are None.
_PLACEMENT = [(each.name, each.default is None) for each in fields(Placement)]


@cache
def release() -> str:
    """Return the installed release."""
    return metadata.version("berthmaster")


def document_of(trace: RequestTrace) -> DecisionDocument | None:
    """Return the document of a finished request, None if nothing was decided."""
    if trace.request is None or trace.driver is None or trace.decision is None:
        return None
    return DecisionDocument(
        trace.request,
        trace.decision,
        tuple(trace.instance_uuids),
        trace.caller,
        trace.driver.settings,
        trace.outcome,
        trace.conflicts,
        trace.view_age,
        trace.seconds,
        trace.total,
        release(),
    )


def document_pieces(document: DecisionDocument) -> Iterator[str]:
    """Yield the text of a document, with a line for each field and placement."""
    yield "{"
    for name in _TYPES:
        value = getattr(document, name)
        if name == "decision":
            value = replace(value, placements=())
        text = _settings_text(value) if name == "settings" else json_text(encode(value))
        yield f'\n"{name}":{text},'
    yield '\n"placements":['
    known: dict[Any, str] = {}
    for place, each in enumerate(document.decision.placements):
        # Most decisions have one placement, which shares nothing.
        text = _placement_text(each, known) if place else json_text(encode(each))
        yield f"{',' if place else ''}\n{text}"
    yield "\n]}"


def _placement_text(placement: Placement, known: dict[Any, str]) -> str:
    """Return the text of encode(); known has those of values, most of which placements share."""
    texts = []
    for name, is_left_out in _PLACEMENT:
        value = getattr(placement, name)
        if value is None and is_left_out:
            continue
        key = tuple(map(id, value)) if type(value) is tuple else id(value)
        if key not in known:
            known[key] = json_text(encode(value))
        texts.append(f'"{name}":{known[key]}')
    return f'{{"=Placement":{{{",".join(texts)}}}}}'


class _LastText:
    """Returns the text of settings, which are the same object for all decisions of a driver."""

    def __init__(self) -> None:
        self._last: tuple[Any, str] = (object(), "")

    def __call__(self, settings: Any) -> str:
        last, text = self._last
        if settings is not last:
            text = json_text(encode(settings))
            self._last = settings, text
        return text


_settings_text = _LastText()


def document_from_json(document: Any) -> DecisionDocument:
    """Return a document that was parsed; raises ValueError."""
    if type(document) is not dict:
        raise ValueError("the record is missing")
    found = {name: decode(document[name]) for name in _TYPES if name in document}
    for name in ("request", "decision"):
        if name not in found:
            raise ValueError(f"the {name} is missing")
    for name, value in found.items():
        if not has_type(value, _TYPES[name]):
            raise ValueError(f"{name} is not of type {_TYPES[name].__name__}")
    placements = tuple(map(decode, _list_of(document, "placements")))
    if not all(isinstance(each, Placement) for each in placements):
        raise ValueError("the placements have something else among them")
    decision = replace(found.pop("decision"), placements=placements)
    return DecisionDocument(decision=decision, **found)


def document_to_bytes(document: DecisionDocument, pause: Pause = lambda: None) -> bytes:
    """Return a document packed; for pause see snapshots_to_bytes()."""
    head = f'{{"version":{VERSION},"record":'
    return _packed(chain([head], document_pieces(document), "}"), pause)


def document_from_bytes(data: bytes) -> DecisionDocument:
    """Return a document that was packed; raises ValueError."""
    return document_from_json(_unpacked(data).get("record"))


def snapshots_to_bytes(snapshots: Iterable[Snapshot], pause: Pause = lambda: None) -> bytes:
    """Return snapshots packed, in their order.

    pause is called about every millisecond, for other threads that wait for the processor.
    """
    return _packed(_pieces(snapshots), pause)


def snapshots_from_bytes(data: bytes) -> list[Snapshot]:
    """Return the snapshots that were packed; raises ValueError."""
    document = _unpacked(data)
    name = "frames" if document["version"] == 1 else "snapshots"
    return [snapshot_json.read(each) for each in _list_of(document, name)]


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is no object of JSON")
    return found


def _pieces(snapshots: Iterable[Snapshot]) -> Iterator[str]:
    yield f'{{"version":{VERSION},"snapshots":['
    for place, snapshot in enumerate(snapshots):
        if place:
            yield ","
        yield from snapshot_json.pieces(snapshot)
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
        if monotonic() - began > _PAUSE_INTERVAL:
            pause()
            began = monotonic()
    packed.append(packing.compress("".join(block).encode()))
    return b"".join([*packed, packing.flush()])


def _unpacked(data: bytes) -> dict[str, Any]:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise ValueError("it is cut off or too large")
    found = parse_object(text)
    version = found.get("version")
    if type(version) is not int or version > VERSION:
        raise ValueError(f"it is of version {version!r}; this release reads up to {VERSION}")
    return found
