# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Values as MessagePack by the types of the fields that they are in, and back to the last bit.

msgspec writes a dataclass as an object of its fields, without a word on its type, and sets and
tuples as lists: who reads knows the types of the fields. What a type leaves open, and values of
types that nobody knows, is tagged JSON in an extension.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.msgpack import Encoder, Ext

from inventory.objects.pci_and_network import PciDevicePool
from inventory.pci_pools import PciPools
from scheduler.history.tagged_json import MAX_DEPTH, read_pools, tagged_text, value_of_text
from scheduler.objects.flavor_and_image import ImageMetaProps

# Types of extensions: tagged JSON, and the index of a value that is written once for many.
_TAGGED, _SHARED = 1, 2
# Elements of arrays of numbers.
_ELEMENTS = frozenset({"|b1", "|i1", "<i2", "<i4", "<i8", "<f8"})
_PLAIN = frozenset({NoneType, bool, int, float, str})
Read = Callable[[Any], Any]


class Shared:
    """Values that many others have in common, each written once as tagged JSON."""

    def __init__(self) -> None:
        self._index_of: dict[str, int] = {}
        # With the values, whose identities are looked at.
        self._known: dict[int, tuple[Ext, Any]] = {}

    @property
    def texts(self) -> list[str]:
        """The values by their index."""
        return [*self._index_of]

    def __call__(self, value: Any) -> Ext:
        """Return what is written in place of a value."""
        if id(value) not in self._known:
            text = tagged_text(value)
            index = self._index_of.setdefault(text, len(self._index_of))
            self._known[id(value)] = Ext(_SHARED, str(index).encode()), value
        return self._known[id(value)][0]


def tagged(value: Any) -> Ext:
    """Return a value with the types of all its parts."""
    return Ext(_TAGGED, tagged_text(value).encode())


def open_value(value: Any) -> Any:
    """Return a value of any type so that it is read as it is: JSON as itself, all else tagged."""
    return value if _is_json(value) else tagged(value)


def _is_json(value: Any, depth: int = 0) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if depth >= MAX_DEPTH:
        return False
    if kind is list:
        return all(map(_is_json, value, repeat(depth + 1)))
    return (
        kind is dict
        and {*map(type, value)} <= {str}
        and all(map(_is_json, value.values(), repeat(depth + 1)))
    )


def _write_other(value: Any) -> Any:
    """Return what stands for a value that msgspec does not write."""
    kind = type(value)
    if kind is ImageMetaProps:
        return {name: open_value(each) for name, each in value.items()}
    if kind is PciPools:
        return value.pools
    if kind is np.ndarray and value.dtype.kind in "biuf":
        return array_of(value)
    return tagged(value)


def array_of(values: npt.NDArray[Any]) -> dict[str, Any]:
    """Return an array as a column: see scheduler.history.snapshot_documents."""
    bits = values.view(f"u{values.itemsize}")
    if len(values) and (bits == bits[0]).all():
        return {"all": values[0].item()}
    if values.dtype.kind == "i" and len(values):
        # Of signed types: ~ of what is not negative needs as many bits with its sign.
        ends = (values.min().item(), ~values.max().item())
        values = values.astype(np.min_scalar_type(min(*ends, -1)))
    return {"type": values.dtype.newbyteorder("<").str, "data": values.tobytes()}


def read_array(column: Mapping[str, Any]) -> list[Any]:
    """Return the numbers of a column; raises ValueError."""
    kind, data = column.get("type"), column["data"]
    if kind not in _ELEMENTS or type(data) is not bytes:
        raise ValueError("a column has numbers of no type")
    found: list[Any] = np.frombuffer(data, kind).tolist()
    return found


# Raises UnicodeEncodeError, OverflowError and RecursionError for what only tagged JSON can say.
write: Callable[[Any], bytes] = Encoder(enc_hook=_write_other).encode


def read(kind: Any, data: bytes, shared: Sequence[Any] = ()) -> Any:
    """Return the value of a type; raises ValueError.

    Unknown fields are ignored and missing ones have their defaults, since another release may have
    written it. What a plug-in has put where the type says otherwise is as msgspec writes it.
    """
    try:
        found = msgspec.msgpack.decode(data, ext_hook=partial(_extension, shared))
        return found if (reader := reader_of(kind)) is None else reader(found)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except (msgspec.DecodeError, TypeError, LookupError) as error:
        raise ValueError(f"it cannot be read: {error}") from None


def _extension(shared: Sequence[Any], code: int, data: memoryview) -> Any:
    if code == _SHARED:
        return shared[int(bytes(data))]
    if code == _TAGGED:
        return value_of_text(bytes(data))
    raise ValueError(f"this release does not know the extension {code}")


@cache
def reader_of(kind: Any) -> Read | None:
    """Return what makes a value of a type of the one that msgspec has read, None for nothing.

    Values that are not of the form of the type stay as they are.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_reader(kind)
    if kind in _READERS:
        return _READERS[kind]
    parts = get_args(kind)
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        readers = [reader_of(part) for part in parts if part is not NoneType]
        return readers[0] if len(readers) == 1 else None
    if origin is tuple and parts[1:] != (...,):
        return partial(_read_list, tuple, None)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        each = reader_of(parts[1])
        return None if each is None else partial(_read_dict, each)
    if origin in (list, tuple, set, frozenset, Sequence):
        kind = list if origin is Sequence else origin
        each = reader_of(parts[0])
        return None if kind is list and each is None else partial(_read_list, kind, each)
    return None


def _read_list(kind: type[Any], each: Read | None, value: Any) -> Any:
    if type(value) is not list:
        return value
    try:
        return kind(value if each is None else map(each, value))
    # Something else in a set.
    except TypeError:
        return value


def _read_dict(each: Read, value: Any) -> Any:
    return {key: each(one) for key, one in value.items()} if type(value) is dict else value


def _dataclass_reader(kind: type[Any]) -> Read:
    hints = get_type_hints(kind)
    readers = {each.name: _field_reader(each, hints[each.name]) for each in fields(kind)}
    required = {
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    }

    def read_fields(value: Any) -> Any:
        if type(value) is not dict or not required <= value.keys():
            return value
        return kind(
            **{
                name: value[name] if reader is None else reader(value[name])
                for name, reader in readers.items()
                if name in value
            }
        )

    return read_fields


def _field_reader(field: Any, hint: Any) -> Read | None:
    if get_origin(hint) is Sequence and field.default == ():
        return partial(_read_list, tuple, reader_of(get_args(hint)[0]))
    return reader_of(hint)


def _read_pools(value: Any) -> Any:
    read_each = _dataclass_reader(PciDevicePool)
    return read_pools([*map(read_each, value)]) if type(value) is list else value


_READERS: dict[Any, Read] = {
    ImageMetaProps: lambda value: ImageMetaProps(value) if type(value) is dict else value,
    PciPools: _read_pools,
}
