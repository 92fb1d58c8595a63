# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The values of requests, decisions and tables as JSON, and back to the last bit.

Texts, numbers, null, lists and objects stand for themselves. All else is an object with one name,
the tag of the type, such as {"=set": [1, 2]} or {"=Flavor": {"vcpus": 1, ...}}. Fields that hold
None by default are left out.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

import numpy as np

from inventory.objects import aggregate, instance_group, numa, pci_and_network
from inventory.objects.aggregate import Aggregate
from inventory.objects.pci_and_network import PciDevicePool
from inventory.objects.reserved_place import ReservedPlace
from inventory.objects.standby import OwnStandby, Protection
from inventory.objects.standby_sums import NodeSums
from inventory.pci_pools import PciPools
from scheduler.decision import types
from scheduler.decision.pipeline import Request
from scheduler.hosts.flavor_mix import FlavorShare
from scheduler.hosts.host_state import Candidate, Consumption
from scheduler.hosts.limits import GroupLimit
from scheduler.objects import flavor_and_image, instance, request_spec, selection
from scheduler.objects.flavor_and_image import ImageMetaProps
from scheduler.wire.context import RequestContext

# Of nested values, and of their documents, in which a value takes up to three levels.
MAX_DEPTH = 64
_MAX_LEVELS = 3 * MAX_DEPTH + 8
# Longer numbers cannot be read back.
_MAX_BITS = 14_000
_TAG = "="
_SHARED = "=shared"
_UNCHANGED = frozenset({type(None), bool, str})
# Returns the index of a value among those that are written once for all.
Share = Callable[[Any], int]
json_text: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for a value of an unknown type, or one that is nested too deep."""

    kind: str


def encode(value: Any, share: Share | None = None) -> Any:
    """Return a value as JSON; what has no tag becomes Unknown.

    With share aggregates are written as the index that it returns; see decode().
    """
    return _encode(value, 0, share)


def decode(document: Any, shared: Sequence[Any] = ()) -> Any:
    """Return the value of a document, in which shared has the shared values by index.

    Raises ValueError. Unknown fields are ignored and missing ones have their defaults, since
    another release may have written it.
    """
    try:
        return _decode(document, 0, shared)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def tagged_text(value: Any) -> str:
    """Return a value as text, which has no character beyond ASCII."""
    return json_text(encode(value))


def value_of_text(text: str | bytes) -> Any:
    """Return the value of a text; raises ValueError."""
    try:
        return decode(json.loads(text))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def identical(one: Any, other: Any) -> bool:
    """Return whether two values are the same to the last bit; a NaN is the same as another."""
    first, second = (json.dumps(encode(each), sort_keys=True) for each in (one, other))
    return first == second


def has_type(value: Any, kind: type[Any]) -> bool:
    """Return whether a decoded value has a type; JSON may have a float as a whole number."""
    return type(value) is kind or (kind is float and type(value) is int)


def _encode(value: Any, depth: int, share: Share | None) -> Any:
    kind = type(value)
    if kind in _UNCHANGED:
        return value
    if kind is int:
        return value if value.bit_length() <= _MAX_BITS else _unknown(value)
    if kind is float:
        return value if math.isfinite(value) else {"=float": repr(value)}
    if depth >= MAX_DEPTH:
        return _unknown(value)
    if kind is Aggregate and share is not None:
        return {_SHARED: share(value)}
    if write := _WRITERS.get(kind):
        return write(value, depth + 1, share)
    return _encode_subclass(value, depth, share)


def _unknown(value: Any) -> Any:
    kind = type(value)
    return {"=Unknown": {"kind": f"{kind.__module__}.{kind.__qualname__}"}}


def _encode_subclass(value: Any, depth: int, share: Share | None) -> Any:
    """Encode a value of a subclass of a known type, or a number of numpy."""
    if isinstance(value, np.generic):
        item = value.item()
        return _unknown(value) if isinstance(item, np.generic) else _encode(item, depth + 1, share)
    for kind, convert in _BASES.items():
        if isinstance(value, kind):
            return _encode(convert(value), depth + 1, share)
    return _unknown(value)


def _write_list(value: Sequence[Any], depth: int, share: Share | None) -> Any:
    return [_encode(each, depth, share) for each in value]


def _write_dict(value: Mapping[Any, Any], depth: int, share: Share | None) -> Any:
    names = [*value]
    if all(type(name) is str for name in names) and not (
        len(names) == 1 and names[0].startswith(_TAG)
    ):
        return {name: _encode(each, depth, share) for name, each in value.items()}
    return {"=dict": [[_encode(each, depth, share) for each in pair] for pair in value.items()]}


def _tagged(kind: str, content: Callable[[Any], Any] = list) -> Callable[..., Any]:
    """Return a writer of values as their content with a tag."""

    def write(value: Any, depth: int, share: Share | None) -> Any:
        return {_TAG + kind: _encode(content(value), depth - 1, share)}

    return write


def _sorted(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda each: (type(each).__name__, repr(each)))


def _dataclass_writer(tag: str, kind: type[Any]) -> Callable[..., Any]:
    names = [(each.name, each.default is None) for each in fields(kind)]
    values_of = attrgetter(*(name for name, _ in names), "__class__")

    def write(value: Any, depth: int, share: Share | None) -> Any:
        return {
            tag: {
                name: each if type(each) in _UNCHANGED else _encode(each, depth, share)
                for (name, left_out), each in zip(names, values_of(value), strict=False)
                if each is not None or not left_out
            }
        }

    return write


def _decode(document: Any, depth: int, shared: Sequence[Any]) -> Any:
    kind = type(document)
    if kind in _UNCHANGED or kind is int or kind is float:
        return document
    if depth > _MAX_LEVELS:
        raise ValueError("it is nested too deep")
    if kind is list:
        return [_decode(each, depth + 1, shared) for each in document]
    if kind is not dict:
        raise ValueError(f"JSON has no {kind.__name__}")
    if len(document) == 1:
        (name,) = document
        if isinstance(name, str) and name.startswith(_TAG):
            return _decode_tagged(name, document[name], depth + 1, shared)
    return {name: _decode(each, depth + 1, shared) for name, each in document.items()}


def _decode_tagged(tag: str, content: Any, depth: int, shared: Sequence[Any]) -> Any:
    if tag == _SHARED:
        if type(content) is int and 0 <= content < len(shared):
            return shared[content]
        raise ValueError(f"no shared value has index {content!r}")
    if kind := _CLASSES.get(tag) or _CLASSES_OF_1.get(tag):
        return _decode_dataclass(kind, content, depth + 1, shared)
    if tag not in _READERS:
        raise ValueError(f"{tag[1:]!r} is not a type that this release knows")
    written_as, read = _READERS[tag]
    decoded = _decode(content, depth, shared)
    if type(decoded) is not written_as:
        raise ValueError(f"the content of {tag[1:]} is not of type {written_as.__name__}")
    try:
        return read(decoded)
    except (TypeError, OverflowError):
        raise ValueError(f"the content of {tag[1:]} cannot be used") from None


def _decode_dataclass(kind: type[Any], content: Any, depth: int, shared: Sequence[Any]) -> Any:
    if type(content) is not dict:
        raise ValueError(f"the fields of {kind.__name__} are missing")
    known = [name for name in content if name in kind.__dataclass_fields__]
    values = {name: _decode(content[name], depth, shared) for name in known}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _read_float(content: str) -> float:
    if content not in ("nan", "inf", "-inf"):
        raise ValueError(f"{content!r} is not a special number")
    return float(content)


def read_pools(content: list[Any]) -> PciPools:
    """Return the pools of a list; raises ValueError for something else in it."""
    if not all(
        isinstance(each, PciDevicePool)
        and type(each.count) is int
        and type(each.total) in {int, type(None)}
        for each in content
    ):
        raise ValueError("a device pool has another type")
    return PciPools(content)


# The dataclasses that requests, answers and tables are made of.
_VOCABULARY: list[type[Any]] = [
    each
    for module in (
        *(aggregate, instance_group, numa, pci_and_network),
        *(flavor_and_image, instance, request_spec, selection),
    )
    for each in vars(module).values()
    if isinstance(each, type) and is_dataclass(each)
]
_CLASSES: dict[str, type[Any]] = {
    _TAG + kind.__name__: kind
    for kind in (
        *_VOCABULARY,
        *(types.Decision, types.Placement, types.PlacementFailure, types.Step, types.WeighedHost),
        *(types.PlannedStandby, types.OtherStandby, types.MovedStandby, OwnStandby, Protection),
        *(Candidate, Consumption, FlavorShare, GroupLimit, Request, RequestContext, Unknown),
        ReservedPlace,
    )
}
# By other tags of version 1 of the documents.
_CLASSES_OF_1: dict[str, type[Any]] = {"=Taken": Consumption, "=Shortage": types.PlacementFailure}
_WRITERS: dict[type[Any], Callable[..., Any]] = {
    list: _write_list,
    dict: _write_dict,
    tuple: _tagged("tuple"),
    set: _tagged("set", _sorted),
    frozenset: _tagged("frozenset", _sorted),
    datetime: _tagged("datetime", datetime.isoformat),
    ImageMetaProps: _tagged("ImageMetaProps", lambda value: dict(value.items())),
    PciPools: _tagged("PciPools"),
    NodeSums: _tagged("NodeSums", lambda value: value.text),
    **{kind: _dataclass_writer(tag, kind) for tag, kind in _CLASSES.items()},
}
# By tag: the type of the content, and what makes the value of it.
_READERS: dict[str, tuple[type[Any], Callable[[Any], Any]]] = {
    "=float": (str, _read_float),
    "=dict": (list, dict),
    "=tuple": (list, tuple),
    "=set": (list, set),
    "=frozenset": (list, frozenset),
    "=datetime": (str, datetime.fromisoformat),
    "=ImageMetaProps": (dict, ImageMetaProps),
    "=PciPools": (list, read_pools),
    "=NodeSums": (str, NodeSums.of_text),
}
# Values of subclasses are written as these.
_BASES: dict[type[Any], Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    list: list.copy,
    dict: dict.copy,
    tuple: lambda value: tuple(tuple.__iter__(value)),
}
