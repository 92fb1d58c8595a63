# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that every history keeps, checked by requests, answers, guests and rows alone."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compute_agent.virt.driver import Guest
from scheduler.wire.errors import NoValidHost
from tests.simulation.actors import DISK_GB, LEASE, MEMORY_MB
from tests.simulation.exact import Parts, Used
from tests.simulation.rows import COMING, Amounts, Rows, amounts, size_of, summed


class Violation(Exception):
    """Something is not true; rule is which of the rules, for comparing two histories."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


@dataclass(slots=True, eq=False)
class Promise:
    """What the caller of a request was answered: for each instance its host and alternates.

    It ends until the lease does, or when the caller has used it.
    """

    request: str
    hosts: Mapping[str, Sequence[str]]
    until: float
    is_open: bool = True


class Model:
    """Checks each commit, each answer and each build.

    cells is how many a host has, now returns the time, and guests those that run on a host.
    """

    def __init__(
        self,
        vcpus: int,
        cells: int,
        now: Callable[[], float],
        guests: Callable[[str], Mapping[str, Guest]],
    ) -> None:
        self._room: Amounts = (vcpus, vcpus * MEMORY_MB, vcpus * DISK_GB * 1024)
        self._cells = cells
        self._now, self._guests = now, guests
        self.rows = Rows()
        self._known: set[Any] = set()
        self._known_standbys: set[int] = set()
        self._answers: dict[str, tuple[Any, float]] = {}
        self._promises: dict[str, Promise] = {}
        # What operators were told: hosts that are disabled, the only project of a host, and how
        # many places each reservation has.
        self.disabled: set[str] = set()
        self.projects: dict[str, str] = {}
        self.reserved: dict[str, int] = {}
        # How large the places are of the reservations that have standbys.
        self.with_standbys: dict[str, Amounts] = {}
        self.rack: set[str] = set()
        # What callers have asked for: members of groups, and instances with standbys.
        self.groups: dict[str, tuple[str, set[str]]] = {}
        self.required: set[str] = set()
        # Instances that were on a host that has died, and places that have left one.
        self.lost: set[str] = set()
        # With these hosts, whose rows of them stay until their agents are back.
        self._left: set[tuple[str, str]] = set()

    def committed(self, rows: Rows) -> None:
        """Check what a transaction has left."""
        before, self.rows = self.rows, rows
        moved = rows.moved_places(before)
        self._check_moved(moved, before)
        self.lost |= moved
        refuges = {host for uuid in self.lost for host in rows.hosts_of(uuid)}
        for number, node in rows.nodes.items():
            # What was evacuated may have what standbys hold until the keeper looks.
            is_refuge = node["host"] in refuges
            held = rows.held(number, self._guests(node["host"]), standbys=not is_refuge)
            self._check_fits(node["host"], held)
            self._check_exact(number, node)
        self._check_groups()
        self._check_promises()
        self._check_told()
        self._check_domains()
        self._check_places()
        self._known = {_key(each) for each in rows.claims}
        self._known_standbys = {each["id"] for each in rows.standbys}

    def _check_fits(self, host: str, held: Amounts) -> None:
        if any(mine > room for mine, room in zip(held, self._room, strict=True)):
            text = f"{host} has {self._room}, and holds {held}"
            raise Violation("more promised than fits", text)

    def _check_exact(self, number: int, node: Mapping[str, Any], is_over: bool = False) -> None:
        """Check cells, CPUs and devices; once all is over, also what the row says of them."""
        if not self._cells:
            return
        here = [each for each in self.rows.of_instances() if each["compute_node_id"] == number]
        used = Used.of(here, self._guests(node["host"]), COMING)
        if excess := used.excess(self._cells, *self._room[:2]):
            raise Violation("more promised than fits", f"{node['host']}: {excess}")
        if is_over and (text := used.differs(node)):
            raise Violation("counted, and nobody holds it", f"{node['host']}: {text}")

    def _check_groups(self) -> None:
        for name, (policy, members) in self.groups.items():
            hosts = {uuid: self.rows.hosts_of(uuid, policy == "apart") for uuid in members}
            number = Counter(host for each in hosts.values() for host in each)
            if policy == "apart" and max(number.values(), default=0) > 1:
                raise Violation("group policy", f"{name}: two members on {number}")
            # A member on the move is on two hosts, and may be where no other one is. A host that a
            # member has lost counts no more, though its row stays until the agent is back.
            left = {uuid: {host for lost, host in self._left if lost == uuid} for uuid in hosts}
            places = [each - left[uuid] for uuid, each in hosts.items() if each - left[uuid]]
            if policy == "together" and places and not set.intersection(*places):
                raise Violation("group policy", f"{name}: members on {sorted(number)}")

    def _check_promises(self) -> None:
        pending = Counter(
            each["instance_uuid"] for each in self.rows.claims if each["state"] == "pending"
        )
        for uuid, number in pending.items():
            if number > 1:
                raise Violation("one claim for an instance", f"{uuid} has {number}")
        for promise in self._promises.values():
            if promise.is_open and self._now() < promise.until:
                for uuid, hosts in promise.hosts.items():
                    lacking = {*hosts} - self.rows.hosts_of(uuid)
                    if lacking:
                        text = f"{uuid} of {promise.request} may come to {sorted(lacking)}"
                        raise Violation("a promise is not held", text)

    def _check_told(self) -> None:
        for each in self.rows.claims:
            if _key(each) in self._known or each["state"] == "confirmed":
                continue
            host, uuid = each["host"], each["instance_uuid"]
            if each["state"] == "pending" and uuid in self.required - self.lost:
                held = [row["compute_node_id"] for row in self.rows.standbys_of(uuid)]
                if not any(held):
                    raise Violation("standbys", f"{uuid} is claimed for without one: {held}")
            if host in self.disabled:
                raise Violation("what an operator was told", f"{host} is disabled: {each}")
            if each["project_id"] != self.projects.get(host, each["project_id"]):
                raise Violation("what an operator was told", f"{host} is isolated: {each}")
        number = Counter(each["reservation_uuid"] for each in self.rows.places())
        for uuid, places in self.reserved.items():
            if number[uuid] != places:
                raise Violation("reservations are kept", f"{uuid}: {number[uuid]} of {places}")

    def _check_domains(self) -> None:
        """Check that new standbys are outside of the failure domain whose loss they cover."""
        for each in self.rows.standbys:
            node = self.rows.nodes.get(each["compute_node_id"])
            if node is None or each["id"] in self._known_standbys:
                continue
            place = self.rows.nodes[each["place_node_id"]]["host"]
            if place == node["host"] or {place, node["host"]} <= self.rack:
                text = f"{each['instance_uuid']} on {place} has one in its own domain: {each}"
                raise Violation("standbys", text)

    def _check_moved(self, places: Iterable[str], before: Rows) -> None:
        """Check that places have moved to where their standbys were."""
        for uuid in places:
            (at,) = {
                each["compute_node_id"]
                for each in self.rows.places()
                if each["instance_uuid"] == uuid
            }
            standbys = [
                each["compute_node_id"] for each in before.standbys if each["instance_uuid"] == uuid
            ]
            if at not in standbys:
                text = f"place {uuid} moved to node {at}, and had its standby on {standbys}"
                raise Violation("reservations are kept", text)

    def _check_places(self) -> None:
        """Check that each place that has to have a standby has one, for where it is."""
        for each in self.rows.places():
            if each["reservation_uuid"] in self.with_standbys:
                uuid, at = each["instance_uuid"], each["compute_node_id"]
                held = [row for row in self.rows.standbys if row["instance_uuid"] == uuid]
                if [row["place_node_id"] for row in held] != [at]:
                    raise Violation("standbys", f"place {uuid} on {each['host']} has {held}")

    def heard(self, request: str, answer: Any) -> None:
        """Check an answer, which may be lost on its way, against earlier ones to the request."""
        before, until = self._answers.get(request, (None, 0.0))
        is_said = not isinstance(answer, Exception) or isinstance(answer, NoValidHost)
        if before is not None and self._now() < until and is_said and before != answer:
            text = f"{request} got {before}, and then {answer}"
            raise Violation("same request, same answer", text)
        if not isinstance(answer, Exception):
            # Nobody may have got it, and its claim then ends with its lease.
            self._answers[request] = answer, self._now() + LEASE / 2

    def died(self, host: str) -> None:
        """A host has died: evacuations take the place of moves from there."""
        self._answers.clear()
        self.lost |= self._guests(host).keys()
        self._left |= {(uuid, host) for uuid in self._guests(host)}
        for promise in self._promises.values():
            # An instance that is there and was promised a host is on the move.
            promise.is_open &= promise.hosts.keys().isdisjoint(self._guests(host))

    def parts_of(self, uuid: str, host: str) -> Parts:
        """Return what the claim of an instance on a host holds, that of a move to it first."""
        mine = [each for each in self.rows.of_instances() if each["instance_uuid"] == uuid]
        there = [each for each in mine if each["host"] == host]
        there.sort(key=lambda each: each["state"] not in COMING)
        return Parts.of_claim(there[0]) if there else Parts()

    def forget(self, request: str) -> None:
        """A request is over: sent again, it is a new one."""
        self._answers.pop(request, None)

    def released(self, request: str, uuids: Collection[str]) -> None:
        """An operator has released what some instances of a request were promised."""
        self.forget(request)
        if promise := self._promises.get(request):
            before = promise.hosts.items()
            promise.hosts = {uuid: each for uuid, each in before if uuid not in uuids}

    def promised(self, promise: Promise) -> None:
        """A caller has got an answer, and may build by it."""
        self._promises[promise.request] = promise
        self._left -= {(uuid, host) for uuid, hosts in promise.hosts.items() for host in hosts}
        self._check_promises()

    def landed(self, host: str, guests: Mapping[str, Guest]) -> None:
        """A guest was started on a host."""
        taken = summed(size_of(each) for each in guests.values())
        if any(mine > room for mine, room in zip(taken, self._room, strict=True)):
            text = f"{host} has {self._room}, and its guests take {taken}"
            raise Violation("more promised than fits", text)
        for number, node in self.rows.nodes.items():
            if node["host"] == host:
                self._check_exact(number, node)

    def settled(self, guests: Mapping[str, Mapping[str, Guest]], protected: Iterable[str]) -> None:
        """Check what is left some time after all is over; guests are those of each host."""
        rows = self.rows
        for each in rows.of_instances():
            if each["state"] in COMING:
                raise Violation("counted, and nobody holds it", f"{each}")
        seen = {(each["uuid"], each["host"]) for each in rows.instances}
        there = {(uuid, host) for host, each in guests.items() for uuid in each}
        if seen != there:
            raise Violation("counted, and nobody holds it", f"instances {sorted(seen ^ there)}")
        for number, node in rows.nodes.items():
            counted = (node["vcpus_used"], node["memory_mb_used"], node["disk_mb_used"])
            held = rows.held(number, self._guests(node["host"]))
            if counted != held:
                text = f"{node['host']} counts {counted}, and {held} is held"
                raise Violation("counted, and nobody holds it", text)
            self._check_fits(node["host"], held)
            self._check_exact(number, node, is_over=True)
        self._check_standbys({uuid for uuid, _ in there}, protected)
        for each in rows.places():
            if each["taken_by"] and (each["taken_by"], each["host"]) not in there:
                raise Violation("reservations are kept", f"its instance is gone: {each}")

    def _check_standbys(self, living: set[str], protected: Iterable[str]) -> None:
        places = {each["instance_uuid"]: each for each in self.rows.places()}
        uuids = [each["instance_uuid"] for each in self.rows.standbys]
        if gone := {*uuids} - living - places.keys():
            raise Violation("standbys", f"of what is gone: {sorted(gone)}")
        if twice := [uuid for uuid, number in Counter(uuids).items() if number > 1]:
            raise Violation("standbys", f"held twice: {twice}")
        for uuid in sorted({*protected} & living):
            held = [amounts(each)[:2] for each in self.rows.standbys_of(uuid)]
            for row in (each for each in self.rows.instances if each["uuid"] == uuid):
                if not any(row["vcpus"] <= cpus and row["memory_mb"] <= mb for cpus, mb in held):
                    raise Violation("standbys", f"{held} is smaller than the instance {row}")
        for each in self.rows.standbys:
            uuid, at = each["instance_uuid"], self.rows.nodes[each["place_node_id"]]["host"]
            if at not in self.rows.hosts_of(uuid):
                raise Violation("standbys", f"{uuid} is not on {at}")
            size = self.with_standbys.get(places.get(uuid, each).get("reservation_uuid"))
            if size and any(mine < its for mine, its in zip(amounts(each), size, strict=True)):
                raise Violation("standbys", f"smaller than its place, {size}: {each}")
            if node := self.rows.nodes.get(each["compute_node_id"]):
                both = {at, node["host"]}
                if len(both) == 1 or both <= self.rack:
                    raise Violation("standbys", f"{uuid} has one in its own domain: {both}")
            elif not each["reason"]:
                raise Violation("standbys", f"{uuid} has no standby, and its row has no reason")


def _key(claim: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a claim from those before, whose row it may have taken over."""
    return claim["id"], claim["instance_uuid"], claim["host"], claim["created_at"]
