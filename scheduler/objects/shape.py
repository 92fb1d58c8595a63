# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Shapes: the fields of one of Nova's object classes, and the value that we make of them."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Generic, TypeVar

from scheduler.objects.kinds import MOST_ITEMS, Kind, Malformed, list_of, mapping_of, shown

NAME_KEY = "nova_object.name"
NAMESPACE_KEY = "nova_object.namespace"
VERSION_KEY = "nova_object.version"
DATA_KEY = "nova_object.data"
NAMESPACE = "nova"

T = TypeVar("T")
Fields = dict[str, Any]


def enveloped(name: str, version: str, data: Fields) -> Fields:
    """Return the primitive of an object; the list of changed fields may be left out."""
    return {NAME_KEY: name, NAMESPACE_KEY: NAMESPACE, VERSION_KEY: version, DATA_KEY: data}


def unpacked(value: Any, name: str, major: str) -> Fields:
    """Return the data of an object of the given class and major version.

    A dict without an envelope is its own data: the flattened form of the legacy dictionaries.
    """
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
    # An object has a dict there; what a tenant may have named like that is text.
    data = primitive.get(DATA_KEY)
    fields_of = data if isinstance(data, dict) else primitive
    return {key: flattened(value) for key, value in fields_of.items()}


class Shape(Generic[T]):
    """Reads a primitive by the presence of its fields, and writes it in one version.

    Unknown fields are ignored, so that every minor version of the major is read; null counts as
    unset. ``renamed`` maps wire names to ours where they differ, ``name`` is the class on the wire
    if it differs from ours. ``settle`` may change the fields read, to turn what an old release
    meant into what is meant today.
    """

    def __init__(
        self,
        made: type[T],
        version: str,
        kinds: Mapping[str, Kind],
        *,
        name: str | None = None,
        renamed: Mapping[str, str] | None = None,
        settle: Callable[[Fields], None] | None = None,
    ) -> None:
        self.name = name or made.__name__
        self._made = made
        self._version = version
        self._major = version.partition(".")[0]
        self._settle = settle
        ours = {name: (renamed or {}).get(name, name) for name in kinds}
        # With our own strings as keywords: those from the wire would be compared one by one.
        self._readers = {name: (ours[name], kind.read) for name, kind in kinds.items()}
        self._writers = [
            (name, ours[name], kind.write, kind.nullable) for name, kind in kinds.items()
        ]
        self._required = _fields_without_default(made)
        self.kind = Kind(self.read, self.write)

    def read(self, value: Any) -> T:
        """Return the value that the primitive describes, or raise :class:`Malformed`."""
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
        if self._settle is not None:
            self._settle(found)
        for name in self._required:
            if name not in found:
                raise Malformed("is missing").under(name)
        return self._made(**found)

    def data(self, value: T) -> Fields:
        """Return the fields of the value as on the wire, without the envelope."""
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


def object_list(name: str, version: str, item: Kind, most: int = MOST_ITEMS) -> Kind:
    """Return the kind of Nova's list classes, which are objects with one field."""
    items = list_of(item, most)

    def read(value: Any) -> list[Any]:
        if isinstance(value, dict):
            value = unpacked(value, name, version.partition(".")[0]).get("objects") or ()
        return list(items.read(value))

    def write(values: list[Any]) -> Fields:
        return enveloped(name, version, {"objects": items.write(values)})

    return Kind(read, write)


def _fields_without_default(made: type) -> tuple[str, ...]:
    return tuple(
        each.name
        for each in fields(made)
        if each.default is MISSING and each.default_factory is MISSING
    )
