# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The operators that extra specs of a flavor may use on what a host has.

Source: behaviour reference 1.2. Where a number is required and one side is none, the requirement
is not met; Nova fails the whole request then.
"""

import operator
from collections.abc import Callable

_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    # It reads as equality and has meant "at least" since Folsom.
    "=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
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
    words = requirement.split()
    name = words[0] if words else ""
    if name not in _NUMBERS and name not in _TEXTS and name not in ("<or>", "<all-in>"):
        return value is not None and value == requirement
    operands = words[1:]
    if value is None or not operands:
        return False
    if name == "<or>":
        return value in operands[::2]
    if name == "<all-in>":
        return all(operand in value for operand in operands)
    if name in _TEXTS:
        return _TEXTS[name](value, operands[0])
    try:
        return _NUMBERS[name](float(value), float(operands[0]))
    except ValueError:
        return False
