# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Conductors, who ask until they are answered, build, move, resize, evacuate and delete."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import eventlet
from eventlet.semaphore import Semaphore

from compute_agent.virt.driver import Guest
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.standby import EXTRA_SPEC
from scheduler.objects.request_spec import RequestSpec, SchedulerRetries, TriedHost
from scheduler.wire.arguments import SelectArguments, encode_select_arguments
from scheduler.wire.errors import InvalidInput, NoValidHost, SchedulerFailure, ServiceUnavailable
from scheduler.wire.replies import decode_destinations
from tests.builders import a_flavor, a_request
from tests.simulation import exact
from tests.simulation.actors import LEASE, Agent
from tests.simulation.broker import Broker, NoAnswer
from tests.simulation.kernel import Actor, Simulator
from tests.simulation.model import Model, Promise, Violation
from tests.simulation.nova_cloud import Compute
from tests.simulation.plan import FLAVORS, FOREVER, Event, uuid_of

# How many requests conductors have at a time, which we chose: the others wait, as for a thread.
THREADS = 24
Host = Agent | Compute
IsOver = Callable[[], bool]


@dataclass(slots=True, eq=False)
class Order:
    """A request of a user, and where its instances are by now."""

    number: int
    how: dict[str, Any]
    at: dict[str, str] = field(default_factory=dict)
    promise: Promise | None = None
    # Whether its caller has given up, and nobody will build it.
    is_given_up: bool = False
    # How many of its instances are on the move, and the flavors of those that were resized.
    moving: int = 0
    flavors: dict[str, int] = field(default_factory=dict)
    # What was asked for at first: asked for again with more members, it would be another request.
    boot: RequestSpec | None = None

    @property
    def hosts(self) -> dict[str, str]:
        """Where its instances are, or are to be built."""
        coming = self.promise.hosts if self.promise else {}
        return {uuid: first for uuid, (first, *_) in coming.items()} | self.at

    @property
    def uuids(self) -> list[str]:
        return [uuid_of(self.number, place) for place in range(self.how["instances"])]

    def flavor(self, uuid: str) -> int:
        """Return the number of the flavor of an instance."""
        return self.flavors.get(uuid, self.how["flavor"])

    def spec(self, members: set[str], flavor: int | None = None, **changes: Any) -> RequestSpec:
        """Return the request for its instances; members are those of its server group."""
        uuid, *more = changes.pop("uuids", self.uuids)
        vcpus, memory_mb, root_gb = FLAVORS[self.flavor(uuid) if flavor is None else flavor]
        specs = {EXTRA_SPEC: self.how["protected"]} if "protected" in self.how else {}
        changes["flavor"] = a_flavor(
            vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, extra_specs=specs
        )
        if name := self.how.get("group"):
            policy = "anti-affinity" if name.startswith("apart") else "affinity"
            group_uuid = str(UUID(int=sum(name.encode())))
            group = InstanceGroup(group_uuid, policy, sorted(members), name=name)
            changes["instance_group"] = group
        if "cells" in self.how:
            changes |= exact.asked_for(self.how, vcpus, memory_mb)
        return a_request(
            instance_uuid=uuid,
            num_instances=1 + len(more),
            project_id=self.how["project"],
            **changes,
        )


class Conductor:
    """Asks for hosts, and does as Nova does with the answer."""

    def __init__(
        self, simulator: Simulator, broker: Broker, model: Model, agents: Mapping[str, Host]
    ) -> None:
        self._simulator, self._broker, self._model = simulator, broker, model
        self._agents = agents
        self._actor = Actor("conductor")
        self._threads = Semaphore(THREADS)
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

    def ask_again(self, order: Order) -> None:
        """Let a caller who has given up ask once more for the same."""
        self._simulator.run_as(self._actor, self._boot, order)

    def move(self, event: Event) -> None:
        """Begin to move an instance, if it is anywhere."""
        there = [
            each
            for each in self.orders.values()
            if each.at and not each.moving and "together" not in each.how.get("group", "")
        ]
        if there:
            order = there[event.how["of"] % len(there)]
            self._simulator.run_as(self._actor, self._move, order, event)

    def lose(self, event: Event) -> None:
        """Let the guests of a host be lost, and evacuate them."""
        host = event.how["of"]
        self._model.died(host)
        self._agents[host].lose()
        for order in self.orders.values():
            for uuid in [uuid for uuid, at in order.at.items() if at == host]:
                work = self._evacuate, order, uuid, event.number
                self._simulator.run_as(self._actor, *work)

    @property
    def protected(self) -> list[str]:
        """The instances that have to have a row of a standby."""
        orders = [each for each in self.orders.values() if "protected" in each.how]
        return [uuid for each in orders for uuid in each.at]

    def _boot(self, order: Order) -> None:
        order.boot = order.boot or order.spec(self._members(order))
        promise = self._ask(order, f"req-{order.number}", order.boot, order.uuids)
        order.is_given_up = order.how.get("abandoned", False)
        if promise and not order.is_given_up:
            order.promise = promise
            for uuid in order.uuids:
                self.under_way += 1
                eventlet.spawn_n(self._build, order, promise, uuid, 1)

    def _members(self, order: Order) -> set[str]:
        return self._model.groups.get(order.how.get("group", ""), ("", set[str]()))[1]

    def _ask(
        self,
        order: Order,
        key: str,
        spec: RequestSpec,
        uuids: list[str],
        is_over: IsOver = lambda: False,
    ) -> Promise | None:
        """Ask until there is an answer; return what it promises, None for no host.

        is_over is whether the answer comes too late to be used.
        """
        self.waiting.add(key)
        with self._threads:
            promise = self._answered(order, key, spec, uuids, is_over)
        self.waiting.discard(key)
        if promise is None or is_over():
            return None
        try:
            self._model.promised(promise)
        except Violation as violation:
            self.fail(violation)
        return promise

    def _answered(
        self, order: Order, key: str, spec: RequestSpec, uuids: list[str], is_over: IsOver
    ) -> Promise | None:
        is_boot = key.startswith(name := f"req-{order.number}")
        model, name = self._model, name if is_boot else key
        context = {"request_id": name, "key": key}
        arguments = encode_select_arguments(SelectArguments(spec, [*uuids], True, True))
        before = [order.at.get(uuid) for uuid in uuids]
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
            # A move that went on asking would replace the claim of the evacuation.
            if order.how.get("abandoned") or is_over():
                model.forget(key)
                return None
            time.sleep(1.0 + self._simulator.order.random())
        if before != [order.at.get(uuid) for uuid in uuids]:
            # As Nova ends a move whose instance has been evacuated.
            self._simulator.log(f"answer to {key} is not used: its instance is elsewhere by now")
            return None
        hosts = {
            uuid: [each.service_host for each in selections]
            for uuid, selections in zip(uuids, answer, strict=True)
        }
        self._simulator.log(f"answer to {key}: {hosts}")
        return Promise(key, hosts, began + LEASE)

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
            if again and order.how.get("late"):
                self._come_late(order)
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
        while order.moving:
            time.sleep(1.0)
        self._model.forget(promise.request)
        if host := order.at.pop(uuid, ""):
            self._agents[host].change(uuid, None)
            self._broker.cast("delete_instance_info", {"host_name": host, "instance_uuid": uuid})
        self.under_way -= 1

    def _come_late(self, order: Order) -> None:
        """Let the first call of a request come once more, which the second one has made old."""
        assert order.boot is not None
        arguments = SelectArguments(order.boot, order.uuids, True, True)
        name = f"req-{order.number}"
        context = {"request_id": name, "key": f"{name}-late"}
        try:
            self._broker.call(context, encode_select_arguments(arguments))
        except InvalidInput as refusal:
            self._simulator.log(f"refused {name}: {refusal}")
        except (NoAnswer, SchedulerFailure) as error:
            self._simulator.log(f"no answer to {name}: {error}")
        else:
            self.fail(Violation("one claim for an instance", f"{name} came late, and was answered"))

    def _land(self, order: Order, uuid: str, host: str) -> bool:
        """Start a guest; return whether there was a host to start it on."""
        vcpus, memory_mb, root_gb = FLAVORS[order.flavor(uuid)]
        project = order.how["project"]
        agent = self._agents[host]
        parts = self._model.parts_of(uuid, host).given(uuid, agent.guests.values())
        guest = Guest(uuid, uuid[-6:], vcpus, memory_mb, root_gb, project_id=project, **parts)
        self._simulator.log(f"{uuid} runs on {host}")
        if agent.is_lost:
            return False
        order.at[uuid] = host
        agent.change(uuid, guest)
        try:
            self._model.landed(host, agent.guests)
        except Violation as violation:
            self.fail(violation)
        return True

    def _move(self, order: Order, event: Event) -> None:
        """Move an instance, or resize it, which may leave it where it is."""
        how, (uuid, source) = event.how, next(iter(order.at.items()))
        before, after = order.flavor(uuid), how.get("flavor")
        # As Nova says that it may stay there.
        ignored = [] if after is not None and not how["goes"] else [source]
        spec = order.spec(self._members(order), after, uuids=[uuid], ignore_hosts=ignored)

        def is_over() -> bool:
            # Nothing moves from a host that has died: the evacuation takes the place of the move.
            return uuid not in self._agents[source].guests

        with self._moving(order):
            promise = self._ask(order, f"req-move-{event.number}", spec, [uuid], is_over)
            if not promise:
                return
            if after is not None:
                order.flavors[uuid] = after
            host = promise.hosts[uuid][0]
            if not self._lands(order, uuid, promise, is_over):
                order.flavors[uuid] = before
            elif host != source:
                time.sleep(1.0)
                if how.get("reverts") and uuid in self._agents[source].guests:
                    order.flavors[uuid], order.at[uuid] = before, source
                    source = host
                self._agents[source].change(uuid, None)

    def _evacuate(self, order: Order, uuid: str, number: int) -> None:
        """Build an instance elsewhere whose host is lost, or give it up."""
        with self._moving(order):
            # Until the operator has said that the host is down.
            time.sleep(1.0)
            source = order.at.get(uuid, "")
            if not source or uuid in self._agents[source].guests:
                return
            spec = order.spec(self._members(order), uuids=[uuid], ignore_hosts=[source])
            promise = self._ask(order, f"req-evacuation-{number}-{uuid}", spec, [uuid])
            if not promise or not self._lands(order, uuid, promise):
                order.at.pop(uuid, None)
                gone = {"host_name": source, "instance_uuid": uuid}
                self._broker.cast("delete_instance_info", gone)

    @contextmanager
    def _moving(self, order: Order) -> Iterator[None]:
        order.moving += 1
        self.under_way += 1
        yield
        order.moving -= 1
        self.under_way -= 1

    def _lands(
        self, order: Order, uuid: str, promise: Promise, is_over: IsOver = lambda: False
    ) -> bool:
        """Start a guest as promised after a while, unless that takes too long, or it is over."""
        time.sleep(2 * self._simulator.order.random())
        is_in_time = self._simulator.now < promise.until - 5 and not is_over()
        landed = is_in_time and self._land(order, uuid, promise.hosts[uuid][0])
        promise.is_open = False
        return landed
