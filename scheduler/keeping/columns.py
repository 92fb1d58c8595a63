# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Columns of a table as JSON text, in pieces that take a thousandth of a second or so to write.

A column is {"all": v} where every row has the same, {"each": [...]} where rows differ, and
{"values": [...], "codes": [...]} where many share a few. "shared" has what values have in common.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.keeping.plain import Share, from_plain, to_plain

_MANY = 256
text_of: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode


def numbers(values: Sequence[Any] | npt.NDArray[Any]) -> Iterator[str]:
    """Yield the text of a column of numbers, in which null stands for NaN."""
    if isinstance(values, np.ndarray) and len(values) and _are_one(values):
        yield f'{{"all":{_numbers(values[:1].tolist())[1:-1]}}}'
        return
    yield '{"each":['
    for start in range(0, len(values), _MANY):
        part = values[start : start + _MANY]
        listed = part.tolist() if isinstance(part, np.ndarray) else list(part)
        yield ("," if start else "") + _numbers(listed)[1:-1]
    yield "]}"


class Objects:
    """A column of objects, which are told apart by identity first: they must live meanwhile."""

    def __init__(self) -> None:
        self._codes: list[int] = []
        self._shared = _Distinct()
        self._distinct = _Distinct(self._shared.code)

    @property
    def is_nothing(self) -> bool:
        """Whether all are None."""
        return self._distinct.texts == ["null"]

    def look(self, values: Iterable[Any]) -> Iterator[str]:
        """Add values; yield "" again and again, since that takes a while."""
        left, code_of, add = iter(values), self._distinct.code, self._codes.append
        known = self._distinct.known
        while some := [*islice(left, _MANY)]:
            for value in some:
                code = known.get(value if type(value) is str else id(value))
                if code is None:
                    code = code_of(value)
                    yield ""
                add(code)
            yield ""

    def text(self) -> Iterator[str]:
        """Yield the text of the column."""
        texts = self._distinct.texts
        is_each = len(texts) == len(self._codes)
        if len(texts) == 1:
            yield f'{{"all":{texts[0]}'
        else:
            yield '{"each":[' if is_each else '{"values":['
            yield from _joined(texts)
            yield "]"
        if len(texts) > 1 and not is_each:
            yield ',"codes":['
            for start in range(0, len(self._codes), _MANY):
                part = text_of(self._codes[start : start + _MANY])
                yield ("," if start else "") + part[1:-1]
            yield "]"
        if self._shared.texts:
            yield ',"shared":['
            yield from _joined(self._shared.texts)
            yield "]"
        yield "}"


def read(document: Any, count: int) -> list[Any]:
    """Return the values of a column of so many rows; those that are equal are one object.

    Raises ValueError.
    """
    if not isinstance(document, dict) or not isinstance(document.get("shared", []), list):
        raise ValueError("a column is missing")
    shared = from_plain(document.get("shared", []))
    if "all" in document:
        return [from_plain(document["all"], shared)] * count
    if "each" in document:
        found = from_plain(document["each"], shared)
    else:
        values, codes = from_plain(document.get("values"), shared), document.get("codes")
        if not isinstance(values, list) or not isinstance(codes, list):
            raise ValueError("a column is neither whole nor made of values and codes")
        if not all(type(code) is int and 0 <= code < len(values) for code in codes):
            raise ValueError("a column has a code that stands for nothing")
        found = [values[code] for code in codes]
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"a column is not one of {count} rows")
    return found


class _Distinct:
    """Values that differ, by code, as text. known has the codes by text or identity of a value."""

    def __init__(self, share: Share | None = None) -> None:
        self.texts: list[str] = []
        self.known: dict[Any, int] = {}
        self._code_of: dict[str, int] = {}
        self._share = share

    def code(self, value: Any) -> int:
        """Return the code of a value."""
        key = value if type(value) is str else id(value)
        code = self.known.get(key)
        if code is None:
            text = text_of(to_plain(value, self._share))
            code = self.known[key] = self._code_of.setdefault(text, len(self.texts))
            if code == len(self.texts):
                self.texts.append(text)
        return code


def _are_one(values: npt.NDArray[Any]) -> bool:
    """Return whether all are the same to the bit."""
    return bool(
        (values.view(f"u{values.itemsize}") == values[:1].view(f"u{values.itemsize}")).all()
    )


def _numbers(values: list[Any]) -> str:
    # JSON has neither; a number that is too large for a float is read as infinite.
    return text_of(values).replace("NaN", "null").replace("Infinity", "1e999")


def _joined(texts: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(texts), _MANY):
        yield ("," if start else "") + ",".join(texts[start : start + _MANY])
