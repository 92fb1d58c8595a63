# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The values of the arguments of a JsonFilter query on each host: truths, numbers and texts.

Source: behaviour reference 1.9. A truth is 1 for true, -1 for false and 0 for unknown, as is a
value that a host lacks. So 'and' is the smallest truth, 'or' the largest and 'not' the negative.
Results have one element for each row, or a single one for all rows.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.hosts.columns import NUMBERS, OBJECTS, Mask
from scheduler.hosts.row_index import EVERY
from scheduler.hosts.table import HostTable

Truths = npt.NDArray[np.int8]
Numbers = npt.NDArray[np.float64]
Texts = npt.NDArray[np.object_]

TRUE: Truths = np.array(1, np.int8)
UNKNOWN: Truths = np.array(0, np.int8)
FALSE: Truths = np.array(-1, np.int8)
NO_HOST: Mask = np.array(False)

# Nova's mapping of a service: columns of the table, and constants.
_SERVICE_COLUMNS = {
    "host": "host",
    "disabled": "service_disabled",
    "disabled_reason": "disabled_reason",
    "forced_down": "forced_down",
    "heartbeat_age": "heartbeat_age",
}
_SERVICE = {"binary": "nova-compute", "topic": "compute"}


class Argument:
    """One argument of a query; this base class is unknown on every host.

    source is the JSON value, text that of a literal text.
    """

    text: str | None = None

    def __init__(self, source: Any) -> None:
        self.source = source

    def truths(self, hosts: HostTable) -> Truths:
        """Return its truth."""
        return UNKNOWN

    def numbers(self, hosts: HostTable) -> Numbers | None:
        """Return its numbers, NaN where it is no number; None where it never is."""
        return None

    def texts(self, hosts: HostTable) -> Texts | None:
        """Return its texts, anything where it is no text; None where it never is."""
        return None

    def where_text(
        self, hosts: HostTable, key: Sequence[str], holds: Callable[[str], bool]
    ) -> Mask:
        """Return where it is a text for which holds() is true; key stands for holds in memos."""
        return NO_HOST

    def value(self, hosts: HostTable, row: int) -> Any:
        """Return its value on one host, None for unknown."""
        return None

    def variables(self) -> Iterator["Argument"]:
        """Yield its variables, in their order."""
        if isinstance(self.source, str) and self.source.startswith("$"):
            yield self


class Literal(Argument):
    """A constant."""

    def __init__(self, source: Any, value: Any) -> None:
        super().__init__(source)
        self._value = value
        self.text = value if isinstance(value, str) else None

    def truths(self, hosts: HostTable) -> Truths:
        return np.array(_truth(self._value), np.int8)

    def numbers(self, hosts: HostTable) -> Numbers | None:
        return np.array(_number(self._value)) if isinstance(self._value, (int, float)) else None

    def where_text(
        self, hosts: HostTable, key: Sequence[str], holds: Callable[[str], bool]
    ) -> Mask:
        return np.array(self.text is not None and holds(self.text))

    def value(self, hosts: HostTable, row: int) -> Any:
        return self._value


class Number(Argument):
    """A column of numbers or flags."""

    def __init__(self, source: str, column: str) -> None:
        super().__init__(source)
        self._column = column

    def truths(self, hosts: HostTable) -> Truths:
        numbers = self.numbers(hosts)
        return np.where(np.isnan(numbers), UNKNOWN, from_mask(numbers != 0))

    def numbers(self, hosts: HostTable) -> Numbers:
        column: npt.NDArray[Any] = getattr(hosts, self._column)
        return column.astype(np.float64)

    def value(self, hosts: HostTable, row: int) -> Any:
        return hosts.get(row, self._column)


class Item(Argument):
    """The item of a column of objects under a path of keys; memoized for each distinct object."""

    def __init__(self, source: str, column: str, path: Sequence[str]) -> None:
        super().__init__(source)
        self._column = column
        self._path = tuple(path)

    def truths(self, hosts: HostTable) -> Truths:
        return self._memo(hosts, ["truth"], _truth, np.int8)

    def numbers(self, hosts: HostTable) -> Numbers:
        return self._memo(hosts, ["number"], _number, np.float64)

    def texts(self, hosts: HostTable) -> Texts:
        return self._memo(hosts, ["text"], _text, np.object_)

    def where_text(
        self, hosts: HostTable, key: Sequence[str], holds: Callable[[str], bool]
    ) -> Mask:
        def is_met(found: Any) -> bool:
            return isinstance(found, str) and holds(found)

        return self._memo(hosts, ["where", *key], is_met, np.bool_)

    def value(self, hosts: HostTable, row: int) -> Any:
        return _found(hosts.get(row, self._column), self._path)

    def _memo(
        self, hosts: HostTable, key: Sequence[str], function: Callable[[Any], Any], dtype: type
    ) -> npt.NDArray[Any]:
        path = self._path
        answer = (lambda value: function(_found(value, path))) if path else function
        # A digest, since the table holds many of them and tenants may write long texts.
        digest = hashlib.sha256(ascii((key, path)).encode()).digest()
        return hosts.memo(self._column, ("query", digest), answer, dtype)


class InstanceArgument(Argument):
    """The instances of a host, or the one with a uuid."""

    def __init__(self, source: str, uuid: str | None) -> None:
        super().__init__(source)
        self._uuid = uuid

    def truths(self, hosts: HostTable) -> Truths:
        if self._uuid is None:
            return from_mask(hosts.instances.count(EVERY, hosts.size) > 0)
        truths = np.zeros(hosts.size, np.int8)
        truths[list(hosts.instances.rows_of(self._uuid))] = TRUE
        return truths

    def value(self, hosts: HostTable, row: int) -> Any:
        here = hosts.instances.on(row)
        return len(here) if self._uuid is None else self._uuid in here or None


def variable(source: str) -> Argument:
    """Return the variable of a text such as '$free_ram_mb' or '$stats.num_instances'.

    Limits are unknown: other filters set them, whose order must not change the result.
    """
    first, *rest = source[1:].split(".")
    if first == "service" and rest and rest[0] in _SERVICE_COLUMNS:
        first, *rest = _SERVICE_COLUMNS[rest[0]], *rest[1:]
    if first in OBJECTS:
        return Item(source, first, rest)
    if first in NUMBERS and not rest:
        return Number(source, first)
    if first == "instances" and len(rest) < 2:
        return InstanceArgument(source, rest[0] if rest else None)
    if first == "service":
        return Literal(source, _found(_SERVICE, rest))
    return Argument(source)


def from_mask(mask: Mask) -> Truths:
    return np.asarray(mask).astype(np.int8) * np.int8(2) - np.int8(1)


def _found(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        # isinstance() of a dict is fast; that of Mapping is slow for ten thousand values.
        if not isinstance(value, (dict, Mapping)):
            return None
        value = value.get(key)
    return value


def _truth(value: Any) -> int:
    if value is None or value != value:
        return 0
    return 1 if value else -1


def _number(value: Any) -> float:
    """Return a number or flag as a float, NaN for everything else, texts included."""
    if not isinstance(value, (int, float)):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
