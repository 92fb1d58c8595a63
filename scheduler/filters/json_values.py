# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the arguments of a JsonFilter query are on each host: truths, numbers and texts.

Source: behaviour reference 1.9. A truth is 1 for true, -1 for false and 0 for unknown, which is
what a value is that a host does not have. So 'and' is the smallest truth, 'or' the largest and
'not' the opposite. Results have one element for each row, or a single one that stands for all.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.decision.columns import NUMBERS, OBJECTS
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.residents import EVERY

Truths = npt.NDArray[np.int8]
Figures = npt.NDArray[np.float64]
Texts = npt.NDArray[np.object_]

TRUE: Truths = np.array(1, np.int8)
UNKNOWN: Truths = np.array(0, np.int8)
FALSE: Truths = np.array(-1, np.int8)
NOWHERE: Mask = np.array(False)

# Nova's mapping of a service, as far as it is known here: columns, and what is always the same.
_SERVICE_COLUMNS = {
    "host": "host",
    "disabled": "service_disabled",
    "disabled_reason": "disabled_reason",
    "forced_down": "forced_down",
    "heartbeat_age": "heartbeat_age",
}
_SERVICE = {"binary": "nova-compute", "topic": "compute"}


class Argument:
    """One argument of a query, here one that is unknown on every host.

    source is the JSON value that it was read from, text what it says if it is a literal text.
    """

    text: str | None = None

    def __init__(self, source: Any) -> None:
        self.source = source

    def truths(self, hosts: HostTable) -> Truths:
        """Return how true it is."""
        return UNKNOWN

    def numbers(self, hosts: HostTable) -> Figures | None:
        """Return it as numbers, NaN where it is none; None when it is none anywhere."""
        return None

    def texts(self, hosts: HostTable) -> Texts | None:
        """Return it as texts, whatever where it is none; None when it is none anywhere."""
        return None

    def where_text(
        self, hosts: HostTable, question: Sequence[str], holds: Callable[[str], bool]
    ) -> Mask:
        """Return where it is a text for which holds() is true; question stands for holds."""
        return NOWHERE

    def value(self, hosts: HostTable, row: int) -> Any:
        """Return what it is on one host, None where it is unknown."""
        return None

    def variables(self) -> Iterator["Argument"]:
        """Yield the variables in it, in their order."""
        if isinstance(self.source, str) and self.source.startswith("$"):
            yield self


class Literal(Argument):
    """What is the same on all hosts."""

    def __init__(self, source: Any, value: Any) -> None:
        super().__init__(source)
        self._value = value
        self.text = value if isinstance(value, str) else None

    def truths(self, hosts: HostTable) -> Truths:
        return np.array(_truth(self._value), np.int8)

    def numbers(self, hosts: HostTable) -> Figures | None:
        return np.array(_number(self._value)) if isinstance(self._value, (int, float)) else None

    def where_text(
        self, hosts: HostTable, question: Sequence[str], holds: Callable[[str], bool]
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
        return from_numbers(self.numbers(hosts))

    def numbers(self, hosts: HostTable) -> Figures:
        column: npt.NDArray[Any] = getattr(hosts, self._column)
        return column.astype(np.float64)

    def value(self, hosts: HostTable, row: int) -> Any:
        return hosts.get(row, self._column)


class Item(Argument):
    """What is found in a column of objects under a path of keys.

    Each distinct object is looked at once for each question.
    """

    def __init__(self, source: str, column: str, path: Sequence[str]) -> None:
        super().__init__(source)
        self._column = column
        self._path = tuple(path)

    def truths(self, hosts: HostTable) -> Truths:
        return self._derived(hosts, ["truth"], _truth, np.int8)

    def numbers(self, hosts: HostTable) -> Figures:
        return self._derived(hosts, ["number"], _number, np.float64)

    def texts(self, hosts: HostTable) -> Texts:
        return self._derived(hosts, ["text"], _text, np.object_)

    def where_text(
        self, hosts: HostTable, question: Sequence[str], holds: Callable[[str], bool]
    ) -> Mask:
        def answer(found: Any) -> bool:
            return isinstance(found, str) and holds(found)

        return self._derived(hosts, ["where", *question], answer, np.bool_)

    def value(self, hosts: HostTable, row: int) -> Any:
        return _found(hosts.get(row, self._column), self._path)

    def _derived(
        self,
        hosts: HostTable,
        question: Sequence[str],
        function: Callable[[Any], Any],
        dtype: type,
    ) -> npt.NDArray[Any]:
        path = self._path
        answer = (lambda value: function(_found(value, path))) if path else function
        return hosts.derived(self._column, _key(question, path), answer, dtype)


class Residents(Argument):
    """The instances of a host, or the one among them that has a uuid."""

    def __init__(self, source: str, uuid: str | None) -> None:
        super().__init__(source)
        self._uuid = uuid

    def truths(self, hosts: HostTable) -> Truths:
        if self._uuid is None:
            return from_mask(hosts.residents.count(EVERY, hosts.size) > 0)
        truths = np.zeros(hosts.size, np.int8)
        truths[list(hosts.residents.rows_of(self._uuid))] = TRUE
        return truths

    def value(self, hosts: HostTable, row: int) -> Any:
        here = hosts.residents.on(row)
        return len(here) if self._uuid is None else self._uuid in here or None


def variable(source: str) -> Argument:
    """Return what a text such as '$free_ram_mb' or '$stats.num_instances' stands for.

    The limits are unknown: they are set by other filters, and which of them were asked before must
    not change the result.
    """
    first, *rest = source[1:].split(".")
    if first == "service" and rest and rest[0] in _SERVICE_COLUMNS:
        first, *rest = _SERVICE_COLUMNS[rest[0]], *rest[1:]
    if first in OBJECTS:
        return Item(source, first, rest)
    if first in NUMBERS and not rest:
        return Number(source, first)
    if first == "instances" and len(rest) < 2:
        return Residents(source, rest[0] if rest else None)
    if first == "service":
        return Literal(source, _found(_SERVICE, rest))
    return Argument(source)


def from_mask(mask: Mask) -> Truths:
    """Return what is true where a mask is, and false elsewhere."""
    return np.asarray(mask).astype(np.int8) * np.int8(2) - np.int8(1)


def from_numbers(numbers: Figures) -> Truths:
    """Return the truths of numbers: false for 0, unknown for NaN, true for all others."""
    truths = from_mask(numbers != 0)
    truths[np.isnan(numbers)] = UNKNOWN
    return truths


def _key(question: Sequence[str], path: Sequence[str]) -> Hashable:
    # Of one size, however much a tenant asks for: the table keeps many of them.
    return "query", hashlib.sha256(ascii((question, path)).encode()).digest()


def _found(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        # The first of them spares ten thousand dictionaries the slow look at the second.
        if not isinstance(value, (dict, Mapping)):
            return None
        value = value.get(key)
    return value


def _truth(value: Any) -> int:
    if value is None or value != value:  # NaN is no number to begin with
        return 0
    return 1 if value else -1


def _number(value: Any) -> float:
    """Return a number or flag as a float, NaN for everything else; texts are not numbers."""
    if not isinstance(value, (int, float)):
        return np.nan
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
