# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated Nova cloud: compute services write rows, and two mirrors of the product read them.

A guest is there when Nova's row says so: that is what Nova's compute service writes first.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from compute_agent.audit.tracker import ResourceTracker
from compute_agent.manager import Manager
from compute_agent.virt.driver import Guest
from compute_agent.virt.nova.driver import NovaDriver
from inventory.engine import Database
from tests.nova_tables import CELL as CELL_UUID
from tests.nova_tables import a_flavor, a_node, a_service, an_instance
from tests.simulation.actors import DISK_GB, MEMORY_MB, Mailbox, Process, configuration
from tests.simulation.broker import Broker, SimulatedPublisher
from tests.simulation.kernel import Simulator
from tests.simulation.nova_database import API, CELL, NovaRows, url
from tests.simulation.plan import FLAVORS, MIRRORS, NOVA_SILENCE, Event

# Seconds between heartbeats, and between audits, of Nova's compute services.
BEATS, AUDITS = 10.0, 15.0
# How many seconds after an instance a compute service has counted it at the latest.
COUNTED = 4.0
# The longest that a cold migration takes, and after which one in place is confirmed. Seconds.
MIGRATES, CONFIRMS = 0.8, 1.0
# How far the clocks of Nova's services are ahead, in seconds.
SKEWS = (0.0, 0.0, -15.0, 5.0)
# What both databases have to have alike in the end.
_MIRRORED = (
    (
        "cell",
        "SELECT host, disabled, forced_down FROM services"
        " WHERE binary = 'nova-compute' AND deleted = 0",
    ),
    ("api", "SELECT id, uuid, name FROM aggregates"),
    ("api", "SELECT aggregate_id, host FROM aggregate_hosts"),
    ("api", "SELECT aggregate_id, key, value FROM aggregate_metadata"),
)


class Mirror(Process):
    """An agent that reads the cloud, or stands by."""

    def __init__(self, broker: Broker, *of_process: Any) -> None:
        super().__init__(*of_process)
        self._broker = broker

    def begin(self, database: Database) -> None:
        conf = _configuration(self.name)
        driver = NovaDriver(conf)
        driver.changes = Mailbox()
        publisher = SimulatedPublisher(self._broker, self.name)
        tracker = ResourceTracker(conf, database, driver, publish=publisher.publish)
        manager = Manager(conf, database, driver, tracker, lambda: None)
        publisher.start()
        manager.start()
        self.stops = [manager.stop, publisher.stop]


def _configuration(name: str) -> cfg.ConfigOpts:
    conf = configuration(name)
    conf.set_override("connection", url(API), "api_database")
    return conf


@dataclass(slots=True, eq=False)
class _Move:
    """A migration of an instance, whose row has this number."""

    number: int
    source: "Compute"
    destination: "Compute"
    before: Guest
    after: Guest
    has_arrived: bool = False


@dataclass(slots=True, eq=False)
class _Server:
    """An instance as Nova has it."""

    host: "Compute"
    guest: Guest
    move: _Move | None = None


class NovaCloud:
    """The rows of a cloud, who write them and who read them."""

    def __init__(
        self,
        simulator: Simulator,
        broker: Broker,
        hosts: list[str],
        vcpus: int,
        open_database: Callable[[], Database],
    ) -> None:
        self.simulator = simulator
        self.api, self.cell = NovaRows(simulator, API), NovaRows(simulator, CELL)
        self.servers: dict[str, _Server] = {}
        cell = {"uuid": CELL_UUID, "name": CELL, "disabled": False}
        self.api.add("cell_mappings", database_connection=url(CELL), **cell)
        size = {"vcpus": vcpus, "memory_mb": vcpus * MEMORY_MB, "local_gb": vcpus * DISK_GB}
        ratios = {f"{each}_allocation_ratio": 1.0 for each in ("cpu", "ram", "disk")}
        for name in hosts:
            self.api.add("host_mappings", host=name, cell_id=1)
            self.cell.add("services", **a_service(name, last_seen_up=self.cell.stamp()))
            self.cell.add("compute_nodes", **a_node(name, memory_mb_used=0, **size, **ratios))
        self.computes = {each: Compute(self, simulator, each, open_database) for each in hosts}
        self.mirrors = {each: Mirror(broker, simulator, each, open_database) for each in MIRRORS}

    def break_databases(self, event: Event, until: float) -> None:
        """Let Nova's databases not answer until a time, or lose a mirror's next transaction."""
        for rows in (self.api, self.cell):
            if event.how["breaks"] == NOVA_SILENCE:
                rows.silent_until = until
            else:
                rows.lost.append(event.how["of"])

    def differs(self, rows: sqlite3.Connection) -> str:
        """Return what Berthmaster's rows have of services and aggregates otherwise, or ""."""
        for database, query in _MIRRORED:
            there = getattr(self, database).connection
            ours, novas = (sorted(each.execute(query).fetchall()) for each in (rows, there))
            if ours != novas:
                return f"{ours} are here, and {novas} in Nova"
        return ""

    def heal(self) -> None:
        """Lose no more transactions of mirrors."""
        for rows in (self.api, self.cell):
            rows.lost.clear()


class Compute(Process):
    """Nova's compute service of a host, with the guests there."""

    def __init__(self, cloud: NovaCloud, *of_process: Any) -> None:
        super().__init__(*of_process)
        self._cloud, self._rows = cloud, cloud.cell
        self.guests: dict[str, Guest] = {}
        self._skew = self._simulator.order.choice(SKEWS)

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be built on it."""
        return self.actor.is_dead or self.actor.resumes > self._simulator.now

    def begin(self, database: Database) -> None:
        self._beat()
        self._audit()

    def change(self, uuid: str, guest: Guest | None) -> None:
        """Start a guest, or end it; one that is on another host moves, until one of both ends."""
        server = self._cloud.servers.get(uuid)
        if guest is None:
            self.guests.pop(uuid, None)
            self._end(uuid, server)
        else:
            self.guests[uuid] = guest
            if server is None:
                self._build(uuid, guest)
            elif server.host is not self or server.guest.size != guest.size:
                self._move(uuid, server, guest)
        # By whomever: a service that dies before it has counted what it has written is left out.
        after = COUNTED * self._simulator.order.random()
        self._simulator.call_as(self._simulator.world, after, self._count)

    def _later(self, seconds: float, work: Callable[..., None], *arguments: Any) -> None:
        """Do something after some seconds, unless this process has ended by then."""
        self._simulator.call_as(self.actor, seconds, work, *arguments)

    def _beat(self) -> None:
        at = self._rows.stamp(self._skew)
        self._rows.change("services", ("host", self.name), self._skew, last_seen_up=at)
        self._later(BEATS, self._beat)

    def _audit(self) -> None:
        self._count()
        self._later(AUDITS, self._audit)

    def _count(self) -> None:
        sizes = [each.size for each in self.guests.values()]
        self._rows.change(
            "compute_nodes",
            ("host", self.name),
            self._skew,
            vcpus_used=sum(each.vcpus for each in sizes),
            memory_mb_used=sum(each.memory_mb for each in sizes),
            local_gb_used=sum(each.root_gb for each in self.guests.values()),
        )

    def _build(self, uuid: str, guest: Guest) -> None:
        self._cloud.servers[uuid] = _Server(self, guest)
        states = {"vm_state": "building", "task_state": "spawning"}
        row = an_instance(uuid, self.name, **states, **_size(guest), project_id=guest.project_id)
        self._rows.add("instances", self._skew, **row)
        flavor = _flavors(cur=guest)
        self._rows.add("instance_extra", self._skew, instance_uuid=uuid, flavor=flavor)
        self._later(self._simulator.order.random(), self._built, uuid)

    def _built(self, uuid: str) -> None:
        server = self._cloud.servers.get(uuid)
        if server and server.host is self and not server.move:
            self._write(uuid, vm_state="active", task_state=None)

    def _move(self, uuid: str, server: _Server, guest: Guest) -> None:
        if server.move:
            self._confirm(uuid, server)
        before = server.guest
        number = self._rows.add(
            "migrations",
            self._skew,
            instance_uuid=uuid,
            status="migrating",
            migration_type="migration" if before.size == guest.size else "resize",
            source_compute=server.host.name,
            source_node=server.host.name,
            dest_compute=self.name,
            dest_node=self.name,
            old_instance_type_id=_number(before),
            new_instance_type_id=_number(guest),
        )
        server.move = _Move(number, server.host, self, before, guest)
        self._keep(uuid, cur=before, old=before, new=guest)
        self._write(uuid, vm_state="active", task_state="resize_migrating")
        after = MIGRATES * self._simulator.order.random()
        world = self._simulator.world
        self._simulator.call_as(world, after, self._arrive, uuid, server, server.move)
        if server.host is self:
            arguments = CONFIRMS, self._confirm, uuid, server, server.move
            self._simulator.call_as(world, *arguments)

    def _arrive(self, uuid: str, server: _Server, move: _Move) -> None:
        """Be there, as long as the move is neither confirmed nor reverted."""
        if server.move is move and not move.has_arrived:
            move.has_arrived, server.host, server.guest = True, self, move.after
            self._keep(uuid, cur=move.after, old=move.before, new=move.after)
            self._write(uuid, vm_state="resized", task_state=None, **self._place(move.after))
            self._rows.change("migrations", ("id", move.number), status="finished")

    def _confirm(self, uuid: str, server: _Server, only: _Move | None = None) -> None:
        move = server.move
        if move and only in (None, move):
            move.destination._arrive(uuid, server, move)
            server.move = None
            self._keep(uuid, cur=move.after)
            self._write(uuid, vm_state="active")
            self._rows.change("migrations", ("id", move.number), status="confirmed")

    def _revert(self, uuid: str, server: _Server, move: _Move) -> None:
        self._arrive(uuid, server, move)
        server.move, server.host, server.guest = None, move.source, move.before
        self._keep(uuid, cur=move.before)
        self._write(uuid, vm_state="active", **move.source._place(move.before))
        self._rows.change("migrations", ("id", move.number), status="reverted")

    def _end(self, uuid: str, server: _Server | None) -> None:
        """Confirm or revert a move with the end of a guest, or delete the instance."""
        if server is None:
            return
        move = server.move
        if move and move.source is not move.destination:
            if self is move.source:
                self._confirm(uuid, server)
            else:
                self._revert(uuid, server, move)
        elif server.host is self:
            del self._cloud.servers[uuid]
            self._write(uuid, task_state="deleting")
            if move:
                self._rows.change("migrations", ("id", move.number), status="confirmed")
            after = self._simulator.order.random()
            self._simulator.call_as(self._simulator.world, after, self._delete, uuid)

    def _delete(self, uuid: str) -> None:
        at = self._rows.stamp(self._skew)
        row = {"deleted_at": at, "vm_state": "deleted", "task_state": None}
        text = "SELECT id, updated_at FROM instances WHERE uuid = ? AND deleted = 0"
        number, stamp = self._rows.connection.execute(text, [uuid]).fetchone()
        # Nova stamps no deletion.
        self._rows.change("instances", ("id", number), deleted=number, updated_at=stamp, **row)

    def _place(self, guest: Guest) -> dict[str, Any]:
        return {"host": self.name, "node": self.name, **_size(guest)}

    def _write(self, uuid: str, **values: Any) -> None:
        self._rows.change("instances", ("uuid", uuid), self._skew, **values)

    def _keep(self, uuid: str, **flavors: Guest) -> None:
        flavor = _flavors(**flavors)
        self._rows.change("instance_extra", ("instance_uuid", uuid), self._skew, flavor=flavor)


def _size(guest: Guest) -> dict[str, Any]:
    size = {"vcpus": guest.vcpus, "memory_mb": guest.memory_mb, "root_gb": guest.root_gb}
    return size | {"instance_type_id": _number(guest)}


def _number(guest: Guest) -> int:
    return 1 + FLAVORS.index((guest.vcpus, guest.memory_mb, guest.root_gb))


def _flavors(**guests: Guest) -> str:
    """Return the document of an instance's flavors by their part in it."""
    sizes = {part: {**_size(each), "swap": 0} for part, each in guests.items()}
    found = {part: a_flavor(each.pop("instance_type_id"), **each) for part, each in sizes.items()}
    return json.dumps({"cur": None, "old": None, "new": None} | found)
