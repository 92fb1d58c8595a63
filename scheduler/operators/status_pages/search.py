# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the search box finds: hosts, instances, requests and projects."""

from collections.abc import Iterator

from inventory.queries.name_search import LIMIT, Found, find
from scheduler.operators.status_pages import decisions
from scheduler.operators.status_pages.errors import Moved
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, item_link


def view(source: Source, asked: Asked) -> View:
    """Return what has the text; raises Moved for the only object that it can mean."""
    text = asked.text("q") or ""
    found = source.read(find, text) if text else Found((), (), (), None)
    facts = {
        "asked": text,
        "hosts": found.hosts,
        "instances": [each._asdict() for each in found.instances],
        "decisions": [decisions.document(each) for each in found.decisions],
        "project": found.project,
    }
    targets = found.exact(text) or [*_all(found)]
    if len(targets) == 1 and not found.project and asked.text("format") != "json":
        raise Moved(item_link(*targets[0]))
    return View("Search", "search.html", facts, {"limit": LIMIT})


def _all(found: Found) -> Iterator[tuple[str, str]]:
    yield from (("hosts", each) for each in found.hosts)
    yield from (("instances", uuid) for uuid in {each.uuid for each in found.instances})
