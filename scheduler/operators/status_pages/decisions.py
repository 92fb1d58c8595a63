# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The list of decisions, the newest first, by what they were about."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from inventory.errors import Malformed
from inventory.queries.decision_search import Wanted, flavor_names, search, sizes_of_flavor
from inventory.queries.requested_sizes import Size
from scheduler.operators.status_pages.errors import unknown
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, flavor_figures, query_link
from scheduler.request_trace import OUTCOMES, REPEATED

PAGE = 50
_ANY = "any"
# Repeated answers are not saved.
_OUTCOMES = (_ANY, *(each for each in OUTCOMES if each != REPEATED))
_FILTERS = ("outcome", "project", "flavor", "request", "conflicts")
# Of the snapshot that it was made from.
_HIDDEN = ("snapshot_log", "snapshot_number")


def view(source: Source, asked: Asked) -> View:
    """Return a page of decisions; before is the number of the last one of the page before it."""
    outcome = asked.one_of("outcome", _OUTCOMES)
    flavor = asked.text("flavor")
    before = asked.number("before") or None
    wanted = Wanted(
        outcome=None if outcome == _ANY else outcome,
        project_id=asked.text("project"),
        request_id=asked.text("request"),
        sizes=None if flavor is None else source.read(_sizes, flavor),
        conflicts=asked.flag("conflicts"),
        before=before,
    )
    # One more than is shown: whether there is another page.
    rows = source.read(search, wanted, PAGE + 1)
    given = {name: asked.text(name) for name in _FILTERS}
    more = rows[PAGE - 1].id if len(rows) > PAGE else None
    facts = {
        "asked": {name: each for name, each in given.items() if each},
        "before": before,
        "next": more,
        "decisions": [document(row) for row in rows[:PAGE]],
    }
    shown = {
        "outcomes": _OUTCOMES,
        "outcome": outcome,
        "given": given,
        "next_link": query_link("", **given, before=more) if more else None,
    }
    title = "Refused requests" if outcome == "refused" else "Decisions"
    return View(title, "decisions.html", facts, shown)


def document(row: Any) -> dict[str, Any]:
    return {
        **{name: each for name, each in row._mapping.items() if name not in _HIDDEN},
        "decided_at": row.decided_at and row.decided_at.isoformat(sep=" ", timespec="milliseconds"),
        "milliseconds": round(row.milliseconds, 3),
    }


def _sizes(connection: sa.Connection, flavor: str) -> Collection[Size]:
    """Return the sizes that vCPUs,MB,GB or a name mean; raises Unknown and Malformed."""
    if figures := flavor_figures(flavor):
        vcpus, memory_mb, disk_gb = figures
        if max(figures) >= 2**40:
            raise Malformed("flavor", f"{flavor[:60]!r} is larger than any host")
        return [(vcpus, memory_mb, 1024 * disk_gb)]
    found = sizes_of_flavor(connection, flavor)
    if not found:
        names = flavor_names(connection)
        raise unknown(
            "instance or claim of a flavor", flavor, names, lambda name: query_link("", flavor=name)
        )
    return found
