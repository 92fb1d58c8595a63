# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One instance: where it is, by which decision, with its claims and its server group."""

from inventory import decisions
from inventory.errors import Malformed, NotFound
from inventory.queries import instance_queries
from scheduler.operators.status_pages.errors import Moved, Unknown
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, item_link, query_link


def view(source: Source, asked: Asked) -> View:
    """Return the page of the instance of a uuid or a name: what `instance show` says."""
    try:
        facts = source.read(instance_queries.show, asked.item)
    except Malformed:
        # Several have this name.
        if asked.text("format") == "json":
            raise
        raise Moved(query_link("../search/", q=asked.item)) from None
    except NotFound as error:
        decided = source.read(decisions.find, asked.item, 1)
        links = [(f"decision {each.id}", item_link("decisions", each.id)) for each in decided]
        raise Unknown(str(error), links) from None
    return View(f"Instance {facts['name'] or facts['uuid']}", "instance.html", facts)
