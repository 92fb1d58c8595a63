# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Schemas of versioned objects: fields, versions, and the envelope in which Nova sends them."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Generic, TypeVar, cast

from inventory.objects.field_types import (
    MAX_ITEMS,
    FieldType,
    Malformed,
    list_of,
    mapping_of,
    shown,
)

NAME_KEY = "nova_object.name"
NAMESPACE_KEY = "nova_object.namespace"
VERSION_KEY = "nova_object.version"
DATA_KEY = "nova_object.data"
NAMESPACE = "nova"

T = TypeVar("T")
Fields = dict[str, Any]


def enveloped(name: str, version: str, data: Fields) -> Fields:
    """Return the primitive of an object, without the optional list of changed fields."""
    return {NAME_KEY: name, NAMESPACE_KEY: NAMESPACE, VERSION_KEY: version, DATA_KEY: data}


def unpacked(value: Any, name: str, major: str) -> Fields:
    """Return the data of an object of this class and major version, or a dict without envelope."""
    primitive = value if type(value) is dict else mapping_of(value)
    actual = primitive.get(NAME_KEY)
    if actual is None:
        return primitive
    if actual != name:
        raise Malformed(f"{shown(actual)} is not {name}")
    namespace = primitive.get(NAMESPACE_KEY)
    if namespace != NAMESPACE:
        raise Malformed(f"{name} is of namespace {shown(namespace)}, not {NAMESPACE}")
    version = primitive.get(VERSION_KEY)
    if not isinstance(version, str) or version.partition(".")[0] != major:
        raise Malformed(f"{name} is of version {shown(version)}, not {major}.x")
    data = primitive.get(DATA_KEY)
    return data if type(data) is dict else mapping_of(data)


def flattened(primitive: Any) -> Any:
    """Return the primitive without its envelopes, as legacy consumers know it."""
    if isinstance(primitive, list):
        return [flattened(item) for item in primitive]
    if not isinstance(primitive, dict):
        return primitive
    # Only objects have a dict there; a tenant's key of that name has text.
    data = primitive.get(DATA_KEY)
    fields_of = data if isinstance(data, dict) else primitive
    return {key: flattened(value) for key, value in fields_of.items()}


class ObjectSchema(Generic[T]):
    """Reads a primitive of any minor version, and writes it in one version.

    Unknown fields are ignored and null counts as unset. ``renamed`` maps wire names to ours and
    ``name`` is the class on the wire, where they differ. ``normalize`` may change the fields of an
    old release to those of today.
    """

    def __init__(
        self,
        made: type[T],
        version: str,
        kinds: Mapping[str, FieldType],
        *,
        name: str | None = None,
        renamed: Mapping[str, str] | None = None,
        normalize: Callable[[Fields], None] | None = None,
    ) -> None:
        self.name = name or made.__name__
        self._made = made
        self._version = version
        self._major = version.partition(".")[0]
        self._normalize = normalize
        ours = {name: (renamed or {}).get(name, name) for name in kinds}
        # Our own strings as keywords are faster than those from the wire.
        self._readers = {name: (ours[name], kind.read) for name, kind in kinds.items()}
        self._writers = [
            (name, ours[name], kind.write, kind.nullable) for name, kind in kinds.items()
        ]
        self._required = tuple(
            each.name
            for each in fields(cast(Any, made))
            if each.default is MISSING and each.default_factory is MISSING
        )
        self.kind = FieldType(self.read, self.write)

    def read(self, value: Any) -> T:
        """Return the value of the primitive; raises Malformed."""
        readers = self._readers
        found: Fields = {}
        for name, each in unpacked(value, self.name, self._major).items():
            if each is not None and name in readers:
                ours, read = readers[name]
                try:
                    found[ours] = read(each)
                except Malformed as wrong:
                    wrong.under(name)
                    raise
        if self._normalize is not None:
            self._normalize(found)
        for name in self._required:
            if name not in found:
                raise Malformed("is missing").under(name)
        return self._made(**found)

    def data(self, value: T) -> Fields:
        """Return the fields of the value on the wire, without the envelope."""
        data: Fields = {}
        for name, ours, write, nullable in self._writers:
            each = getattr(value, ours)
            if each is not None:
                data[name] = write(each)
            elif nullable:
                data[name] = None
        return data

    def write(self, value: T) -> Fields:
        """Return the primitive of the value."""
        return enveloped(self.name, self._version, self.data(value))


def object_list(name: str, version: str, item: FieldType, most: int = MAX_ITEMS) -> FieldType:
    """Return the type of Nova's list classes, which are objects with one field."""
    items = list_of(item, most)

    def read(value: Any) -> list[Any]:
        if isinstance(value, dict):
            value = unpacked(value, name, version.partition(".")[0]).get("objects") or ()
        return list(items.read(value))

    def write(values: list[Any]) -> Fields:
        return enveloped(name, version, {"objects": items.write(values)})

    return FieldType(read, write)


class FieldPresence:
    """``name in value`` and ``value.obj_attr_is_set(name)`` as on Nova's objects; None is unset."""

    __slots__ = ()

    def __contains__(self, name: str) -> bool:
        return getattr(self, name, None) is not None

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether the field has a value."""
        return name in self
