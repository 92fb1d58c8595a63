# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions inside a command: on hosts as they are now, by the configuration of the schedulers.

No scheduler is asked, and nothing is claimed. What only running schedulers know is not seen: what
they remember with [claims] enabled = false, and what Nova's services have told them.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cliff.app import App

from inventory.engine import Database
from scheduler.claiming.groups import with_members
from scheduler.cli.base import conf_of
from scheduler.cli.database import database_of
from scheduler.decision.capacity import Means
from scheduler.decision.host_table import HostTable
from scheduler.destinations import Destinations
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.objects.request_spec import RequestSpec
from scheduler.requests import request_of
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.context import RequestContext
from scheduler.service import build_destinations

NOT_SEEN = (
    "It is decided in this command, on what the database says now, and nothing is claimed. What"
    " only running schedulers know is not seen: what they remember without claims ([claims] enabled"
    " = false), and what Nova's services have told them of instances and aggregates."
)


@dataclass(frozen=True, slots=True)
class CurrentHosts:
    """Hosts as they are now, and how a scheduler of this configuration decides about them."""

    database: Database
    destinations: Destinations

    def means(self, tell: Callable[[int], None] = lambda _: None) -> Means:
        """Return how it is decided."""
        driver = self.destinations.driver
        in_order = type(driver).decide is FilterScheduler.decide
        return Means(driver.decide, driver.plan, one_by_one=not in_order, tell=tell)

    def completed(self, spec: RequestSpec) -> RequestSpec:
        """Return a request with the server group that its hint names, and where its members are.

        Raises what request_of() does.
        """
        asked = SelectArguments(spec, [spec.instance_uuid])
        request = request_of(asked, RequestContext(is_admin=True), self.database, 1)
        claimer = self.destinations.claimer
        return with_members(request.spec, (), claimer.members) if claimer else request.spec

    def table(self, spec: RequestSpec) -> HostTable:
        """Return a working copy of the hosts, with their levels of trust if a request asks."""
        # Nobody else reads into this view, so its copy holds.
        with self.destinations.hosts(spec, self.destinations.driver) as hosts:
            return hosts.working_copy()


@contextmanager
def current_hosts(app: App) -> Iterator[CurrentHosts]:
    """Yield the hosts for a short use. Raises PluginError, DatabaseUnavailable and SchemaError."""
    conf = conf_of(app)
    with database_of(app) as database:
        found = CurrentHosts(database, build_destinations(conf, database))
        # One reading for the whole command: what it says fits together.
        found.destinations.view.set_max_age(float("inf"))
        found.destinations.view.refresh()
        yield found


@contextmanager
def progress(app: App, what: str) -> Iterator[Callable[[int], None]]:
    """Yield what is told how many instances are done; people who wait see it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    yield lambda count: print(f"\r{count} {what}", end="", file=app.stderr, flush=True)
    print("\r\033[K", end="", file=app.stderr, flush=True)
