# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The operators that extra specs of a flavor may use on what a host has.

Source: behaviour reference 1.2. Where a number is required and one side is not a number, the
requirement is not met; Nova fails the whole request then.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

# Numbers or arrays of them.
_NUMBERS: dict[str, Callable[[Any, float], Any]] = {
    # It reads as equality and has meant "at least" since Folsom.
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}


def matches(value: str | None, requirement: str) -> bool:
    """Return whether a value meets a requirement such as '>= 4', '<in> sse' or a plain text.

    Without a known operator as its first word the requirement is the text itself. Operators take
    the first word after them, <all-in> all words, <or> every second one ('<or> a <or> b').
    """
    name, operands = _split(requirement)
    wanted = _wanted(name, operands, requirement)
    if wanted is not None:
        return value in wanted
    if value is None or not operands:
        return False
    if name in _NUMBERS:
        try:
            return bool(_NUMBERS[name](float(value), float(operands[0])))
        except ValueError:
            return False
    if name in _TEXTS:
        return _TEXTS[name](value, operands[0])
    return all(operand in value for operand in operands)


def all_matching(numbers: npt.NDArray[Any], requirement: str) -> npt.NDArray[np.bool_]:
    """Return matches() of the text of each number; True and False do not count as numbers."""
    name, operands = _split(requirement)
    none = np.zeros(len(numbers), np.bool_)
    if name in _NUMBERS:
        if not operands or numbers.dtype == np.bool_:
            return none
        try:
            return np.asarray(_NUMBERS[name](numbers, float(operands[0])), np.bool_)
        except ValueError:
            return none
    wanted = _wanted(name, operands, requirement)
    if wanted is not None and numbers.dtype == np.int64:
        # One call for each of many different numbers would take long.
        return sum((numbers == each for each in map(_whole, wanted) if each is not None), none)
    # Distinct by their bits, since 0.0 and -0.0 are equal and have different texts.
    bits, place = np.unique(numbers.view(f"i{numbers.itemsize}"), return_inverse=True)
    texts = map(str, bits.view(numbers.dtype).tolist())
    return np.array([matches(text, requirement) for text in texts], np.bool_)[place]


def _split(requirement: str) -> tuple[str | None, list[str]]:
    """Return the operator, None without one, and its operands."""
    name, *operands = requirement.split() or [""]
    known = name in _NUMBERS or name in _TEXTS or name in ("s==", "<or>", "<all-in>")
    return name if known else None, operands


def _wanted(name: str | None, operands: list[str], requirement: str) -> list[str] | None:
    """Return the texts of which the value must be one, None for other operators."""
    if name is None:
        return [requirement]
    if name == "s==":
        return operands[:1]
    return operands[::2] if name == "<or>" else None


def _whole(text: str) -> int | None:
    """Return the whole number of a text, None for any other spelling."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text else None
