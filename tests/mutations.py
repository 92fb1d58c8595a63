# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Captured messages, damaged in every way that a caller or an attacker can think of."""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.unit.scheduler.wire.strategies import json_values

Path = tuple[str | int, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]
# For tests whose examples take a while each, and are large.
MUTATING = settings(suppress_health_check=list(HealthCheck))

# What a test puts its own ids in the place of.
MESSAGE_ID, UNIQUE_ID, REPLY_QUEUE = "@message-id@", "@unique-id@", "@reply-queue@"
_IDS = {"_msg_id": MESSAGE_ID, "_unique_id": UNIQUE_ID, "_reply_q": REPLY_QUEUE}
_ENVELOPE_VERSIONS = ["1.0", "2.1", "3.0", "x", "", 2, 2.0, None, [], {}]
# Names that mean something to somebody on the way, of the message, of objects and of Python.
_NAMES = [
    *_IDS,
    *("_timeout", "method", "args", "version", "namespace", "oslo.version", "oslo.message"),
    *("_context_request_id", "_context_self", "_context_values", "_context_berthmaster.deadline"),
    *("spec_obj", "instance_uuids", "request_spec", "filter_properties", "self", "context"),
    *("nova_object.name", "nova_object.data", "nova_object.version", "nova_object.namespace"),
    *("__class__", "", "\ud800", "x" * 300),
]


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


hostile_values = st.one_of(
    json_values,
    st.sampled_from([2**31, 2**63, -(2**63) - 1, 10**400, -1, 0, 1e308, float("nan")]),
    st.sampled_from([float("inf"), float("-inf"), "\ud800", "a\udfffb", "\x00", "x" * 70_000]),
    st.sampled_from([*_NAMES, "4.5", "4.6", "1.0", "baseapi", "ping", "scheduler", "null", "[]"]),
    st.integers(1, 150).map(_nested),
)


def paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the way to every node of a JSON document."""
    children: Any = ()
    if isinstance(node, dict):
        children = node.items()
    elif isinstance(node, list):
        children = enumerate(node)
    yield path
    for step, child in children:
        yield from paths(child, (*path, step))


def _at(document: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        document = document[step]
    return document


@st.composite
def mutated(draw: Draw, documents: Sequence[Any]) -> Any:
    """Draw a document with one node replaced by any JSON."""
    document = {"": deepcopy(draw(st.sampled_from(documents)))}
    *way, last = draw(st.sampled_from([path for path in paths(document) if path]))
    _at(document, way)[last] = draw(json_values)
    return document[""]


@st.composite
def hostile_messages(draw: Draw, messages: Sequence[dict[str, Any]]) -> Any:
    """Draw a message with some nodes replaced, gone, twice there or under another name."""
    whole = draw(st.sampled_from(messages))
    document = {"": deepcopy(whole | {name: _IDS[name] for name in _IDS.keys() & whole.keys()})}
    for _ in range(draw(st.integers(1, 3))):
        _change(draw, document)
    return document.get("")


def _change(draw: Draw, document: dict[str, Any]) -> None:
    if not isinstance(document.get(""), dict) or not document[""]:
        return
    # Every other time near the top, where there is less than below.
    depth = draw(st.sampled_from([2, 3, 100]))
    found = [path for path in paths(document) if 1 < len(path) <= depth]
    *way, last = draw(st.sampled_from(found))
    place = _at(document, way)
    kind = draw(st.sampled_from(["replace", "replace", "delete", "add", "rename", "twice"]))
    if kind == "replace":
        place[last] = draw(hostile_values)
    elif kind == "delete":
        del place[last]
    elif isinstance(place, list):
        place.append(draw(hostile_values) if kind == "add" else deepcopy(place[last]))
    elif kind == "add":
        place[draw(st.sampled_from(_NAMES))] = draw(hostile_values)
    else:
        other = place[last] if kind == "twice" else place.pop(last)
        place[draw(st.sampled_from(_NAMES))] = deepcopy(other)


@st.composite
def hostile_bodies(draw: Draw, messages: Sequence[dict[str, Any]]) -> bytes:
    """Draw a body: a message as above in its envelope, or one that is damaged beyond that."""
    text = json.dumps(draw(hostile_messages(messages)))
    damage = draw(st.sampled_from([None, None, None, *_DAMAGES]))
    if damage is None:
        return _wrapped(text)
    return damage(draw, text)


def _wrapped(text: str, version: Any = "2.0") -> bytes:
    return json.dumps({"oslo.version": version, "oslo.message": text}).encode()


def _of_other_version(draw: Draw, text: str) -> bytes:
    return _wrapped(text, draw(st.sampled_from(_ENVELOPE_VERSIONS)))


def _without_envelope(_draw: Draw, text: str) -> bytes:
    return text.encode()


def _half_an_envelope(draw: Draw, text: str) -> bytes:
    name = draw(st.sampled_from(["oslo.version", "oslo.message"]))
    return json.dumps({name: "2.0" if name == "oslo.version" else text}).encode()


def _message_is_no_text(draw: Draw, text: str) -> bytes:
    message = draw(st.sampled_from([json.loads(text), None, 7, [], {}, [text]]))
    return json.dumps({"oslo.version": "2.0", "oslo.message": message}).encode()


def _with_keys_twice(draw: Draw, text: str) -> bytes:
    name = draw(st.sampled_from(_NAMES))
    first = json.dumps({name: draw(hostile_values)})
    return _wrapped(f"{first[:-1]}, {text[1:]}" if text.startswith("{") else first)


def _cut(draw: Draw, text: str) -> bytes:
    body = _wrapped(text)
    return body[: draw(st.integers(0, len(body) - 1))]


def _cut_inside(draw: Draw, text: str) -> bytes:
    return _wrapped(text[: draw(st.integers(0, len(text)))])


def _with_other_bytes(draw: Draw, text: str) -> bytes:
    body = bytearray(_wrapped(text))
    position = draw(st.integers(0, len(body) - 1))
    body[position : position + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(body)


def _too_deep(draw: Draw, text: str) -> bytes:
    depth = draw(st.sampled_from([2_000, 200_000]))
    deep = "[" * depth + "]" * depth
    return _wrapped(f'{{"_context_deep": {deep}, {text[1:]}' if text.startswith("{") else deep)


def _digits(draw: Draw, text: str) -> bytes:
    number = "9" * draw(st.sampled_from([400, 5_000, 100_000]))
    return _wrapped(f'{{"_timeout": {number}, {text[1:]}' if text.startswith("{") else number)


_DAMAGES = [
    _of_other_version,
    _without_envelope,
    _half_an_envelope,
    _message_is_no_text,
    _with_keys_twice,
    _cut,
    _cut_inside,
    _with_other_bytes,
    _too_deep,
    _digits,
]
