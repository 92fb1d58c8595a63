# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims that wait for their instances, and claims that were lost to other requests."""

from dataclasses import asdict
from datetime import timedelta

from inventory.claims.types import ALTERNATE, CONFIRMED, LEAVING, PENDING
from inventory.errors import Malformed
from inventory.queries.claim_search import ClaimFilter, counts, lost_claims, search
from inventory.queries.decision_search import Wanted
from inventory.queries.decision_search import search as search_decisions
from scheduler.operators.status_pages import decisions
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, query_link

PAGE = 100
_STATES = (PENDING, ALTERNATE, LEAVING, CONFIRMED)
_FILTERS = ("host", "instance", "all")
_HOURS, _MAX_HOURS = 24, 24 * 366
_LISTED = 50


def view(source: Source, asked: Asked) -> View:
    wanted = ClaimFilter(asked.text("host"), asked.text("instance"), asked.flag("all"))
    page = max(1, asked.number("page", 1))
    start = PAGE * (page - 1)
    found = source.read(search, wanted, start, PAGE + 1)
    known = source.read(counts)
    given = {name: asked.text(name) for name in _FILTERS}
    facts = {
        "asked": {name: each for name, each in given.items() if each},
        "states": {state: known.states.get(state, 0) for state in _STATES},
        "overdue": known.overdue,
        "oldest": known.oldest,
        "page": page,
        "claims": found[:PAGE],
    }
    links = {
        "previous": query_link("", **given, page=page - 1) if page > 1 else None,
        "next": query_link("", **given, page=page + 1) if len(found) > PAGE else None,
    }
    return View("Claims", "claims.html", facts, {"given": given, "links": links})


def conflicts(source: Source, asked: Asked) -> View:
    """Return how many claims were lost in the last hours, and the decisions that lost some."""
    hours = asked.number("hours", _HOURS)
    if not 0 < hours <= _MAX_HOURS:
        raise Malformed("hours", f"{hours} is not between 1 and {_MAX_HOURS}")
    schedulers = source.read(lost_claims, timedelta(hours=hours))
    lost = source.read(search_decisions, Wanted(conflicts=True), _LISTED)
    given_up = source.read(search_decisions, Wanted(outcome="given_up"), _LISTED)
    both = {row.id: row for row in (*lost, *given_up)}
    newest = [both[number] for number in sorted(both, reverse=True)[:_LISTED]]
    facts = {
        "hours": hours,
        "totals": {
            name: sum(each[name] for each in schedulers)
            for name in ("decisions", "conflicted", "conflicts", "given_up")
        },
        "schedulers": schedulers,
        "decisions": [decisions.document(row) for row in newest],
        "counts": asdict(source.read(counts)),
    }
    return View("Conflicts", "conflicts.html", facts)
