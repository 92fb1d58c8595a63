# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that are over, as a scheduler of three hosts leaves them to observers."""

from time import monotonic

from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.hosts.snapshots import SnapshotLog
from scheduler.request_trace import PLACED, REFUSED, RequestTrace
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.context import RequestContext
from tests.builders import a_request
from tests.databases import a_uuid
from tests.hosts import a_host, a_table


class Scheduler:
    """Decides for one request after the other, and takes a picture at each."""

    def __init__(self, snapshot_log: SnapshotLog) -> None:
        self.snapshot_log = snapshot_log
        self.hosts = a_table(*(a_host(name) for name in ("h1", "h2", "h3")))
        self.driver = FilterScheduler(Plan([RamFilter()], [RAMWeigher()]))
        self.driver.settings = {"filter_scheduler": {"enabled_filters": ["RamFilter"]}}

    def decide(self, name: str, instances: int = 1, **changes) -> RequestTrace:
        """Return the trace of a request for these instances, the first of which is so called."""
        uuids = [a_uuid(name), *(a_uuid(f"{name} {each}") for each in range(1, instances))]
        trace = RequestTrace(RequestContext(request_id=f"req-{name}"), uuids, monotonic())
        trace.request, trace.driver = Request(a_request(**changes), uuids), self.driver
        trace.decision = self.driver.decide(self.hosts.working_copy(), trace.request)
        trace.snapshot = self.snapshot_log.take(self.hosts)
        trace.snapshots.append(trace.snapshot)
        trace.outcome = REFUSED if trace.decision.shortage else PLACED
        for each in trace.decision.placements:
            free = self.hosts.get(each.chosen.row, "free_ram_mb") - each.taken.memory_mb
            self.hosts.set(each.chosen.row, "free_ram_mb", free)
        trace.total = monotonic() - trace.began
        return trace
