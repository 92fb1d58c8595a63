# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A fleet of twelve hosts with decisions, and the site that shows it in this process."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.operators.status_pages.messages import PageRequest
from scheduler.operators.status_pages.routes import Site
from scheduler.operators.status_pages.source import Source
from tests.fixtures.keeping import configured
from tests.fixtures.shown_fleet import ShownFleet, host_names

NAMES = host_names(12)
# As /healthz says it of a scheduler whose broker is away.
HEALTH = {
    "healthy": False,
    "broker": {"healthy": False, "since": "2026-01-02T03:04:05+00:00", "problem": "refused"},
    "database": {"healthy": True, "since": "2026-01-02T03:04:05+00:00"},
}
Ask = Callable[..., tuple[str, Any]]


@pytest.fixture(scope="package")
def fleet(tmp_path_factory):
    """Twelve hosts, three of which are switched off; web is placed, mega is refused."""
    found = ShownFleet(tmp_path_factory.mktemp("fleet"))
    found.add_hosts(NAMES)
    found.add_guests(NAMES[:4])
    found.switch_off(NAMES[4], NAMES[5], NAMES[6])
    found.decide(
        {"name": "web", "flavor": "m1.large", "instances": 2, "project_id": "shop"},
        {"name": "mega", "flavor": "x1.giant", "project_id": "render"},
    )
    yield found
    found.close()


@pytest.fixture(scope="package")
def site(fleet):
    """The pages of the fleet."""
    return Site(Source(configured(fleet.config)))


@pytest.fixture
def facts(site) -> Ask:
    """Return a function that gives the status and the facts of an address."""

    def ask(path: str, query: str = "") -> tuple[str, Any]:
        answer = site.answer(PageRequest(path, f"{query}&format=json", health=HEALTH))
        return answer.status[:3], json.loads(answer.body)

    return ask


@pytest.fixture
def page(site) -> Callable[..., str]:
    """Return a function that gives the HTML of an address."""

    def ask(path: str, query: str = "") -> str:
        return site.answer(PageRequest(path, query, health=HEALTH)).body.decode()

    return ask
