# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The language of JsonFilter: from the text of a query to its operators and their arguments.

Source: behaviour reference 1.9. A query comes from a tenant, so its size is bounded in each way
that costs time or memory.
"""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from scheduler.decision.host_table import HostTable
from scheduler.filters.json_operators import OPERATORS, And, Membership, Operation, unmet_part
from scheduler.filters.json_values import Argument, Literal, variable
from scheduler.objects.kinds import Malformed, shown

MOST_CHARACTERS = 65_536
MOST_LEVELS = 50
# What a table remembers of one column serves as many.
MOST_VARIABLES = 64

_PART_CHARACTERS = 200
_FIGURE_CHARACTERS = 60
_MOST_FIGURES = 5

T = TypeVar("T")


def read(hint: Any) -> Argument:
    """Return the query in a scheduler hint. Raises Malformed, which says what is wrong where."""
    return _under("query", _read, hint)


def why_not(query: Argument, hosts: HostTable, row: int) -> str:
    """Return in one line which part of a query a host does not meet, and what it has instead."""
    part = unmet_part(query, hosts, row)
    values = {each.source: each.value(hosts, row) for each in part.variables()}
    figures = [
        f"{_short(name)} is {'unknown' if value is None else _short(shown(value))}"
        for name, value in list(values.items())[:_MOST_FIGURES]
    ]
    if len(values) > _MOST_FIGURES:
        figures.append(f"and {len(values) - _MOST_FIGURES} more")
    what = f"does not meet {_short(json.dumps(part.source), _PART_CHARACTERS)}"
    return f"{what}: {', '.join(figures)}" if figures else what


def _read(hint: Any) -> Argument:
    if isinstance(hint, list):
        raise Malformed(f"{len(hint)} queries are given, only one can be met")
    if not isinstance(hint, str):
        raise Malformed("is no text")
    if len(hint) > MOST_CHARACTERS:
        raise Malformed(f"is longer than {MOST_CHARACTERS} characters")
    return _parsed(hint)


# One text serves all instances of a request and every host of an explanation.
@lru_cache(maxsize=16)
def _parsed(text: str) -> Argument:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise Malformed(f"is not JSON: {error}") from error
    if value is None or value == {}:
        return And(value, ())
    if not isinstance(value, list):
        raise Malformed(f'{_named(value)} is no query, which is a list such as ["=", 1, 1]')
    query = _operation(value, 1)
    count = sum(1 for _ in query.variables())
    if count > MOST_VARIABLES:
        raise Malformed(f"names {count} variables, {MOST_VARIABLES} are allowed")
    return query


def _operation(value: list[Any], level: int) -> Operation:
    """Read a list, at a level that is 1 for the outermost one."""
    if level > MOST_LEVELS:
        raise _too_deep()
    if not value:
        return And(value, ())
    if not _is_operator(value[0]):
        known = " ".join(OPERATORS)
        raise Malformed(f"{_named(value[0])} is no operator; there are {known}").under(0)
    operation = OPERATORS[value[0]]
    arguments: list[Argument] = []
    for index, each in enumerate(value[1:], 1):
        if operation is Membership and index > 1:
            arguments += _under(index, _alternatives, each, level + 1)
        else:
            arguments.append(_under(index, _argument, each, level + 1))
    return operation(value, arguments)


def _alternatives(value: Any, level: int) -> list[Argument]:
    """Read what may follow the first argument of 'in': a list that is no query is several."""
    if not isinstance(value, list) or (value and _is_operator(value[0])):
        return [_argument(value, level)]
    if level > MOST_LEVELS:
        raise _too_deep()
    found: list[Argument] = []
    for index, each in enumerate(value):
        found += _under(index, _alternatives, each, level + 1)
    return found


def _argument(value: Any, level: int) -> Argument:
    if isinstance(value, list):
        return _operation(value, level)
    if isinstance(value, dict):
        raise Malformed("an object cannot be an argument")
    if isinstance(value, str) and value.startswith("$"):
        return variable(value)
    # An empty text stands for nothing, as null does.
    return Argument(value) if value is None or value == "" else Literal(value, value)


def _is_operator(value: Any) -> bool:
    return isinstance(value, str) and value in OPERATORS


def _under(step: str | int, read: Callable[..., T], *arguments: Any) -> T:
    """Call read, and name the step that led to what it refuses."""
    try:
        return read(*arguments)
    except Malformed as wrong:
        wrong.under(step)
        raise


def _too_deep() -> Malformed:
    return Malformed(f"is nested deeper than {MOST_LEVELS} levels")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not in its language")


def _named(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return _short(json.dumps(value))


def _short(text: str, most: int = _FIGURE_CHARACTERS) -> str:
    """Return a text in one line of at most that many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
