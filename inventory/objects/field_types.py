# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Types of fields in Nova's primitives, each with its reader and its writer.

A reader is tolerant where Nova's is (numbers may come as text or float) and raises Malformed for
everything else. It never recurses deeper than the schema.
"""

import json
import math
from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")
Items = TypeVar("Items", bound=Collection[Any])

MAX_ITEMS = 10_000
INT32 = 2**31 - 1
INT64 = 2**63 - 1

_WORDS = {
    **dict.fromkeys(("1", "t", "true", "on", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "off", "n", "no", ""), False),
}


class Malformed(ValueError):
    """An invalid value, with the path to it, which grows while the error propagates."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str | int] = []

    def under(self, *steps: str | int) -> "Malformed":
        """Prepend steps to the path."""
        self.path[:0] = steps
        return self

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        where = "".join(steps).removeprefix(".")
        return f"{where}: {self.problem}" if where else self.problem


@dataclass(frozen=True, slots=True)
class FieldType:
    """How a field is read and written; a nullable one is written as null, not left out."""

    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    nullable: bool = False


def shown(value: object) -> str:
    """Return an invalid value for a message: short, and without the contents of containers."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "...")
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else f"a {value.bit_length()}-bit number"
    return repr(value) if isinstance(value, float) else f"a {type(value).__name__}"


def read_under(step: str | int, read: Callable[..., T], *arguments: Any) -> T:
    """Return read(*arguments), or add the step to the path of its error."""
    try:
        return read(*arguments)
    except Malformed as wrong:
        wrong.under(step)
        raise


def unchanged(value: Any) -> Any:
    """Return a value that is JSON already."""
    return value


def _whole_number(value: object) -> int:
    """Parse what Nova's reader accepts as an integer, but not a bool."""
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return int(value)
        except (ValueError, OverflowError):
            pass
    raise Malformed(f"{shown(value)} is not a whole number")


def between(low: int, high: int) -> FieldType:
    """Return the type of whole numbers of a range, both ends included."""

    def read(value: Any) -> int:
        number = value if type(value) is int else _whole_number(value)
        if low <= number <= high:
            return number
        raise Malformed(f"{shown(number)} is not between {low} and {high}")

    return FieldType(read, unchanged)


def text_of(most: int, least: int = 0) -> FieldType:
    """Return the type of texts of a bounded length; a number is read as its digits."""

    def read(value: Any) -> str:
        if type(value) is str:
            if least <= len(value) <= most and (value.isascii() or _is_unicode(value)):
                return value
            raise Malformed(f"{shown(value)} is not text of {least} to {most} characters")
        if isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64):
            return str(value)
        raise Malformed(f"{shown(value)} is not text")

    return FieldType(read, unchanged)


def without_surrogates(text: str) -> str:
    """Return a text from outside with ? in place of what no database stores and no log shows."""
    return text.encode(errors="replace").decode()


def _is_unicode(value: str) -> bool:
    # JSON may have a lone surrogate, which fails later in a log, a database or a reply.
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ratio(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number):
        raise Malformed(f"{shown(value)} is not a finite number")
    return number


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    word = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if word is None and type(value) is int and value in (0, 1):
        word = bool(value)
    if word is None:
        raise Malformed(f"{shown(value)} is neither true nor false")
    return word


def _instance_uuid(value: Any) -> str:
    """Read the uuid of an instance as rows have it.

    Databases of Nova ignore letter case and blanks at the end, and take some letters for others:
    what they take for equal has to be equal here.
    """
    uuid: str = UUID.read(value)
    if not uuid.isascii() or not uuid.isprintable() or " " in uuid:
        raise Malformed(f"{shown(uuid)} is not a uuid")
    return uuid.lower()


COUNT = between(0, INT32)
INTEGER = between(-INT32 - 1, INT32)
SIZE = between(0, INT64)
RATIO = FieldType(_ratio, unchanged)
TRUTH = FieldType(_truth, unchanged)
TEXT = text_of(65_535)
NAME = text_of(255)
UUID = text_of(36, least=1)
INSTANCE_UUID = FieldType(_instance_uuid, unchanged)


def nullable(kind: FieldType) -> FieldType:
    """Return the type with null written for no value."""
    return replace(kind, nullable=True)


def is_list(value: object) -> bool:
    """Return whether the value is a JSON array, or a tuple or set in its place."""
    return isinstance(value, (list, tuple, Set))


def _bounded(items: Items, most: int) -> Items:
    if len(items) > most:
        raise Malformed(f"{len(items)} items are more than {most}")
    return items


def list_of(item: FieldType, most: int = MAX_ITEMS) -> FieldType:
    """Return the type of arrays whose items are all of one kind."""
    read_item = item.read

    def read(value: Any) -> list[Any]:
        if type(value) is not list and not is_list(value):
            raise Malformed(f"{shown(value)} is not a list")
        items = _bounded(value, most)
        found: list[Any] = []
        try:
            for each in items:
                found.append(read_item(each))  # noqa: PERF401  # lists are short: no map() to make
        except Malformed as wrong:
            wrong.under(len(found))
            raise
        return found

    return FieldType(read, lambda values: list(map(item.write, values)))


def set_of(item: FieldType) -> FieldType:
    """Return the type of arrays whose order means nothing."""
    listed = list_of(item)
    return FieldType(lambda value: set(listed.read(value)), sorted)


def map_of(item: FieldType, key: FieldType = NAME, most: int = MAX_ITEMS) -> FieldType:
    """Return the type of JSON objects used as a mapping."""
    read_key, read_item = key.read, item.read

    def read(value: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for name, each in _bounded(mapping_of(value), most).items():
            try:
                found[read_key(name)] = read_item(each)
            except Malformed as wrong:
                wrong.under(name if isinstance(name, str) and len(name) < 64 else shown(name))
                raise
        return found

    return FieldType(read, lambda values: {str(k): item.write(v) for k, v in values.items()})


def mapping_of(value: Any) -> dict[Any, Any]:
    """Return the value if it is a JSON object; raises Malformed."""
    if isinstance(value, dict):
        return value
    raise Malformed(f"{shown(value)} is not an object")


def or_none(item: FieldType) -> FieldType:
    """Return the type that has null as a value, too, such as an item of a list."""
    return FieldType(
        lambda value: None if value is None else item.read(value),
        lambda value: None if value is None else item.write(value),
        nullable=True,
    )


def from_json(text: str) -> Any:
    """Parse JSON text inside another document; raises Malformed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed(f"{shown(text)} is not a JSON document") from None


def document(kind: FieldType) -> FieldType:
    """Return the type of a value that may also come as JSON text, null included."""

    def read(value: Any) -> Any:
        found = from_json(value) if isinstance(value, str) else value
        return None if found is None else kind.read(found)

    return replace(kind, read=read)


def typed(kind: FieldType, names: str) -> dict[str, FieldType]:
    """Return the fields of these names, separated by spaces, that are all of this kind."""
    return dict.fromkeys(names.split(), kind)
