# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The operators of a JsonFilter query.

Source: behaviour reference 1.9 and 5.31. A comparison is false with an unknown argument, or of a
text and a number.
"""

import hashlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from scheduler.filters.json.values import FALSE, NO_HOST, TRUE, Argument, Numbers, Truths, from_mask
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
# What a comparison becomes when its sides are exchanged.
_MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Operation(Argument):
    """An operator with its arguments; the base class of all operators."""

    def __init__(self, source: Any, arguments: Sequence[Argument]) -> None:
        super().__init__(source)
        self.arguments = arguments

    def numbers(self, hosts: HostTable) -> Numbers:
        truths = self.truths(hosts)
        return np.where(truths == 0, np.nan, truths > 0)

    def variables(self) -> Iterator[Argument]:
        for each in self.arguments:
            yield from each.variables()


class And(Operation):
    """All arguments are true; so it is without arguments."""

    def truths(self, hosts: HostTable) -> Truths:
        return reduce(np.minimum, (each.truths(hosts) for each in self.arguments), TRUE)


class Or(Operation):
    """Any argument is true."""

    def truths(self, hosts: HostTable) -> Truths:
        return reduce(np.maximum, (each.truths(hosts) for each in self.arguments), FALSE)


class Not(Operation):
    """Any argument is false."""

    def truths(self, hosts: HostTable) -> Truths:
        return reduce(np.maximum, (-each.truths(hosts) for each in self.arguments), FALSE)


class Comparison(Operation):
    """The first argument compares with each of the others; false without others."""

    def truths(self, hosts: HostTable) -> Truths:
        name, *_ = self.source
        first, *others = self.arguments or (Argument(None),)
        if not others:
            return FALSE
        pairs = (_holds(hosts, name, first, other) for other in others)
        return from_mask(reduce(np.logical_and, pairs))


class Membership(Operation):
    """The first argument is one of the others."""

    def __init__(self, source: Any, arguments: Sequence[Argument]) -> None:
        super().__init__(source, arguments)
        self._texts = {each.text for each in arguments[1:] if each.text is not None}
        # A digest, since there may be thousands of texts, and the memo is used for each instance.
        digest = hashlib.sha256(ascii(sorted(self._texts)).encode())
        self._memo_key = ["in", digest.hexdigest()]

    def truths(self, hosts: HostTable) -> Truths:
        first, *others = self.arguments or (Argument(None),)
        found = first.where_text(hosts, self._memo_key, self._texts.__contains__)
        pairs = (_holds(hosts, "=", first, each) for each in others if each.text is None)
        return from_mask(reduce(np.logical_or, pairs, found))


OPERATORS: Mapping[str, type[Operation]] = {
    **dict.fromkeys(_COMPARED, Comparison),
    "in": Membership,
    "not": Not,
    "or": Or,
    "and": And,
}


def unmet_part(query: Argument, hosts: HostTable, row: int) -> Argument:
    """Return the first required part of a query that a host does not meet."""
    while isinstance(query, And):
        unmet = (each for each in query.arguments if not _is_true(each, hosts, row))
        part = next(unmet, None)
        if part is None:
            break
        query = part
    return query


def _is_true(argument: Argument, hosts: HostTable, row: int) -> bool:
    return bool(np.broadcast_to(argument.truths(hosts), hosts.size)[row] > 0)


def _holds(hosts: HostTable, name: str, left: Argument, right: Argument) -> Mask:
    numbers = _numbers_compare(hosts, name, left, right)
    return np.logical_or(numbers, _texts_compare(hosts, name, left, right))


def _numbers_compare(hosts: HostTable, name: str, left: Argument, right: Argument) -> Mask:
    if left.text is not None or right.text is not None:
        return NO_HOST
    one, other = left.numbers(hosts), right.numbers(hosts)
    if one is None or other is None:
        return NO_HOST
    # A NaN compares with nothing.
    return np.asarray(_COMPARED[name](one, other), np.bool_)


def _texts_compare(hosts: HostTable, name: str, left: Argument, right: Argument) -> Mask:
    if left.text is not None:
        left, name, right = right, _MIRRORED[name], left
    compare, text = _COMPARED[name], right.text
    if text is not None:
        return left.where_text(hosts, [name, text], lambda found: compare(found, text))
    one, other = left.texts(hosts), right.texts(hosts)
    if one is None or other is None:
        return NO_HOST
    both = [each.where_text(hosts, ["any"], lambda _: True) for each in (left, right)]
    return np.asarray(compare(one, other) & both[0] & both[1], np.bool_)
