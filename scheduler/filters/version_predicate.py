# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions on a version such as '>=6.0,<6.2'."""

import operator
import re
from collections.abc import Callable

_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
# No part of a version is longer; int() refuses numbers of thousands of digits.
_CONDITION = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d{1,9}(?:\.\d{1,9})*)\s*")


def holds(predicate: str, version: int) -> bool:
    """Return whether a version, coded as 6002000 for 6.2.0, meets all conditions of a predicate.

    A predicate that is no list of conditions is met by no version.
    """
    found = _numbers(dotted(version))
    for condition in predicate.split(","):
        match = _CONDITION.fullmatch(condition)
        if not match or not _OPERATORS[match[1]](found, _numbers(match[2])):
            return False
    return True


def is_valid(predicate: str) -> bool:
    """Return whether a predicate is a list of conditions."""
    return all(map(_CONDITION.fullmatch, predicate.split(",")))


def dotted(version: int) -> str:
    """Return a coded version as text: 6002000 as 6.2.0, 5000 as 5.0."""
    parts = []
    while version >= 1000:
        version, part = divmod(version, 1000)
        parts.append(part)
    parts.append(version)
    return ".".join(str(part) for part in reversed(parts))


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(".")]
    # 6.2 and 6.2.0 are the same version.
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
