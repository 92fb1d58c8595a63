# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions, and snapshots of the hosts that they were made on, as bytes and back.

Many are written together: MessagePack in one compressed piece, with what they have in common once.
Documents of version 1 and 2 were JSON, one for each decision.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from importlib import metadata
from time import monotonic
from typing import Any

import msgspec
from msgspec import Raw

from scheduler.decision.pipeline import Request
from scheduler.decision.types import Decision, Placement, PlannedStandby
from scheduler.history import snapshot_documents
from scheduler.history.tagged_json import decode, has_type, json_text, tagged_text, value_of_text
from scheduler.history.typed_msgpack import Shared, open_value, read, write
from scheduler.hosts.host_state import Candidate
from scheduler.hosts.snapshots import Snapshot
from scheduler.request_trace import PLACED, RequestTrace
from scheduler.wire.context import RequestContext

Pause = Callable[[], None]
# A higher version cannot be read.
VERSION = 3
# Of an unpacked document, and of that of one decision among others.
MAX_BYTES = 2**27
MAX_DECISION_BYTES = 2**24
# Seconds of work between two pauses.
_PAUSE_INTERVAL = 0.001
# Types of limits that msgspec writes as they are.
_PLAIN_LIMITS = frozenset({float, int})
# Bytes that are packed at a time.
_BLOCK = 16 * 1024


# Not frozen, since each request has one: see scheduler.decision.types.
@dataclass(slots=True)
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


class TooLarge(ValueError):
    """A decision that no batch can take."""


class _Batch(msgspec.Struct):
    """The documents of one batch; decisions are by the numbers of their snapshots."""

    version: int
    shared: list[str] = []
    decisions: dict[int, Raw] = {}
    snapshots: list[Raw] = []


class DecisionBatch:
    """Decisions of one snapshot log that are written together."""

    def __init__(self) -> None:
        self._share = Shared()
        self._decisions: dict[int, Raw] = {}
        self._size = 0

    def add(self, number: int, document: DecisionDocument) -> None:
        """Add the decision on the snapshot of a number; raises TooLarge."""
        try:
            written = write(_prepared(document, self._share))
        # Something in it can be said by tagged JSON only.
        except (UnicodeEncodeError, OverflowError, RecursionError):
            written = write("".join(document_pieces(document)))
        if len(written) > min(MAX_DECISION_BYTES, MAX_BYTES // 2 - self._size):
            raise TooLarge
        self._size += len(written)
        self._decisions[number] = Raw(written)

    def to_bytes(self, pause: Pause = lambda: None) -> bytes:
        """Return the decisions packed; for pause see snapshots_to_bytes()."""
        batch = _Batch(VERSION, self._share.texts, self._decisions)
        return _packed(write(batch), _ticking(pause))


class DecisionsRead:
    """Reads the decisions of a packed batch; raises ValueError for other bytes."""

    def __init__(self, data: bytes) -> None:
        batch = _read_batch(_unpacked(data))
        self._shared = [*map(value_of_text, batch.shared)]
        self._decisions = batch.decisions

    def get(self, number: int) -> DecisionDocument:
        """Return the decision on the snapshot of a number; raises ValueError."""
        if number not in self._decisions:
            raise ValueError(f"decision {number} of the batch is missing")
        found = read(DecisionDocument, self._decisions[number], self._shared)
        if type(found) is str:
            return document_from_json(parse_object(found))
        return _checked(found)


def _prepared(document: DecisionDocument, share: Shared) -> dict[str, Any]:
    """Return a document that msgspec writes as it is to be read."""
    request, decision = document.request, document.decision
    if request.protection is not None:
        sums: Any = share(request.protection.sums)
        request = replace(request, protection=replace(request.protection, sums=sums))
    if decision.moved or not all(map(_has_plain_limits, decision.placements)):
        decision = replace(
            decision,
            placements=tuple(map(_with_open_limits, decision.placements)),
            moved=tuple(
                replace(each, after=_with_open_host(each.after)) for each in decision.moved
            ),
        )
    return {
        "request": request,
        "decision": decision,
        "instance_uuids": document.instance_uuids,
        "caller": document.caller,
        "settings": share(document.settings),
        "outcome": document.outcome,
        "conflicts": document.conflicts,
        "view_age": document.view_age,
        "seconds": document.seconds,
        "total": document.total,
        "release": document.release,
    }


def _has_plain_limits(placement: Placement) -> bool:
    kinds = {*map(type, placement.chosen.limits.values())}
    for each in placement.alternates:
        kinds.update(map(type, each.limits.values()))
    return placement.standby is None and kinds <= _PLAIN_LIMITS


def _with_open_limits(placement: Placement) -> Placement:
    standby = placement.standby
    return replace(
        placement,
        chosen=_open_limits(placement.chosen),
        alternates=tuple(map(_open_limits, placement.alternates)),
        standby=standby and _with_open_host(standby),
    )


def _with_open_host(standby: PlannedStandby) -> PlannedStandby:
    return replace(standby, host=standby.host and _open_limits(standby.host))


def _open_limits(candidate: Candidate) -> Candidate:
    return replace(
        candidate, limits={name: open_value(each) for name, each in candidate.limits.items()}
    )


def document_pieces(document: DecisionDocument) -> Iterator[str]:
    """Yield the text of a document, with a line for each field and placement."""
    yield "{"
    for name in _TYPES:
        value = getattr(document, name)
        if name == "decision":
            value = replace(value, placements=())
        yield f'\n"{name}":{tagged_text(value)},'
    yield '\n"placements":['
    for place, each in enumerate(document.decision.placements):
        yield f"{',' if place else ''}\n{tagged_text(each)}"
    yield "\n]}"


def document_from_json(document: Any) -> DecisionDocument:
    """Return a document that was parsed; raises ValueError."""
    if type(document) is not dict:
        raise ValueError("the record is missing")
    found = {name: decode(document[name]) for name in _TYPES if name in document}
    placements = tuple(map(decode, _list_of(document, "placements")))
    for name in ("request", "decision"):
        if name not in found:
            raise ValueError(f"the {name} is missing")
    if type(found["decision"]) is Decision:
        found["decision"] = replace(found["decision"], placements=placements)
    return _checked(DecisionDocument(**found))


def _checked(document: Any) -> DecisionDocument:
    """Return a document; raises ValueError if a part of it is something else."""
    if type(document) is not DecisionDocument:
        raise ValueError("the record is missing")
    for name, kind in _TYPES.items():
        if not has_type(getattr(document, name), kind):
            raise ValueError(f"{name} is not of type {kind.__name__}")
    if not all(isinstance(each, Placement) for each in document.decision.placements):
        raise ValueError("the placements have something else among them")
    return document


def document_from_bytes(data: bytes) -> DecisionDocument | int:
    """Return a document that was packed by itself, else the number of the batch that it is in.

    Raises ValueError.
    """
    document = parse_object(_unpacked(data))
    _check_version(document)
    batch = document.get("batch")
    return batch if type(batch) is int else document_from_json(document.get("record"))


def batch_to_bytes(number: int) -> bytes:
    """Return what stands in place of a document that is in a batch."""
    return zlib.compress(json_text({"version": VERSION, "batch": number}).encode())


def snapshots_to_bytes(snapshots: Iterable[Snapshot], pause: Pause = lambda: None) -> bytes:
    """Return snapshots packed, in their order.

    pause is called about every millisecond, for other threads that wait for the processor.
    """
    share, tick = Shared(), _ticking(pause)
    written = [Raw(snapshot_documents.to_msgpack(each, share, tick)) for each in snapshots]
    return _packed(write(_Batch(VERSION, share.texts, snapshots=written)), tick)


def snapshots_from_bytes(data: bytes) -> list[Snapshot]:
    """Return the snapshots that were packed; raises ValueError."""
    text = _unpacked(data)
    if text.startswith((b"{", b"[")):
        document = parse_object(text)
        _check_version(document)
        name = "frames" if document["version"] == 1 else "snapshots"
        return [snapshot_documents.of_json(each) for each in _list_of(document, name)]
    batch = _read_batch(text)
    shared = [*map(value_of_text, batch.shared)]
    return [snapshot_documents.of_msgpack(read(Any, each, shared)) for each in batch.snapshots]


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _list_of(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name)
    if type(found) is not list:
        raise ValueError(f"the {name} are missing")
    return found


def _ticking(pause: Pause) -> Pause:
    """Return what calls pause if it was not called for a while."""
    began = monotonic()

    def tick() -> None:
        nonlocal began
        if monotonic() - began > _PAUSE_INTERVAL:
            pause()
            began = monotonic()

    return tick


def _packed(data: bytes, tick: Pause) -> bytes:
    packing, view = zlib.compressobj(1), memoryview(data)
    packed = []
    for start in range(0, len(data), _BLOCK):
        tick()
        packed.append(packing.compress(view[start : start + _BLOCK]))
    return b"".join([*packed, packing.flush()])


def _unpacked(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from None
    if not unpacking.eof:
        raise ValueError("it is cut off or too large")
    return found


def _read_batch(text: bytes) -> _Batch:
    try:
        batch = msgspec.msgpack.decode(text, type=_Batch)
    except msgspec.DecodeError as error:
        raise ValueError(f"it cannot be read: {error}") from None
    _check_version({"version": batch.version})
    return batch


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("version")
    if type(version) is not int or version > VERSION:
        raise ValueError(f"it is of version {version!r}; this release reads up to {VERSION}")
