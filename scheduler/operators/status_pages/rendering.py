# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Make HTML of a view: all text is escaped, figures are written as people read them."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from inventory.errors import counted
from inventory.promises import amounts_text
from scheduler.operators.status_pages.view import View, host_link, instance_link, query_link


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("scheduler.operators.status_pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    filters: list[Callable[..., Any]] = [
        first_hosts,
        amount,
        amounts_text,
        count,
        duration,
        host_link,
    ]
    filters += [instance_link, plural, share, size, when, words]
    found.filters |= {each.__name__: each for each in filters}
    found.globals["query_link"] = query_link
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page is, and when it was made: root leads from it to all views.

    section is the view that it belongs to. refresh is in seconds, 0 for none; refresh_links has the
    address of the page for each choice of it.
    """

    root: str
    section: str
    json_link: str
    made_at: datetime
    refresh: int
    refresh_links: Mapping[int, str]


def render(view: View, place: Place) -> str:
    template = _environment().get_template(view.template)
    return template.render(view=view, place=place, **view.facts, **view.shown)


@cache
def asset(name: str) -> bytes:
    return (resources.files("scheduler.operators.status_pages") / "templates" / name).read_bytes()


def amount(megabytes: float | None) -> str:
    """Return an amount of memory or disk in the unit, and with the digits, of reasons."""
    return "" if megabytes is None else f"{megabytes:.0f} MB"


def size(item: Mapping[str, Any]) -> str:
    """Return the size of an instance, whose disk is disk_mb, or disk_gb."""
    disk_mb = item["disk_mb"] if "disk_mb" in item else 1024 * item["disk_gb"]
    memory, disk = amount(item["memory_mb"]), amount(disk_mb)
    return f"{plural(item['vcpus'], 'vCPU')}, {memory}, {disk} of disk"


def count(value: float | None) -> str:
    """Return a number with separators of thousands."""
    return "" if value is None else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """Return a time span in the unit that suits it, such as 12 s, 5 min, 3.5 h or 2 days."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, such as 1 host and 2 hosts."""
    return counted(number, noun, thousands=",")


def share(value: float | None) -> str:
    """Return a share in percent: 0.5 % is not 0 %, and 99.9 % is not 100 %."""
    if value is None or not math.isfinite(value):
        return "no limit" if value == math.inf else "unknown"
    percent = 100 * value
    near = 0 < abs(percent) < 1 or 99 <= percent < 100
    return f"{math.floor(10 * percent) / 10:.1f} %" if near else f"{percent:.0f} %"


def when(moment: datetime | str | None) -> str:
    """Return a time in UTC without fractions of a second."""
    return str(moment or "")[:19]


def first_hosts(text: str | None, most: int = 2) -> tuple[str, str]:
    """Return the first of the hosts of a saved decision, and how many more there are.

    The saved text may be cut; a release before did not say how many it has left out.
    """
    names = (text or "").split(", ")
    left_out = re.fullmatch(r"\.\.\.(?: \((\d+) more\))?", names[-1])
    if left_out:
        names = names[:-1]
    more = max(0, len(names) - most) + int((left_out and left_out[1]) or 0)
    shown = ", ".join(names[:most])
    if left_out and left_out[1] is None:
        return shown, "and more"
    return shown, f"and {more} more" if more else ""


def words(name: str) -> str:
    """Return a state or an outcome, as metrics and commands call it, in words."""
    return name.replace("_", " ")
