# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The metadata of an aggregate as an operator may set it."""

import re
from collections.abc import Iterable, Mapping

from inventory import names
from inventory.aggregates import ZONE
from inventory.refusals import Malformed

# As Nova has it.
_KEY = re.compile(r"[a-zA-Z0-9_:. -]+")
# By ZONE:HOST administrators ask for a host.
_NOT_IN_ZONES = {",": "a host is in one zone only", ":": "zones have no colon in their names"}


def checked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties that can be stored, without blanks around them; raises Malformed."""
    return {(key := _key(text)): _value(key, value) for text, value in properties.items()}


def check_apart(keys: Iterable[str]) -> None:
    """Raise Malformed for keys that some databases take for one."""
    known: dict[str, str] = {}
    for key in sorted(keys):
        other = known.setdefault(key.lower(), key)
        if other != key:
            raise Malformed("property", f"{other!r} and {key!r} differ by letter case only")


def _key(text: str) -> str:
    key = names.checked("property", text)
    if not _KEY.fullmatch(key):
        raise Malformed(
            "property", f"{key!r} has other characters than letters, digits, blanks and - _ : ."
        )
    return key


def _value(key: str, text: str) -> str:
    value = names.checked(key, text)
    if key == ZONE:
        for character, why in _NOT_IN_ZONES.items():
            if character in value:
                raise Malformed(ZONE, f"{value!r}: {why}")
    return value
