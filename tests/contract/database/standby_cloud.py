# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A small cloud of three racks, with agents, schedulers and the keeper of standbys."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.virt.driver import Guest
from compute_agent.virt.fake import FakeDriver
from inventory import compute_nodes, tables
from inventory.claims import existing
from inventory.claims.types import Claim, ClaimRequest
from inventory.engine import Database
from inventory.objects.amounts import amounts_of
from inventory.objects.standby import EXTRA_SPEC
from inventory.operations import aggregate_operations, reservation_operations, service_operations
from inventory.operations.aggregate_operations import ZoneRules
from inventory.operations.reservation_operations import NewReservation
from scheduler.claims.claim_request import ClaimSettings
from scheduler.claims.claimer import Claimer
from scheduler.claims.standby_keeper import Pass, StandbyKeeper
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.compute import ComputeFilter
from scheduler.filters.core import CoreFilter
from scheduler.filters.different_host import DifferentHostFilter
from scheduler.filters.disk import DiskFilter
from scheduler.filters.ram import RamFilter
from scheduler.filters.same_host import SameHostFilter
from scheduler.filters.server_group_anti_affinity import ServerGroupAntiAffinityFilter
from scheduler.host_cache.cache import HostCache
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.reserving import reserve
from scheduler.select_destinations.destinations import Destinations
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.claimed import age_claims
from tests.databases import empty, serve
from tests.fixtures import agent

# Two hosts in each of three racks, and one that is a failure domain for itself.
RACKS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
HOSTS = (*RACKS, "lone")
VCPUS, MEMORY_MB, LOCAL_GB = 8, 16384, 100
PLAN = Plan(
    [
        *(ComputeFilter(), RamFilter(), CoreFilter(), DiskFilter()),
        *(ServerGroupAntiAffinityFilter(), DifferentHostFilter(), SameHostFilter()),
    ],
    [RAMWeigher()],
)
Size = tuple[int, int, int]


def domain_of(host: str) -> str:
    """Return what fails together with a host."""
    return RACKS.get(host, host)


class StandbyCloud:
    """The cloud on one database, which begins anew with begin()."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self._numbers = count()
        self._confs = {}
        for host in HOSTS:
            (directory / host).mkdir()
            fake = {"vcpus": VCPUS, "memory_mb": MEMORY_MB, "local_gb": LOCAL_GB}
            reserved = {"reserved_host_memory_mb": 0, "reserved_host_disk_mb": 0}
            options = {"compute_driver": "fake", "host": host} | reserved
            self._confs[host] = agent.options(directory / host, DEFAULT=options, fake=fake)

    def begin(self) -> None:
        empty(self.database)
        self.drivers, self.trackers = {}, {}
        for host, conf in self._confs.items():
            conf.set_override("cpu_allocation_ratio", 1.0)
            conf.set_override("ram_allocation_ratio", 1.0)
            conf.set_override("disk_allocation_ratio", 1.0)
            self.drivers[host] = FakeDriver(conf)
            self.trackers[host] = ResourceTracker(conf, self.database, self.drivers[host])
            self.audit(host)
        serve(self.database, *HOSTS)
        rules = ZoneRules("nova")
        for rack in sorted({*RACKS.values()}):
            self.write(aggregate_operations.create, f"rack {rack}", {"failure_domain": rack})
            for host in (host for host in RACKS if RACKS[host] == rack):
                self.write(aggregate_operations.add_hosts, f"rack {rack}", [host], rules)
        # Two at work that share nothing but the database.
        self.schedulers = [self.scheduler() for _ in range(2)]

    def scheduler(self) -> Destinations:
        cache = HostCache(self.database, max_age=0.0)
        claimer = Claimer(self.database, ClaimSettings(), cache.apply_changes)
        return Destinations(self.database, cache, FilterScheduler(PLAN), claimer=claimer)

    def write(self, work: Any, *arguments: Any) -> Any:
        return self.database.write(lambda connection: work(connection, *arguments))

    def ask(
        self,
        uuids: Collection[str],
        size: Size,
        mode: str | None = "required",
        scheduler: int = 0,
        ignore: Collection[str] = (),
        **changes: Any,
    ) -> list[str] | None:
        """Return where instances are placed, None if they are refused."""
        vcpus, memory_mb, root_gb = size
        specs = {EXTRA_SPEC: mode} if mode else {}
        spec = a_request(
            vcpus=vcpus,
            memory_mb=memory_mb,
            root_gb=root_gb,
            extra_specs=specs,
            ignore_hosts=[*ignore] or None,
            **changes,
        )
        name = f"req-{next(self._numbers)}"
        arguments = SelectArguments(spec, list(uuids), True, False)
        try:
            answer = self.schedulers[scheduler].select(arguments, RequestContext(request_id=name))
        except NoValidHost:
            return None
        return [each[0].service_host for each in answer]

    def keep(self, scheduler: int = 0) -> Pass:
        """Let a keeper look at all standbys."""
        each = self.schedulers[scheduler]
        keeper = StandbyKeeper(
            self.database, each.host_cache, lambda: each.driver.plan, lambda: each.claimer
        )
        return keeper.keep()

    def audit(self, host: str) -> None:
        self.trackers[host].audit({host: 1})

    def arrive(self, uuid: str, host: str, size: Size) -> None:
        """Let a guest start on a host, which has told of it."""
        vcpus, memory_mb, root_gb = size
        self.drivers[host].add_guest(
            host, Guest(uuid=uuid, name=uuid, vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb)
        )
        age_claims(self.database)
        self.audit(host)

    def leave(self, uuid: str, host: str) -> None:
        self.drivers[host].remove_guest(host, uuid)
        age_claims(self.database)
        self.audit(host)

    def reserve(self, name: str, size: Size, *hosts: str) -> None:
        """Hold a place of a size on each of these hosts, for the project of all requests."""
        vcpus, memory_mb, disk_gb = size
        amounts = vcpus, memory_mb, 1024 * disk_gb
        limits = {"vcpu": VCPUS, "memory_mb": MEMORY_MB, "disk_gb": LOCAL_GB}
        claims = [
            Claim(str(uuid4()), self.nodes()[host].id, host, host, *amounts, limits)
            for host in hosts
        ]
        new = NewReservation(name, a_request().project_id or "", amounts)
        self.write(reservation_operations.create, new, ClaimRequest(None, "", claims, 0))

    def reserve_protected(self, name: str, size: Size, number: int, **changes: Any) -> None:
        """Hold places with standbys for the project of all requests; raises NoRoom."""
        vcpus, memory_mb, root_gb = size
        spec = a_request(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb)
        new = NewReservation(name, spec.project_id or "", amounts_of(spec), failover=True)
        reserve(
            LiveHosts(self.database, self.schedulers[0], None),
            replace(new, **changes),
            spec,
            number,
        )

    def force_down(self, hosts: Collection[str], down: bool = True) -> None:
        self.write(service_operations.force_down, hosts, down)

    # What the database says.

    def nodes(self) -> dict[str, Any]:
        return {row.host: row for row in self.database.read(compute_nodes.all_live)}

    def standbys(self) -> list[Any]:
        query = sa.select(tables.standbys).order_by(tables.standbys.c.id)
        return self.database.read(lambda connection: connection.execute(query).all())

    def places(self) -> dict[str, Any]:
        """Return the rows of reserved places by their uuids."""
        query = sa.select(tables.allocations).order_by(tables.allocations.c.id)
        query = query.where(tables.allocations.c.reservation_uuid.is_not(None))
        found = self.database.read(lambda connection: connection.execute(query).all())
        return {row.instance_uuid: row for row in found}

    def held(self) -> dict[str, str | None]:
        """Return {instance: host of its standby}."""
        names = {row.id: row.host for row in self.nodes().values()}
        return {row.instance_uuid: names.get(row.compute_node_id) for row in self.standbys()}

    def usage(self) -> dict[str, Size]:
        return {
            host: (row.vcpus_used, row.memory_mb_used, row.disk_mb_used // 1024)
            for host, row in self.nodes().items()
        }

    def expected_usage(self) -> dict[str, Size]:
        """Return what is used of each host, counted from zero: guests, claims, places, standbys."""
        nodes = self.nodes()
        names = {row.id: host for host, row in nodes.items()}
        used: dict[str, list[int]] = {host: [0, 0, 0] for host in nodes}

        def add(host: str, size: Size) -> None:
            for at, each in enumerate(size):
                used[host][at] += each

        for row in self.database.read(
            lambda c: c.execute(
                sa.select(tables.instances).where(tables.instances.c.deleted == 0)
            ).all()
        ):
            add(row.host, (row.vcpus, row.memory_mb, row.root_gb))
        rows = self.database.read(lambda c: c.execute(sa.select(tables.allocations)).all())
        for row in rows:
            if row.state in existing.COUNTED or row.reservation_uuid:
                add(row.host, (row.vcpus, row.memory_mb, row.disk_mb // 1024))
        for host, sums in self.sums(names).items():
            add(host, largest(sums))
        return {host: (each[0], each[1], each[2]) for host, each in used.items()}

    def sums(self, names: Mapping[int, str]) -> dict[str, dict[str, Size]]:
        """Return what each failure domain would bring to hosts."""
        found: dict[str, dict[str, Size]] = defaultdict(dict)
        for row in self.standbys():
            if row.compute_node_id in names:
                here = found[names[row.compute_node_id]]
                for domain in row.domains.split(","):
                    vcpus, memory_mb, disk_gb = here.get(domain, (0, 0, 0))
                    disk = disk_gb + row.disk_mb // 1024
                    here[domain] = (vcpus + row.vcpus, memory_mb + row.memory_mb, disk)
        return found

    @contextmanager
    def copy(self) -> Iterator[None]:
        """Put everything back after the block."""
        saved = {}

        def save(connection: sa.Connection) -> None:
            for table in tables.metadata.sorted_tables:
                rows = connection.execute(sa.select(table)).mappings()
                saved[table] = [dict(row) for row in rows]

        def restore(connection: sa.Connection) -> None:
            for table in reversed(tables.metadata.sorted_tables):
                connection.execute(sa.delete(table))
            for table, rows in saved.items():
                if rows:
                    connection.execute(sa.insert(table), rows)

        self.database.read(save)
        schedulers, self.schedulers = self.schedulers, [self.scheduler() for _ in range(2)]
        try:
            yield
        finally:
            self.database.write(restore)
            self.schedulers = schedulers


def largest(sums: Mapping[str, Size]) -> Size:
    """Return the largest sum of each resource."""
    found = [max(column) for column in zip(*sums.values(), strict=True)] or [0, 0, 0]
    return found[0], found[1], found[2]
