# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What requests, decisions and tables are made of, as JSON can hold it, and back to the very bit.

Texts, numbers, null, lists and objects stand for themselves. All else is an object of one name that
begins with "=": the kind of the value, such as {"=set": [1, 2]} or {"=Flavor": {"vcpus": 1, ...}}.
Fields that hold None, and do so by default, are left out.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import numpy as np

from inventory.pci_pools import PciPools
from scheduler import objects
from scheduler.decision import outcome
from scheduler.decision.limits import GroupLimit
from scheduler.decision.pipeline import Request
from scheduler.objects import Aggregate, ImageMetaProps, PciDevicePool
from scheduler.rpc.context import RequestContext

# How deep values are nested at most, and their documents, in which a level takes up to three.
MOST_DEPTH = 64
_MOST_LEVELS = 3 * MOST_DEPTH + 8
# Longer numbers cannot be read back.
_MOST_BITS = 14_000
_MARK = "="
_SHARED = "=shared"
_ITSELF = frozenset({type(None), bool, str})
# Returns the place of a value among those that are written once for all.
Share = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for a value of a class that is none of ours, or that is nested too deep."""

    kind: str


def to_plain(value: Any, share: Share | None = None) -> Any:
    """Return a document of a value; what it does not know becomes Unknown.

    With share aggregates are written as what it returns; see from_plain().
    """
    return _plain(value, 0, share)


def from_plain(document: Any, shared: Sequence[Any] = ()) -> Any:
    """Return the value of a document, with those that were shared in their places.

    Raises ValueError for what is no such document. Fields that are not known here are passed over,
    and those that are missing are what they are by default: another release may have written it.
    """
    try:
        return _value(document, 0, shared)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are the same to the very bit; a NaN is the same as another."""
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    return json.dumps(to_plain(value), sort_keys=True)


def _plain(value: Any, depth: int, share: Share | None) -> Any:
    kind = type(value)
    if kind in _ITSELF:
        return value
    if kind is int:
        return value if value.bit_length() <= _MOST_BITS else _unknown(value)
    if kind is float:
        return value if math.isfinite(value) else {"=float": repr(value)}
    if depth >= MOST_DEPTH:
        return _unknown(value)
    if kind is Aggregate and share is not None:
        return {_SHARED: share(value)}
    write = _WRITERS.get(kind)
    return _kindred(value, depth, share) if write is None else write(value, depth + 1, share)


def _unknown(value: Any) -> Any:
    kind = type(value)
    return {"=Unknown": {"kind": f"{kind.__module__}.{kind.__qualname__}"}}


def _kindred(value: Any, depth: int, share: Share | None) -> Any:
    """Return the document of what inherits from a plain kind, or is a number of numpy."""
    if isinstance(value, np.generic):
        item = value.item()
        return _unknown(value) if isinstance(item, np.generic) else _plain(item, depth + 1, share)
    for kind, plain in _KINDS.items():
        if isinstance(value, kind):
            return _plain(plain(value), depth + 1, share)
    return _unknown(value)


def _write_list(value: Sequence[Any], depth: int, share: Share | None) -> Any:
    return [_plain(each, depth, share) for each in value]


def _write_dict(value: Mapping[Any, Any], depth: int, share: Share | None) -> Any:
    names = [*value]
    if all(type(name) is str for name in names) and not (
        len(names) == 1 and names[0].startswith(_MARK)
    ):
        return {name: _plain(each, depth, share) for name, each in value.items()}
    return {
        "=dict": [
            [_plain(name, depth, share), _plain(each, depth, share)] for name, each in value.items()
        ]
    }


def _writer_as(kind: str, inside: Callable[[Any], Any] = list) -> Callable[..., Any]:
    """Return a writer of values that are known by what is inside of them."""

    def write(value: Any, depth: int, share: Share | None) -> Any:
        return {_MARK + kind: _plain(inside(value), depth - 1, share)}

    return write


def _in_order(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda each: (type(each).__name__, repr(each)))


def _writer_of(kind: type[Any]) -> Callable[..., Any]:
    """Return a writer of a dataclass."""
    names = [(each.name, each.default is None) for each in fields(kind)]
    values_of = attrgetter(*(name for name, _ in names), "__class__")
    mark = _MARK + kind.__name__

    def write(value: Any, depth: int, share: Share | None) -> Any:
        return {
            mark: {
                name: each if type(each) in _ITSELF else _plain(each, depth, share)
                for (name, left_out), each in zip(names, values_of(value), strict=False)
                if each is not None or not left_out
            }
        }

    return write


def _value(document: Any, depth: int, shared: Sequence[Any]) -> Any:
    kind = type(document)
    if kind in _ITSELF or kind is int or kind is float:
        return document
    if depth > _MOST_LEVELS:
        raise ValueError("it is nested too deep")
    if kind is list:
        return [_value(each, depth + 1, shared) for each in document]
    if kind is not dict:
        raise ValueError(f"{kind.__name__} is nothing that JSON holds")
    if len(document) == 1:
        (name,) = document
        if isinstance(name, str) and name.startswith(_MARK):
            return _marked(name, document[name], depth + 1, shared)
    return {name: _value(each, depth + 1, shared) for name, each in document.items()}


def _marked(mark: str, content: Any, depth: int, shared: Sequence[Any]) -> Any:
    """Return a value by the kind that it is marked with."""
    if mark == _SHARED:
        if type(content) is int and 0 <= content < len(shared):
            return shared[content]
        raise ValueError(f"no shared value has place {content!r}")
    if mark in _CLASSES:
        return _made(_CLASSES[mark], content, depth + 1, shared)
    if mark not in _READERS:
        raise ValueError(f"{mark[1:]!r} is no kind of value that this release knows")
    try:
        return _READERS[mark](_value(content, depth, shared))
    except (TypeError, OverflowError):
        raise ValueError(f"what is marked as {mark[1:]} is none") from None


def _made(kind: type[Any], content: Any, depth: int, shared: Sequence[Any]) -> Any:
    if type(content) is not dict:
        raise ValueError(f"the fields of {kind.__name__} are missing")
    known, required = _FIELDS[kind]
    if not required <= content.keys():
        raise ValueError(f"{kind.__name__} lacks {', '.join(sorted(required - content.keys()))}")
    return kind(
        **{name: _value(each, depth, shared) for name, each in content.items() if name in known}
    )


def _read_float(content: Any) -> float:
    if content not in ("nan", "inf", "-inf"):
        raise ValueError(f"{content!r} is no such number")
    return float(content)


def _items(content: Any) -> list[Any]:
    if type(content) is not list:
        raise ValueError("it is no list")
    return content


def _read_pools(content: Any) -> PciPools:
    for each in _items(content):
        if not isinstance(each, PciDevicePool) or type(each.count) is not int:
            raise ValueError("it is no list of device pools")
    return PciPools(content)


def _read_properties(content: Any) -> ImageMetaProps:
    if type(content) is not dict:
        raise ValueError("image properties are missing")
    return ImageMetaProps(content)


_DATACLASSES: tuple[type[Any], ...] = (
    *(getattr(objects, name) for name in objects.__all__ if name != "ImageMetaProps"),
    outcome.Candidate,
    outcome.Decision,
    outcome.Placement,
    outcome.Shortage,
    outcome.Step,
    outcome.Taken,
    outcome.WeighedHost,
    GroupLimit,
    Request,
    RequestContext,
    Unknown,
)
_CLASSES = {_MARK + kind.__name__: kind for kind in _DATACLASSES}
_FIELDS = {
    kind: (
        frozenset(each.name for each in fields(kind)),
        frozenset(
            each.name
            for each in fields(kind)
            if each.default is MISSING and each.default_factory is MISSING
        ),
    )
    for kind in _DATACLASSES
}
_WRITERS: dict[type[Any], Callable[..., Any]] = {
    list: _write_list,
    dict: _write_dict,
    tuple: _writer_as("tuple"),
    set: _writer_as("set", _in_order),
    frozenset: _writer_as("frozenset", _in_order),
    datetime: _writer_as("datetime", datetime.isoformat),
    ImageMetaProps: _writer_as("ImageMetaProps", lambda value: dict(value.items())),
    PciPools: _writer_as("PciPools"),
    **{kind: _writer_of(kind) for kind in _DATACLASSES},
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "=float": _read_float,
    "=dict": lambda content: dict(_items(content)),
    "=tuple": lambda content: tuple(_items(content)),
    "=set": lambda content: set(_items(content)),
    "=frozenset": lambda content: frozenset(_items(content)),
    "=datetime": datetime.fromisoformat,
    "=ImageMetaProps": _read_properties,
    "=PciPools": _read_pools,
}
# What is a kind of these is written as they are.
_KINDS: dict[type[Any], Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    list: list.copy,
    dict: dict.copy,
    tuple: lambda value: tuple(tuple.__iter__(value)),
}
