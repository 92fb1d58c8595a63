# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""All pages by their addresses: each is HTML, or JSON where that is asked for, errors as well."""

import gzip
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

from oslo_log import log

from inventory.database_errors import DatabaseUnavailable, StatementRefused
from inventory.errors import NotFound, OperationRefused, similar
from inventory.migrations import SchemaError
from scheduler.history.saved_decision import DecisionIncomplete
from scheduler.operators.status_pages import (
    capacity,
    claims,
    decision,
    decisions,
    fleet,
    host,
    instance,
    search,
    services,
)
from scheduler.operators.status_pages.errors import Links, Moved, TooLate, Unknown
from scheduler.operators.status_pages.messages import HTML, RETRY_AFTER, PageAnswer, PageRequest
from scheduler.operators.status_pages.rendering import Place, asset, render
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, MakeView, View

LOG = log.getLogger(__name__)
JSON = "application/json"
# Views by the first part of the address: of all, and of one that the rest names.
VIEWS: Mapping[str, tuple[MakeView, MakeView | None]] = {
    "hosts": (fleet.view, host.view),
    "decisions": (decisions.view, decision.view),
    "capacity": (capacity.view, None),
    "claims": (claims.view, None),
    "conflicts": (claims.conflicts, None),
    "services": (services.view, None),
    "instances": (search.view, instance.view),
    "search": (search.view, None),
}
# Address, file and type. Where a text names no icon, a browser asks for /favicon.ico by itself.
ASSETS = {
    "/assets/style.css": ("style.css", "text/css; charset=utf-8"),
    "/assets/icon.svg": ("icon.svg", "image/svg+xml"),
    "/favicon.ico": ("icon.svg", "image/svg+xml"),
}
FIRST = "hosts/"
# Seconds after which a page loads itself again, if asked to.
REFRESHES = (10, 60)
_LEVEL = 1
_LONGEST = 1000
_LEAST_TO_COMPRESS = 1000
_UNAVAILABLE = "503 Service Unavailable"


class Site:
    """Answers requests for pages; several threads may ask."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def answer(self, request: PageRequest) -> PageAnswer:
        """Return the answer to one request, whatever fails, with the processor time that it took.

        Time of other threads is not in it.
        """
        began = time.thread_time()
        found = self._answer(request)
        milliseconds = 1000 * (time.thread_time() - began)
        timing = ("Server-Timing", f"processor;dur={milliseconds:.1f}")
        return replace(found, headers=[*found.headers, timing])

    def _answer(self, request: PageRequest) -> PageAnswer:
        head, _, item = request.path.strip("/").partition("/")
        if request.path in ASSETS:
            name, kind = ASSETS[request.path]
            return _packed(request, "200 OK", kind, asset(name))
        if request.path == "/":
            return _redirect(FIRST)
        if head in VIEWS and not item and not request.path.endswith("/"):
            return _redirect(f"{head}/" + (f"?{request.query}" if request.query else ""))
        parameters = dict(parse_qsl(request.query, keep_blank_values=True))
        asked = Asked(item, parameters, request.until, request.health)
        try:
            status, view = self._made(head, asked, request.path)
        except Moved as found:
            return _redirect(found.address)
        if parameters.get("format") == "json":
            facts = {"title": view.title, **view.facts}
            text = json.dumps(facts, indent=1, default=str) + "\n"
            return _packed(request, status, JSON, text.encode())
        return _packed(request, status, HTML, render(view, _place(request, head)).encode())

    def _made(self, head: str, asked: Asked, path: str) -> tuple[str, View]:
        """Return the status and the view, which may be about an error."""
        try:
            return "200 OK", self._find(head, asked, path)(self._source, asked)
        except Moved:
            raise
        except Unknown as error:
            return "404 Not Found", _problem("Not found", error, error.links)
        except NotFound as error:
            return "404 Not Found", _problem("Not found", error)
        except OperationRefused as error:
            return "400 Bad Request", _problem("This cannot be shown", error)
        except DecisionIncomplete as error:
            return "404 Not Found", _problem("Not kept", error)
        except StatementRefused as error:
            LOG.warning("The database refused what the page %s needs: %s", path, error)
            return _UNAVAILABLE, _problem("The database refused to answer", "see the log")
        except (DatabaseUnavailable, SchemaError) as error:
            return _UNAVAILABLE, _problem("The database does not answer", error)
        except TooLate:
            text = "try again, since the machine may be busy, or ask for less"
            return _UNAVAILABLE, _problem("Too much to show in time", text)
        except Exception:
            LOG.exception("The page %s failed", path)
            text = "the log of the scheduler says why"
            return "500 Internal Server Error", _problem("This page failed", text)

    def _find(self, head: str, asked: Asked, path: str) -> MakeView:
        every, one = VIEWS.get(head, (None, None))
        found = one if asked.item else every
        if found is None:
            near = similar(head, VIEWS) or [*VIEWS]
            raise Unknown(f"there is no page {path!r}", [(each, f"../{each}/") for each in near])
        return found


def _place(request: PageRequest, head: str) -> Place:
    # A name in an address may have a slash, which is no level of it.
    levels = 1 if head in VIEWS else max(0, request.path.count("/") - 1)
    asked = dict(parse_qsl(request.query))
    refresh = asked.pop("refresh", "")

    def link(**more: object) -> str:
        return "?" + urlencode({**asked, **more})

    return Place(
        "../" * levels,
        head,
        link(format="json"),
        datetime.now(UTC),
        int(refresh) if refresh in map(str, REFRESHES) else 0,
        {0: link(), **{each: link(refresh=each) for each in REFRESHES}},
    )


def _redirect(address: str) -> PageAnswer:
    return PageAnswer("302 Found", [("Location", address), ("Content-Type", HTML)])


def _problem(title: str, error: object, links: Links = ()) -> View:
    # Addresses may be long.
    text = str(error)[:_LONGEST]
    facts = {"error": text[:1].upper() + text[1:], "nearest": [name for name, _ in links]}
    return View(title, "problem.html", facts, {"links": links})


def _packed(request: PageRequest, status: str, kind: str, body: bytes) -> PageAnswer:
    headers = [("Content-Type", kind)]
    if status == _UNAVAILABLE:
        headers.append(RETRY_AFTER)
    if len(body) > _LEAST_TO_COMPRESS:
        headers.append(("Vary", "Accept-Encoding"))
        if request.may_compress:
            headers.append(("Content-Encoding", "gzip"))
            body = gzip.compress(body, _LEVEL, mtime=0)
    return PageAnswer(status, headers, body)
