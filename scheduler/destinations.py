# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The walk of a request: view, decide, remember, answer.

With claims, which come between deciding and answering, a lost race leads back to the view.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from oslo_log import log

from inventory import server_groups
from inventory.engine import Database
from scheduler.attestation import Attestation, levels_for
from scheduler.decision import aggregate_metadata, pipeline
from scheduler.decision.host_table import HostTable
from scheduler.decision.outcome import Candidate, Decision, Placement, Refusal, Shortage
from scheduler.decision.pipeline import Request
from scheduler.drivers import BaseDriver
from scheduler.host_view import HostView
from scheduler.objects.instance_group import InstanceGroup
from scheduler.objects.limits import SchedulerLimits
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.context import RequestContext
from scheduler.rpc.failures import InvalidInput, NoValidHost

LOG = log.getLogger(__name__)
MOST_WARNINGS = 1000
# Stands for the cell of a host where neither the configuration nor the caller names one.
NO_CELL = "00000000-0000-0000-0000-00000000ce11"


class Destinations:
    """Answers requests with destinations. One per process; many threads may use it."""

    def __init__(
        self,
        database: Database,
        view: HostView,
        driver: BaseDriver,
        max_attempts: int = 3,
        default_zone: str = "nova",
        attestation: Attestation | None = None,
    ) -> None:
        self.driver = driver
        self.attestation = attestation
        self._database = database
        self.view = view
        self._max_attempts = max_attempts
        self._default_zone = default_zone
        self._warned: set[str] = set()

    def select(self, asked: SelectArguments, caller: RequestContext) -> list[list[Selection]]:
        """Return for each instance its destination and, where they are asked for, alternates.

        Raises NoValidHost unless all instances have one; nothing is taken then. Raises InvalidInput
        for a server group that does not exist and DatabaseUnavailable.
        """
        began = time.monotonic()
        request = self._request(asked, caller)
        with self._hosts(request.spec) as hosts:
            decision = self.driver.decide(hosts.working_copy(), request)
            self.view.consume(decision, request.spec)
            selections = [
                self._selections(hosts, placement, request.spec)
                for placement in decision.placements
            ]
        self._warn_once(decision.warnings)
        _report(decision, request, 1000 * (time.monotonic() - began))
        if decision.shortage:
            raise NoValidHost(decision.shortage.reason)
        return selections

    def rehearse(
        self, asked: SelectArguments, caller: RequestContext, most: int = 100
    ) -> tuple[Decision, list[Refusal]]:
        """Return what select() would decide now, and why up to that many hosts would be refused.

        Nothing is taken. Raises InvalidInput and DatabaseUnavailable.
        """
        request = self._request(asked, caller)
        with self._hosts(request.spec) as hosts:
            decision = self.driver.decide(hosts.working_copy(), request)
            plan = self.driver.plan
            refusals = pipeline.explain(hosts.working_copy(), request.spec, plan, most)
        self._warn_once(decision.warnings)
        return decision, refusals

    @contextmanager
    def _hosts(self, spec: RequestSpec) -> Iterator[HostTable]:
        """Yield the table, fresh and locked, with the levels of trust if the request needs them."""
        driver = self.driver
        # Asked before the table is locked: the service may take its time.
        levels = levels_for(
            spec, driver.plan, self.attestation, lambda: self.view.nodenames(driver.view_max_age)
        )
        with self.view.current(driver.view_max_age) as hosts:
            if levels is not None:
                self.view.set_trust(levels)
            yield hosts

    def _request(self, asked: SelectArguments, caller: RequestContext) -> Request:
        alternates = asked.return_objects and asked.return_alternates
        return Request(
            self._with_group(asked.spec),
            asked.instance_uuids,
            self._max_attempts - 1 if alternates else 0,
            _seed(caller.request_id, asked.instance_uuids),
            caller.is_admin,
        )

    def _with_group(self, spec: RequestSpec) -> RequestSpec:
        """Return the spec with the server group that its hint names, if it brings none itself."""
        hint = spec.get_scheduler_hint("group")
        if spec.instance_group is not None or not hint:
            return spec
        group = self._database.read(lambda connection: server_groups.find(connection, str(hint)))
        if group is None:
            raise InvalidInput(
                f"scheduler_hints.group: there is no server group {str(hint)[:64]!r}"
            )
        found = spec.for_instance(spec.instance_uuid)
        found.instance_group = InstanceGroup(
            group.uuid,
            group.policy,
            group.members,
            group.hosts,
            group.rules,
        )
        return found

    def _warn_once(self, warnings: Iterable[str]) -> None:
        """Log what plug-ins complained about, each complaint once in the life of the process."""
        for warning in warnings:
            if warning not in self._warned and len(self._warned) < MOST_WARNINGS:
                self._warned.add(warning)
                LOG.warning("%s", warning)

    def _selections(
        self, hosts: HostTable, placement: Placement, spec: RequestSpec
    ) -> list[Selection]:
        return [
            self._selection(hosts, candidate, spec)
            for candidate in (placement.chosen, *placement.alternates)
        ]

    def _selection(self, hosts: HostTable, candidate: Candidate, spec: RequestSpec) -> Selection:
        aggregates = hosts.get(candidate.row, "aggregates")
        zones = aggregate_metadata.split_values(aggregates, "availability_zone")
        destination = spec.requested_destination
        asked_cell = destination.cell.uuid if destination and destination.cell else None
        return Selection(
            service_host=candidate.host,
            nodename=candidate.nodename,
            compute_node_uuid=candidate.uuid or "",
            cell_uuid=candidate.cell_uuid or asked_cell or NO_CELL,
            limits=SchedulerLimits(
                vcpu=candidate.limits.get("vcpu"),
                memory_mb=candidate.limits.get("memory_mb"),
                disk_gb=candidate.limits.get("disk_gb"),
                numa_topology=candidate.limits.get("numa_topology"),
            ),
            availability_zone=min(zones, default=self._default_zone),
        )


def _seed(request_id: str | None, instance_uuids: Sequence[str | None]) -> int:
    """Return a number that is the same for the same request and differs between requests."""
    text = " ".join([request_id or "", *(uuid or "" for uuid in instance_uuids)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _report(decision: Decision, request: Request, milliseconds: float) -> None:
    """Write the one line of a decision."""
    first, count = request.instance_uuids[0], len(request.instance_uuids)
    of = f"{count} instances from {first}" if count > 1 else f"instance {first}"
    if decision.shortage:
        LOG.info("No valid host for %s in %.1f ms: %s", of, milliseconds, _where(decision))
        return
    if not decision.placements:
        LOG.info("Selected nothing for %s in %.1f ms, as the driver does", of, milliseconds)
        return
    places = ", ".join(placement.chosen.host for placement in decision.placements[:10])
    more = ", ..." if count > 10 else ""
    steps = " ".join(map(str, decision.placements[0].steps)) or "no filters"
    LOG.info("Selected %s%s for %s in %.1f ms: %s", places, more, of, milliseconds, steps)


def _where(decision: Decision) -> str:
    shortage: Shortage | None = decision.shortage
    if not decision.hosts or shortage is None:
        return "no compute node has reported yet; is berthmaster-agent running on the hosts?"
    steps = " ".join(map(str, shortage.steps)) or f"{decision.hosts} hosts, none of them usable"
    return f"instance {shortage.index + 1} found none of {decision.hosts} hosts: {steps}"
