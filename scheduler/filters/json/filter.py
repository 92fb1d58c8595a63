# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for queries in JSON that callers send as a scheduler hint, and their language.

Source: behaviour reference 1.9. Tenants write queries, so all that costs time or memory is bounded.
"""

import json
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from inventory.errors import counted
from inventory.objects.field_types import Malformed, read_under, shown
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.filters.json.operators import OPERATORS, And, Membership, Operation, unmet_part
from scheduler.filters.json.values import Argument, Literal, variable

MAX_CHARACTERS = 65_536
MAX_LEVELS = 50
# As many as a column memoizes.
MAX_VARIABLES = 64

_PART_CHARACTERS = 200
_VALUE_CHARACTERS = 60
_MAX_VALUES = 5


class JsonFilter(BaseHostFilter):
    """Keep the hosts that meet the query in the scheduler hint 'query'.

    The query is JSON such as '[">=", "$free_ram_mb", 1024]'. No host meets an invalid query.
    """

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.get_scheduler_hint("query"))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        # Without a query all hosts pass; reading it raises Malformed as well.
        mask = np.full(hosts.size, not self.applies(spec))
        with suppress(Malformed):
            mask[:] = _query(spec).truths(hosts) > 0
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        try:
            query = _query(spec_obj)
        except Malformed as error:
            return str(error)
        return _why_not(query, host_state.table, host_state.row)


def _query(spec: RequestSpec) -> Argument:
    """Parse the query of a request; raise Malformed with the place of the mistake."""
    return read_under("query", _read, spec.get_scheduler_hint("query"))


def _why_not(query: Argument, hosts: HostTable, row: int) -> str:
    """Return in one line which part of a query a host does not meet, and its own values."""
    part = unmet_part(query, hosts, row)
    values = {each.source: each.value(hosts, row) for each in part.variables()}
    shown_values = [
        f"{_short(name)} is {'unknown' if value is None else _short(shown(value))}"
        for name, value in list(values.items())[:_MAX_VALUES]
    ]
    if len(values) > _MAX_VALUES:
        shown_values.append(f"and {len(values) - _MAX_VALUES} more")
    what = f"does not meet {_short(json.dumps(part.source), _PART_CHARACTERS)}"
    return f"{what}: {', '.join(shown_values)}" if shown_values else what


def _read(hint: Any) -> Argument:
    if isinstance(hint, list):
        given = counted(len(hint), "query is", "queries are")
        raise Malformed(f"{given} given, but only one query is allowed")
    if not isinstance(hint, str):
        raise Malformed("is not a text")
    if len(hint) > MAX_CHARACTERS:
        raise Malformed(f"is longer than {MAX_CHARACTERS} characters")
    return _parsed(hint)


# All instances of a request and all hosts of an explanation have the same text.
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
        raise Malformed(f'{_kind(value)} is not a query, which is a list such as ["=", 1, 1]')
    query = _operation(value, 1)
    count = sum(1 for _ in query.variables())
    if count > MAX_VARIABLES:
        raise Malformed(f"names {count} variables, at most {MAX_VARIABLES} are allowed")
    return query


def _operation(value: list[Any], level: int) -> Operation:
    """Parse a list; the outermost one has level 1."""
    if level > MAX_LEVELS:
        raise _too_deep()
    if not value:
        return And(value, ())
    if not _is_operator(value[0]):
        known = " ".join(OPERATORS)
        raise Malformed(f"{_kind(value[0])} is not an operator; known are {known}").under(0)
    operation = OPERATORS[value[0]]
    arguments: list[Argument] = []
    for index, each in enumerate(value[1:], 1):
        if operation is Membership and index > 1:
            arguments += read_under(index, _alternatives, each, level + 1)
        else:
            arguments.append(read_under(index, _argument, each, level + 1))
    return operation(value, arguments)


def _alternatives(value: Any, level: int) -> list[Argument]:
    """Parse an argument of 'in' after the first; a list that is no query counts as several."""
    if not isinstance(value, list) or (value and _is_operator(value[0])):
        return [_argument(value, level)]
    if level > MAX_LEVELS:
        raise _too_deep()
    found: list[Argument] = []
    for index, each in enumerate(value):
        found += read_under(index, _alternatives, each, level + 1)
    return found


def _argument(value: Any, level: int) -> Argument:
    if isinstance(value, list):
        return _operation(value, level)
    if isinstance(value, dict):
        raise Malformed("an object cannot be an argument")
    if isinstance(value, str) and value.startswith("$"):
        return variable(value)
    # An empty text means null.
    return Argument(value) if value is None or value == "" else Literal(value, value)


def _is_operator(value: Any) -> bool:
    return isinstance(value, str) and value in OPERATORS


def _too_deep() -> Malformed:
    return Malformed(f"is nested deeper than {MAX_LEVELS} levels")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not in the language of queries")


def _kind(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return _short(json.dumps(value))


def _short(text: str, most: int = _VALUE_CHARACTERS) -> str:
    """Return a text in one line of at most that many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
