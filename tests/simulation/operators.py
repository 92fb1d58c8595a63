# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Operators, who do what their commands do, again where the database is away."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import Any

from inventory import audit_log
from inventory.audit_log import ACTOR, EntryFilter
from inventory.claims import claims, existing, group_locks, standby_rows
from inventory.claims.types import ClaimLost
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import InUse, OperationRefused
from inventory.objects.aggregate import FAILURE_DOMAIN
from inventory.operations import aggregate_operations, reservation_operations, service_operations
from inventory.operations.reservation_operations import NewReservation
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning.types import Place, PlannedMove
from scheduler.operators.reserving import NoRoom, reserve
from tests.builders import a_request
from tests.simulation.actors import LEASE, configuration
from tests.simulation.callers import Order
from tests.simulation.database import SimulatedDatabase
from tests.simulation.kernel import Actor, Simulator
from tests.simulation.model import Model, Violation
from tests.simulation.plan import FLAVORS, TENANT, Event

ZONES = aggregate_operations.ZoneRules("nova")


class Operator:
    """Does what an operator does with commands, again where the database is away."""

    def __init__(
        self,
        simulator: Simulator,
        model: Model,
        orders: dict[int, Order],
        database: SimulatedDatabase,
    ) -> None:
        self._simulator, self._model, self._orders = simulator, model, orders
        person = audit_log.Actor("operator", "console", "berthmaster")
        self._is_logged = False
        self._databases = {False: database.open(), True: database.open(**{ACTOR: person})}
        self._conf = configuration("operator")
        self._actor = Actor("operator")
        self._one_at_a_time = Lock()
        # How many operations have begun and are not done.
        self.under_way = 0
        self.fail: Callable[[Violation], None]
        self.ask_again: Callable[[Order], None]

    def begin(self, event: Event) -> None:
        """Begin an operation."""
        self.under_way += 1
        self._simulator.run_as(self._actor, self._do, event)

    def _do(self, event: Event) -> None:
        # What was told holds until the next operation begins.
        with self._one_at_a_time:
            self._repeat(event)
        self.under_way -= 1

    def _repeat(self, event: Event) -> None:
        how = {key: each for key, each in event.how.items() if key not in ("does", "logged")}
        self._is_logged = event.how.get("logged", False)
        for _ in range(100):
            try:
                getattr(self, f"_{event.how['does']}")(**how)
                self._simulator.log(f"done: {event}")
                return
            except (OperationRefused, NoRoom) as refusal:
                self._simulator.log(f"refused: {event}: {refusal}")
                return
            except DatabaseUnavailable:
                time.sleep(2.0)
            except Violation as violation:
                self.fail(violation)
                return

    @property
    def _database(self) -> Database:
        return self._databases[self._is_logged]

    def _write(self, work: Callable[..., Any], **arguments: Any) -> Any:
        return self._database.write_once(partial(work, **arguments))

    def _disable(self, host: str) -> None:
        self._write(service_operations.disable, hosts=[host])
        self._model.disabled.add(host)

    def _enable(self, host: str) -> None:
        self._model.disabled.discard(host)
        self._write(service_operations.enable, hosts=[host])

    def _fence(self, host: str) -> None:
        self._write(service_operations.force_down, hosts=[host])

    def _unfence(self, host: str) -> None:
        self._write(service_operations.force_down, hosts=[host], down=False)

    def _look(self, host: str | None = None) -> None:
        """Look at the claims, of which all are told, and nothing that is not so."""
        rows, listed, figures = self._database.read(
            lambda each: (
                self._model.rows,
                existing.listed(each, host, None, confirmed=True),
                existing.pending(each),
            )
        )
        claims = [each for each in rows.claims if host in (None, each["host"])]
        known = sorted((each["id"], each["state"]) for each in claims)
        pending = sum(each["state"] == "pending" for each in rows.claims)
        if sorted((each["id"], each["state"]) for each in listed) != known:
            raise Violation("what an operator was told", f"the claims are {known}: {listed}")
        if figures.number != pending:
            text = f"{pending} claims are pending: {figures}"
            raise Violation("what an operator was told", text)
        if host is not None:
            self._look_further()

    def _look_further(self) -> None:
        """Look at the claims that wait, one by one, and at the protected instances."""

        def look(connection: Any) -> tuple[Any, ...]:
            rows = self._model.rows
            return (
                rows,
                existing.states(connection, {each["instance_uuid"] for each in rows.claims}),
                existing.waiting(connection),
                standby_rows.protected(connection),
                standby_rows.protected(connection, TENANT, without=True),
            )

        rows, states, ages, protected, lacking = self._database.read(look)
        waiting = {each["instance_uuid"] for each in rows.claims if each["state"] == "pending"}
        inside = {each["instance_uuid"]: each["taken_by"] for each in rows.places()}
        uuids = [each["instance_uuid"] for each in rows.standbys]
        covered = sorted(inside.get(uuid) or uuid for uuid in uuids)
        known = {
            (each["instance_uuid"], each["compute_node_id"]): each["state"] for each in rows.claims
        }
        if states != known:
            raise Violation("what an operator was told", f"the states are {known}: {states}")
        if ages.keys() != waiting:
            raise Violation("what an operator was told", f"{waiting} wait: {ages}")
        if sorted(each["instance"] for each in protected) != covered:
            raise Violation("what an operator was told", f"{covered} are protected: {protected}")
        if any(each["standby"] or each["project"] != TENANT for each in lacking):
            raise Violation("what an operator was told", f"these have no standby: {lacking}")

    def _prune(self) -> None:
        """Delete the rows of server groups that nobody holds, as schedulers do now and then."""
        group_locks.prune(self._database)

    def _release(self, of: int) -> None:
        """Release claims of a request whose caller has given up, and asks again then.

        They are those of its first instance or of some more, up to all of them.
        """
        over = [each for each in self._orders.values() if each.is_given_up]
        if over:
            order = over[of % len(over)]
            released = order.uuids[: 1 + of // 2 % len(order.uuids)]
            self._model.released(f"req-{order.number}", released)
            with suppress(ClaimLost):
                self._write(claims.release, uuids=released)
            self.ask_again(order)

    def _isolate(self, host: str) -> None:
        name = f"only-{host}"
        with suppress(InUse):
            properties = {"filter_tenant_id": TENANT}
            self._write(aggregate_operations.create, name=name, properties=properties)
        self._write(aggregate_operations.add_hosts, text=name, hosts=[host], zones=ZONES)
        self._model.projects[host] = TENANT

    def _share(self, host: str) -> None:
        self._model.projects.pop(host, None)
        name = f"only-{host}"
        self._write(aggregate_operations.remove_hosts, text=name, hosts=[host], zones=ZONES)

    def _rack(self, hosts: list[str]) -> None:
        properties = {FAILURE_DOMAIN: "rack"}
        self._write(aggregate_operations.create, name="rack", properties=properties)
        self._write(aggregate_operations.add_hosts, text="rack", hosts=hosts, zones=ZONES)
        self._model.rack.update(hosts)

    def _reserve(self, name: str, places: int, flavor: int = 0, **more: Any) -> None:
        vcpus, memory_mb, root_gb = FLAVORS[flavor]
        live = LiveHosts.of(self._conf, self._database, 0.0)
        new = NewReservation(name, TENANT, (vcpus, memory_mb, 1024 * root_gb), **more)
        spec = a_request(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, project_id=TENANT)
        uuid = reserve(live, new, spec, places)
        self._model.reserved[uuid] = places
        if new.failover:
            self._model.with_standbys[uuid] = new.size

    def _unreserve(self, name: str) -> None:
        # Which of them it is, is known only then.
        kept, self._model.reserved = self._model.reserved, {}
        gone = self._write(reservation_operations.delete, texts=[name])
        ids = {each["id"] for each in gone}
        self._model.reserved |= {uuid: each for uuid, each in kept.items() if uuid not in ids}

    def _plan(self, of: int, host: str) -> None:
        there = [(each, uuid) for each in self._orders.values() for uuid in each.hosts]
        if not there:
            return
        order, uuid = there[of % len(there)]
        source = order.hosts[uuid]
        if source == host:
            return
        move = PlannedMove(uuid, Place(source, source), Place(host, host), 0, 0, "live", "plan")
        fleet: Any = SimpleNamespace(residents={uuid: SimpleNamespace(spec=order.spec(set()))})
        live = LiveHosts.of(self._conf, self._database, 0.0)
        found = hold_room(self._conf, live, fleet, [move], None)
        self._simulator.log(f"plan: {found}")
        if self._is_logged and any(each["held"] for each in found):
            # As a plan does while it waits for its moves.
            with suppress(ClaimLost):
                self._write(claims.renew, kept={(host, uuid)}, lease=LEASE)
            entries = self._database.read(
                lambda each: audit_log.search(each, EntryFilter(host=host), 20)
            )
            if uuid not in [each["name"] for each in entries]:
                raise Violation("what an operator was told", f"no entry has the claim of {uuid}")
