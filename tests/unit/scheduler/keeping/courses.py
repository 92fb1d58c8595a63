# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are over, as a scheduler of three hosts leaves them to witnesses."""

from time import monotonic

from scheduler.course import PLACED, REFUSED, Course
from scheduler.decision.film import Film
from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.rpc.context import RequestContext
from scheduler.weighers.ram import RAMWeigher
from tests.builders import a_request
from tests.databases import a_uuid
from tests.hosts import a_host, a_table


class Scheduler:
    """Decides for one request after the other, and takes a picture at each."""

    def __init__(self, film: Film) -> None:
        self.film = film
        self.hosts = a_table(*(a_host(name) for name in ("h1", "h2", "h3")))
        self.driver = FilterScheduler(Plan([RamFilter()], [RAMWeigher()]))
        self.driver.settings = {"filter_scheduler": {"enabled_filters": ["RamFilter"]}}

    def decide(self, name: str, instances: int = 1, **changes) -> Course:
        """Return the course of a request for these instances, the first of which is so called."""
        uuids = [a_uuid(name), *(a_uuid(f"{name} {each}") for each in range(1, instances))]
        course = Course(RequestContext(request_id=f"req-{name}"), uuids, monotonic())
        course.request, course.driver = Request(a_request(**changes), uuids), self.driver
        course.decision = self.driver.decide(self.hosts.working_copy(), course.request)
        course.frame = self.film.take(self.hosts)
        course.frames.append(course.frame)
        course.outcome = REFUSED if course.decision.shortage else PLACED
        for each in course.decision.placements:
            free = self.hosts.get(each.chosen.row, "free_ram_mb") - each.taken.memory_mb
            self.hosts.set(each.chosen.row, "free_ram_mb", free)
        course.total = monotonic() - course.began
        return course
