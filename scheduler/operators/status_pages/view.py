# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a view is given, what it returns, and how it reads the words of an address."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from inventory.errors import Malformed
from scheduler.operators.status_pages.source import Source

# A number with more is no id of a row, and no size.
_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a view: the object that the address names, if any, and its parameters.

    until is when nobody waits any more, on the monotonic clock. health is that of the scheduler,
    where a view shows it, by part.
    """

    item: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    until: float = float("inf")
    health: Mapping[str, Any] | None = None

    def text(self, name: str) -> str | None:
        """Return a parameter, None where it is empty or missing."""
        return self.parameters.get(name, "").strip() or None

    def number(self, name: str, default: int = 0) -> int:
        """Return a whole number that is not negative; raises Malformed."""
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
            raise Malformed(name, f"{text[:40]!r} is not a whole number")
        return int(text)

    def one_of(self, name: str, choices: Mapping[str, str] | tuple[str, ...]) -> str:
        """Return one of the choices, the first one by default; raises Malformed."""
        known = [*choices]
        text = self.text(name) or known[0]
        if text not in known:
            raise Malformed(name, f"{text[:40]!r} is not one of {', '.join(known)}")
        return text

    def flag(self, name: str) -> bool:
        """Return whether a parameter is there and neither empty nor 0."""
        return (self.text(name) or "0") != "0"


@dataclass(frozen=True, slots=True)
class View:
    """A page: its title, its facts as JSON has them, and the template that shows them.

    shown has what only the template needs.
    """

    title: str
    template: str
    facts: Mapping[str, Any]
    shown: Mapping[str, Any] = field(default_factory=dict)


MakeView = Callable[[Source, Asked], View]


def flavor_figures(text: str) -> list[int] | None:
    """Return the numbers of vCPUs, MB and GB, such as 4,8192,40; None of another text."""
    found = re.fullmatch(r"(\d+),(\d+),(\d+)", text, re.ASCII)
    return [int(each[:_DIGITS]) for each in found.groups()] if found else None


def item_link(kind: str, key: object) -> str:
    """Return the address of one of the hosts, instances or decisions, from any view."""
    return f"../{kind}/{quote(str(key), safe='')}"


def host_link(name: str) -> str:
    return item_link("hosts", name)


def instance_link(uuid: str) -> str:
    return item_link("instances", uuid)


def query_link(path: str, **parameters: Any) -> str:
    """Return an address with those of the parameters that are set."""
    text = urlencode({name: str(each) for name, each in parameters.items() if each})
    return f"{path}?{text}" if text else path
