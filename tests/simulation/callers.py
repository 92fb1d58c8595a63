# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Conductors, who ask until they are answered, build, move and delete; and operators."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import eventlet

from compute_agent.virt.driver import Guest
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.errors import InUse, OperationRefused
from inventory.objects.aggregate import FAILURE_DOMAIN
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.standby import EXTRA_SPEC
from inventory.operations import aggregate_operations, reservation_operations, service_operations
from inventory.operations.reservation_operations import NewReservation
from scheduler.objects.request_spec import RequestSpec, SchedulerRetries, TriedHost
from scheduler.operators.cli.plan_claims import hold_room
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.planning.types import Place, PlannedMove
from scheduler.operators.reserving import NoRoom, reserve
from scheduler.wire.arguments import SelectArguments, encode_select_arguments
from scheduler.wire.errors import NoValidHost, SchedulerFailure, ServiceUnavailable
from scheduler.wire.replies import decode_destinations
from tests.builders import a_flavor, a_request
from tests.simulation.actors import LEASE, Agent, configuration
from tests.simulation.broker import Broker, NoAnswer
from tests.simulation.kernel import Actor, Simulator
from tests.simulation.model import Model, Promise, Violation
from tests.simulation.plan import FLAVORS, FOREVER, Event, uuid_of

# Who may use isolated hosts, and whom reservations are for.
TENANT = "red"
ZONES = aggregate_operations.ZoneRules("nova")


@dataclass(slots=True, eq=False)
class Order:
    """A request of a user, and where its instances are by now."""

    number: int
    how: dict[str, Any]
    at: dict[str, str] = field(default_factory=dict)
    promise: Promise | None = None
    is_moving: bool = False

    @property
    def hosts(self) -> dict[str, str]:
        """Where its instances are, or are to be built."""
        coming = self.promise.hosts if self.promise else {}
        return {uuid: first for uuid, (first, *_) in coming.items()} | self.at

    @property
    def uuids(self) -> list[str]:
        return [uuid_of(self.number, place) for place in range(self.how["instances"])]

    def spec(self, members: set[str], **changes: Any) -> RequestSpec:
        """Return the request for its instances; members are those of its server group."""
        vcpus, memory_mb, root_gb = FLAVORS[self.how["flavor"]]
        specs = {EXTRA_SPEC: self.how["protected"]} if "protected" in self.how else {}
        flavor = a_flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, extra_specs=specs)
        if name := self.how.get("group"):
            policy = "anti-affinity" if name.startswith("apart") else "affinity"
            uuid = str(UUID(int=sum(name.encode())))
            changes["instance_group"] = InstanceGroup(uuid, policy, sorted(members), name=name)
        uuid, *more = changes.pop("uuids", self.uuids)
        return a_request(
            flavor=flavor,
            instance_uuid=uuid,
            num_instances=1 + len(more),
            project_id=self.how["project"],
            **changes,
        )


class Conductor:
    """Asks for hosts, and does as Nova does with the answer."""

    def __init__(
        self, simulator: Simulator, broker: Broker, model: Model, agents: dict[str, Agent]
    ) -> None:
        self._simulator, self._broker, self._model = simulator, broker, model
        self._agents = agents
        self._actor = Actor("conductor")
        self.orders: dict[int, Order] = {}
        # The requests whose callers still wait.
        self.waiting: set[str] = set()
        # How many builds, deletions and moves are still to come.
        self.under_way = 0
        self.fail: Callable[[Violation], None]

    def request(self, event: Event) -> None:
        """Begin with a request."""
        order = self.orders[event.how["request"]] = Order(event.how["request"], event.how)
        if name := order.how.get("group"):
            policy = name.partition("-")[0]
            _, members = self._model.groups.setdefault(name, (policy, set()))
            members.update(order.uuids)
        if order.how.get("protected") == "required":
            self._model.required.update(order.uuids)
        self._simulator.run_as(self._actor, self._boot, order)

    def move(self, event: Event) -> None:
        """Begin to move an instance, if it is anywhere."""
        there = [
            each
            for each in self.orders.values()
            if each.at and not each.is_moving and "together" not in each.how.get("group", "")
        ]
        if there:
            order = there[event.how["of"] % len(there)]
            self._simulator.run_as(self._actor, self._move, order, event.number)

    @property
    def protected(self) -> list[str]:
        """The instances that have to have a row of a standby."""
        orders = [each for each in self.orders.values() if "protected" in each.how]
        return [uuid for each in orders for uuid in each.at]

    def _boot(self, order: Order) -> None:
        spec = order.spec(self._members(order))
        promise = self._ask(order, f"req-{order.number}", spec, order.uuids)
        if promise and not order.how.get("abandoned"):
            order.promise = promise
            for uuid in order.uuids:
                self.under_way += 1
                eventlet.spawn_n(self._build, order, promise, uuid, 1)

    def _members(self, order: Order) -> set[str]:
        return self._model.groups.get(order.how.get("group", ""), ("", set[str]()))[1]

    def _ask(self, order: Order, key: str, spec: RequestSpec, uuids: list[str]) -> Promise | None:
        """Ask until there is an answer; return what it promises, None for no host."""
        self.waiting.add(key)
        promise = self._answered(order, key, spec, uuids)
        self.waiting.discard(key)
        return promise

    def _answered(
        self, order: Order, key: str, spec: RequestSpec, uuids: list[str]
    ) -> Promise | None:
        model, name = self._model, f"req-{order.number}" if "move" not in key else key
        context = {"request_id": name, "key": key}
        arguments = encode_select_arguments(SelectArguments(spec, [*uuids], True, True))
        while True:
            began = self._simulator.now
            try:
                answer = decode_destinations(self._broker.call(context, arguments))
                break
            except NoAnswer:
                self._simulator.log(f"no answer to {key}")
            except NoValidHost:
                self._simulator.log(f"no host for {key}")
                return None
            except SchedulerFailure as failure:
                self._simulator.log(f"refused {key}: {failure}")
                if not isinstance(failure, ServiceUnavailable):
                    self.fail(Violation("an answer for who asks", f"{key}: {failure}"))
                    return None
            if order.how.get("abandoned"):
                model.forget(key)
                return None
            time.sleep(1.0 + self._simulator.order.random())
        hosts = {
            uuid: [each.service_host for each in selections]
            for uuid, selections in zip(uuids, answer, strict=True)
        }
        self._simulator.log(f"answer to {key}: {hosts}")
        promise = Promise(key, hosts, began + LEASE)
        try:
            model.promised(promise)
        except Violation as violation:
            self.fail(violation)
        return promise

    def _build(self, order: Order, promise: Promise, uuid: str, attempt: int) -> None:
        """Build on the host of the answer, else on an alternate, else ask again."""
        time.sleep(2 * self._simulator.order.random())
        fails, hosts = order.how.get("fails", 0), promise.hosts[uuid]
        if attempt == 1 and fails >= len(hosts) > 0:
            promise.hosts = {key: each for key, each in promise.hosts.items() if key != uuid}
            self._model.forget(promise.request)
            tried = SchedulerRetries(2, [TriedHost(each, each) for each in hosts])
            spec = order.spec(self._members(order), uuids=[uuid], retry=tried)
            again = self._ask(order, f"req-{order.number}-again-{uuid}", spec, [uuid])
            if again:
                self._build(order, again, uuid, 2)
            else:
                self.under_way -= 1
            return
        host = hosts[fails if attempt == 1 else 0]
        if self._simulator.now < promise.until - 5:
            self._land(order, uuid, host)
        promise.hosts = {key: each for key, each in promise.hosts.items() if key != uuid}
        if order.how["lives"] == FOREVER:
            self.under_way -= 1
            return
        time.sleep(order.how["lives"])
        while order.is_moving:
            time.sleep(1.0)
        self._model.forget(promise.request)
        if host := order.at.pop(uuid, ""):
            self._agents[host].change(uuid, None)
            self._broker.cast("delete_instance_info", {"host_name": host, "instance_uuid": uuid})
        self.under_way -= 1

    def _land(self, order: Order, uuid: str, host: str) -> None:
        vcpus, memory_mb, root_gb = FLAVORS[order.how["flavor"]]
        project = order.how["project"]
        guest = Guest(uuid, uuid[-6:], vcpus, memory_mb, root_gb, project_id=project)
        self._simulator.log(f"{uuid} runs on {host}")
        agent, order.at[uuid] = self._agents[host], host
        agent.change(uuid, guest)
        try:
            self._model.landed(host, agent.guests)
        except Violation as violation:
            self.fail(violation)

    def _move(self, order: Order, number: int) -> None:
        order.is_moving = True
        self.under_way += 1
        uuid, source = next(iter(order.at.items()))
        spec = order.spec(self._members(order), uuids=[uuid], ignore_hosts=[source])
        promise = self._ask(order, f"req-move-{number}", spec, [uuid])
        if promise:
            time.sleep(2 * self._simulator.order.random())
            if self._simulator.now < promise.until - 5:
                self._land(order, uuid, promise.hosts[uuid][0])
                promise.is_open = False
                time.sleep(1.0)
                self._agents[source].change(uuid, None)
            promise.is_open = False
        order.is_moving = False
        self.under_way -= 1


class Operator:
    """Does what an operator does with commands, again where the database is away."""

    def __init__(
        self, simulator: Simulator, model: Model, orders: dict[int, Order], database: Database
    ) -> None:
        self._simulator, self._model, self._orders = simulator, model, orders
        self._database = database
        self._conf = configuration("operator")
        self._actor = Actor("operator")
        self._one_at_a_time = Lock()

    def begin(self, event: Event) -> None:
        """Begin an operation."""
        self._simulator.run_as(self._actor, self._do, event)

    def _do(self, event: Event) -> None:
        # What was told holds until the next operation begins.
        with self._one_at_a_time:
            self._repeat(event)

    def _repeat(self, event: Event) -> None:
        how = {key: each for key, each in event.how.items() if key != "does"}
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

    def _write(self, work: Callable[..., Any], **arguments: Any) -> Any:
        return self._database.write_once(partial(work, **arguments))

    def _disable(self, host: str) -> None:
        self._write(service_operations.disable, hosts=[host])
        self._model.disabled.add(host)

    def _enable(self, host: str) -> None:
        self._model.disabled.discard(host)
        self._write(service_operations.enable, hosts=[host])

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

    def _reserve(self, name: str, places: int) -> None:
        vcpus, memory_mb, root_gb = FLAVORS[0]
        live = LiveHosts.of(self._conf, self._database, 0.0)
        new = NewReservation(name, TENANT, (vcpus, memory_mb, 1024 * root_gb))
        spec = a_request(vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, project_id=TENANT)
        self._model.reserved[reserve(live, new, spec, places)] = places

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
