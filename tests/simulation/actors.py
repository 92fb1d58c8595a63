# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Schedulers and agents as processes of a simulated cloud, of the product's own parts.

They are joined as in scheduler/service.py and compute_agent/service.py, but for what serves over
the network.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from threading import Event
from types import SimpleNamespace
from typing import Any

from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.manager import Manager
from compute_agent.virt.driver import Guest, NodeFacts, NodeName
from compute_agent.virt.event_mailbox import EventMailbox
from compute_agent.virt.fake import FakeDriver
from conf.daemon.process import stop_each
from inventory import services
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.heartbeat import Heartbeat
from scheduler.api.scheduler_endpoint import SchedulerEndpoint
from scheduler.api.tracking_endpoint import PushEndpoint, TrackingEndpoint
from scheduler.claims.release_queue import ReleaseLease, ReleaseQueue
from scheduler.claims.standby_keeper import StandbyKeeper
from scheduler.claims.standby_keeper_thread import StandbyKeeperThread
from scheduler.messaging.change_publisher import COLLECTING
from scheduler.select_destinations.destination_builder import build_destinations
from tests.databases import a_conf
from tests.simulation.broker import Broker, SimulatedPublisher
from tests.simulation.exact import DEVICE_SPEC, DEVICES
from tests.simulation.kernel import Actor, Simulator

# Seconds. A claim lasts longer than any build, and a history has to last longer than a claim.
LEASE, AUDITS, KEEPER, HEARTBEATS = 30, 15, 10, 20
# In MB and GB, for each vCPU of a host.
MEMORY_MB, DISK_GB = 2048, 4
FILTERS = [
    *("ComputeFilter", "AggregateMultiTenancyIsolation"),
    *("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"),
    *("CoreFilter", "RamFilter", "DiskFilter", "NUMATopologyFilter", "PciPassthroughFilter"),
]


@cache
def configuration(name: str, vcpus: int = 0, cells: int = 0) -> cfg.ConfigOpts:
    """Return the options of a process, of a host with some vCPUs and cells or of a scheduler."""
    conf = a_conf()
    conf.set_override("host", name)
    for resource in ("cpu", "ram", "disk"):
        conf.set_override(f"{resource}_allocation_ratio", 1.0)
    conf.set_override("reserved_host_memory_mb", 0)
    conf.set_override("update_resources_interval", AUDITS)
    conf.set_override("report_interval", HEARTBEATS)
    conf.set_override("lease", LEASE, "claims")
    conf.set_override("ask_conductor", False, "claims")
    conf.set_override("keeper_interval", KEEPER, "failover")
    conf.set_override("enabled_filters", FILTERS, "filter_scheduler")
    if vcpus:
        conf.set_override("vcpus", vcpus, "fake")
        conf.set_override("memory_mb", vcpus * MEMORY_MB, "fake")
        conf.set_override("local_gb", vcpus * DISK_GB, "fake")
    if cells:
        conf.set_override("numa_cells", cells, "fake")
        conf.set_override("device_spec", [DEVICE_SPEC], "pci")
    return conf


class Process:
    """A process that is started, killed and started again; its clock begins anew each time."""

    def __init__(
        self, simulator: Simulator, name: str, open_database: Callable[[], Database]
    ) -> None:
        self.name = name
        self.actor = Actor(name)
        self.actor.is_dead = True
        self._simulator, self._open = simulator, open_database
        # What ends it in order, once it has begun.
        self.stops: list[Callable[[], object]] = []

    def start(self) -> None:
        """Start it unless it runs."""
        simulator = self._simulator
        if self.actor.is_dead:
            skew = simulator.order.uniform(-30, 30)
            self.actor = Actor(self.name, boot=simulator.order.uniform(0, 1e6), skew=skew)
            simulator.run_as(self.actor, self._run)

    def stop(self, seconds: float) -> None:
        """End it as systemd does, if it runs, and start it again some seconds after that."""
        if not self.actor.is_dead:
            self._simulator.run_as(self.actor, self._stop, seconds)

    def _stop(self, seconds: float) -> None:
        simulator = self._simulator
        simulator.log("stops")
        stop_each(*self.stops)
        simulator.kill(self.actor)
        simulator.call_as(simulator.world, seconds, self.start)

    def _run(self) -> None:
        self._simulator.log("starts")
        self.stops = []
        database = self._open()
        while True:
            try:
                self.begin(database)
                return
            # As systemd starts a service again that could not start.
            except DatabaseUnavailable:
                time.sleep(2.0)

    def begin(self, database: Database) -> None:
        """Join the parts and start them."""
        raise NotImplementedError


class Scheduler(Process):
    """A scheduler, from the decoded call to the answer."""

    def __init__(self, broker: Broker, *of_process: Any) -> None:
        super().__init__(*of_process)
        self._broker = broker

    def begin(self, database: Database) -> None:
        conf = configuration(self.name)
        heartbeat = Heartbeat(database, [self.name], services.SCHEDULER, conf.report_interval)
        heartbeat.start()
        publisher = SimulatedPublisher(self._broker, self.name, COLLECTING)
        destinations = build_destinations(conf, database, publisher.publish_claims)
        cache, lease = destinations.host_cache, ReleaseLease(database, self.name)
        releases = ReleaseQueue(lambda: destinations.claimer, lease.hold)
        plan, claimer = (lambda: destinations.driver.plan), (lambda: destinations.claimer)
        keeper = StandbyKeeper(database, cache, plan, claimer)
        keeping = StandbyKeeperThread(database, self.name, keeper, lambda: KEEPER)
        keeping.start()
        publisher.start()
        actor = self._simulator.actor
        self.stops = [
            *(partial(self._broker.drain, actor), releases.stop, keeping.stop),
            *(publisher.stop, heartbeat.stop),
        ]
        self._broker.serve(
            actor,
            SchedulerEndpoint(destinations, SimpleNamespace(send=lambda *_: None)),
            TrackingEndpoint(cache, releases.add, lambda: True),
            PushEndpoint(cache),
        )


class Agent(Process):
    """The agent of one hypervisor, whose guests stay while the agent is away."""

    def __init__(self, broker: Broker, vcpus: int, cells: int, *of_process: Any) -> None:
        super().__init__(*of_process)
        self._broker, self._vcpus, self._cells = broker, vcpus, cells
        self.guests: dict[str, Guest] = {}
        # Whether the host itself is down.
        self.is_lost = False
        self._driver: _Driver | None = None

    def begin(self, database: Database) -> None:
        self.is_lost = False
        conf = configuration(self.name, self._vcpus, self._cells)
        self._driver = driver = _Driver(conf, self.guests)
        publisher = SimulatedPublisher(self._broker, self.name)
        tracker = ResourceTracker(conf, database, driver, publish=publisher.publish)
        publisher.start()
        Manager(conf, database, driver, tracker, lambda: None).start()

    def lose(self) -> None:
        """Lose all guests with the host, until the agent is started again."""
        self.guests.clear()
        self.is_lost = True

    def change(self, uuid: str, guest: Guest | None) -> None:
        """Start a guest, or end it; its agent hears of it if it runs."""
        if guest is None:
            self.guests.pop(uuid, None)
        else:
            self.guests[uuid] = guest
        if self._driver is not None and not self.actor.is_dead:
            node = NodeName(self.name, self.name)
            self._simulator.run_as(self.actor, self._driver.changes.note, node)


class _Driver(FakeDriver):
    """A fake hypervisor whose guests are those of the simulation."""

    def __init__(self, conf: cfg.ConfigOpts, guests: dict[str, Guest]) -> None:
        super().__init__(conf)
        self._added = {conf.host: guests}
        self.changes = Mailbox()

    def facts(self, node: NodeName) -> NodeFacts:
        found = super().facts(node)
        return replace(found, pci_devices=DEVICES) if found.numa else found


class Mailbox(EventMailbox):
    """Waits for an event of the simulator instead of a socket."""

    def __init__(self) -> None:
        super().__init__()
        self._event = Event()

    def wake(self) -> None:
        self._event.set()

    def wait(self, seconds: float | None, debounce: float = 0.0) -> frozenset[Any]:
        self._event.wait(seconds)
        self._event.clear()
        time.sleep(debounce)
        found = frozenset(self._noted)
        self._noted.clear()
        return found
