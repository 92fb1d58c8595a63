# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Histories of claims, guests and audits: after every step the database says what the ledger says.

Each step is done in the database and foretold by the ledger, which is kept in plain Python.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inventory import compute_nodes, tables
from inventory.claims import claims, group_locks
from inventory.claims.repeats import PartlyAnswered
from inventory.claims.types import (
    Changes,
    Claim,
    ClaimLost,
    ClaimRequest,
    ClaimResult,
    GroupRule,
    NodeDocuments,
)
from inventory.engine import Database
from inventory.objects import node_json
from tests.claimed import age_claims, released_on
from tests.contract.database import claims_fleet
from tests.contract.database.claims_fleet import GB, HOSTS, Agents, guest_cells, limits
from tests.contract.database.claims_model import (
    ALTERNATE,
    CONFIRMED,
    PENDING,
    Guest,
    Held,
    Ledger,
    Taken,
    memory_of_cell,
)
from tests.databases import a_uuid, empty

# How many of a group may share a host; None for those that must.
GROUPS: dict[str, int | None] = {"apart": 1, "pairs": 2, "together": None}
FAMILIES = {
    family: [a_uuid(f"{family} {number}") for number in range(3)] for family in (*GROUPS, "single")
}
# Enough for requests that come together.
CROWD = [a_uuid(f"crowd {number}") for number in range(16)]
UUIDS = [uuid for uuids in FAMILIES.values() for uuid in uuids]
# Some of their disks are no whole GB.
SIZES = (
    Taken(1, 1024, GB + 100),
    Taken(2, 2048, 3 * GB),
    Taken(3, 4096, 5 * GB + 1023),
    Taken(0, 512, 1),
)
# What instances may want of the documents of a host.
KINDS = {
    "alpha": ("plain",),
    "beta": ("plain", "floating", "pinned"),
    "gamma": ("plain", "devices"),
}
LONG_AGO = "2020-01-01 00:00:00.000000"


@dataclass(frozen=True)
class Wanted:
    """A claim that a request makes; what it takes of cells and devices is fitted already."""

    uuid: str
    host: str
    taken: Taken
    alternate: bool = False
    in_place: bool = False


@dataclass(frozen=True)
class Request:
    """What a scheduler has decided; generations are those of the documents that it has changed."""

    name: str
    digest: str
    wanted: tuple[Wanted, ...]
    group: str | None = None
    limited: bool = True
    generations: tuple[tuple[str, int], ...] = ()
    texts: tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...] = ()

    @property
    def chosen(self) -> list[Wanted]:
        return [each for each in self.wanted if not each.alternate]


class Verdict(Exception):
    """The request is lost; the ledger has foretold it."""


host_names, uuids = st.sampled_from(list(HOSTS)), st.sampled_from(UUIDS)
# Of so many things as there are at the time, one.
whiches = st.integers(0, 11)
choices = st.lists(
    st.tuples(st.integers(0, 2), host_names, st.sampled_from(SIZES), whiches),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each[0],
)


class ClaimsMachine(RuleBasedStateMachine):
    """One history on one database."""

    def __init__(self, database: Database, agents: Agents) -> None:
        super().__init__()
        self.database, self.agents = database, agents
        self.requests: list[Request] = []
        self.numbers = count()
        self.states: dict[str, str] = {}

    @initialize()
    def begin(self) -> None:
        empty(self.database)
        self.ledger: Ledger = claims_fleet.hosts()
        self.orders = 0
        self.agents.begin(self.database)
        group_locks.ensure(self.database, GROUPS)
        for host in HOSTS:
            self.agents.audit(host)
            self.ledger.audited(host)
        self.ids = {row.host: row.id for row in self.nodes().values()}

    # Requests.

    @rule(
        family=st.sampled_from(list(FAMILIES)),
        choices=choices,
        alternates=st.lists(st.tuples(st.integers(0, 2), host_names), max_size=2),
        limited=st.sampled_from([True, True, True, False]),
        stale=st.sampled_from([False] * 7 + [True]),
        same_name=st.booleans(),
    )
    def claim(self, family, choices, alternates, limited, stale, same_name) -> None:
        """Claim for new instances, or anew for those that are waiting, there, or on the move."""
        self._claim_for(family, choices, alternates, limited, stale, same_name)

    @rule(family=st.sampled_from(list(FAMILIES)), choice=choices.map(lambda each: each[0]))
    def claim_for_one(self, family, choice) -> None:
        self._claim_for(family, [choice], [])

    def _claim_for(
        self, family, choices, alternates, limited=True, stale=False, same_name=False
    ) -> None:
        rows = self.nodes()
        fitted = [
            Wanted(uuid, host, taken)
            for number, host, taken in self._fitted(rows, choices, not alternates)
            if not self._has_a_guest_of_its_own_kind(uuid := FAMILIES[family][number])
        ]
        if not fitted:
            return
        documented = {each.host for each in fitted if not each.taken.plain}
        wanted = list(fitted)
        for position, host in alternates:
            first = fitted[position % len(fitted)]
            places = {(each.uuid, each.host) for each in wanted}
            if (first.uuid, host) not in places:
                wanted.append(Wanted(first.uuid, host, first.taken, alternate=True))
        number = next(self.numbers)
        self.requests.append(
            Request(
                # A reschedule has the name of the first attempt, and says something else.
                name=self.requests[-1].name if same_name and self.requests else f"req-{number}",
                digest=f"digest {number}",
                wanted=tuple(wanted),
                group=family if family in GROUPS else None,
                limited=limited,
                generations=tuple((h, rows[h].generation - stale) for h in sorted(documented)),
                texts=tuple(
                    (host, tuple(self._documents(rows[host], fitted, host).items()))
                    for host in sorted(documented)
                ),
            )
        )
        self.submit(self.requests[-1])

    @rule(
        batch=st.lists(
            st.tuples(
                st.lists(st.sampled_from(CROWD), min_size=1, max_size=2, unique=True),
                *(host_names, st.sampled_from(SIZES), st.none() | host_names),
                st.none() | st.sampled_from([*GROUPS]),
            ),
            min_size=1,
            max_size=16,
        )
    )
    def claim_in_a_batch(self, batch) -> None:
        """Requests come at the same time, more than there is room for, and some come twice."""
        requests = []
        for uuids, host, size, spare, group in batch:
            if group:
                uuids = [
                    each for each in FAMILIES[group] if not self._has_a_guest_of_its_own_kind(each)
                ]
            wanted = [Wanted(uuid, host, size) for uuid in uuids[:2]]
            if wanted and spare not in (None, host):
                wanted.append(Wanted(uuids[0], spare, size, alternate=True))
            if wanted:
                name = f"req-{next(self.numbers)}"
                requests.append(Request(name, "batch", tuple(wanted), group))
        self.requests += requests
        self.submit_together(requests)

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(1, 6))
    def claim_again(self, which) -> None:
        """A request comes again: its caller has lost the answer, or the broker has."""
        request = self.requests[-min(which, len(self.requests))]
        if not any(self._has_a_guest_of_its_own_kind(each.uuid) for each in request.wanted):
            self.submit(request)

    @precondition(lambda self: self.known())
    @rule(which=whiches, size=st.sampled_from(SIZES))
    def claim_in_place(self, which, size) -> None:
        """An instance is to be resized where it is."""
        host, uuid = self.known()[which % len(self.known())]
        if not self._has_a_guest_of_its_own_kind(uuid):
            wanted = Wanted(uuid, host, size, in_place=True)
            self.requests.append(Request(f"req-{next(self.numbers)}", "resize", (wanted,)))
            self.submit(self.requests[-1])

    @precondition(lambda self: self.waiting())
    @rule(whiches=st.lists(whiches, min_size=1, max_size=2), host=st.none() | host_names)
    def release(self, whiches, host) -> None:
        """Somebody gives up what is claimed for instances, or what is on one host."""
        uuids = {self.waiting()[each % len(self.waiting())].uuid for each in whiches}
        if any(self._has_a_guest_of_its_own_kind(uuid) for uuid in uuids):
            return
        named = [
            each for each in self.waiting() if each.uuid in uuids and host in (None, each.host)
        ]
        # What a host has lost goes to no alternate either.
        given_back = self.ledger.given_up_with(named) if host else named
        self.ledger.claims = [each for each in self.ledger.claims if each not in given_back]
        if host:
            lost = {(host, each) for each in uuids}
            _, changed = self.database.write(lambda c: claims.release_lost(c, lost))
        else:
            changed = self.database.write(lambda c: claims.release(c, uuids))
        assert {each.node_id for each in changed} == {self.ids[each.host] for each in given_back}
        self._are_in_the_rows(changed)

    @precondition(lambda self: self.waiting())
    @rule(which=whiches)
    def time_passes(self, which) -> None:
        """Nobody has come for what is claimed for an instance."""
        uuid = self.waiting()[which % len(self.waiting())].uuid
        table = tables.allocations
        late = sa.update(table).where(table.c.instance_uuid == uuid, table.c.state != CONFIRMED)
        self.database.write(lambda c: c.execute(late.values(expires_at=sa.text(f"'{LONG_AGO}'"))))
        self.ledger.claims = [
            replace(each, overdue=True) if each.uuid == uuid and each.state != CONFIRMED else each
            for each in self.ledger.claims
        ]

    # Guests.

    @precondition(lambda self: self.waiting())
    @rule(which=whiches, audited=st.booleans())
    def a_guest_starts(self, which, audited) -> None:
        """It starts where it was claimed for, or where there was an alternate."""
        each = self.waiting()[which % len(self.waiting())]
        running = self.ledger.running[each.host]
        if each.in_place or each.uuid not in running:
            # One that is resized in place has other devices than before.
            running.pop(each.uuid, None)
            addresses = claims_fleet.free_addresses(self.ledger, each.host, each.taken)
            running[each.uuid] = Guest(each.taken, addresses)
        self._show(each.host)
        if audited:
            self.audit(each.host)

    @precondition(lambda self: len(self.guests()) < 4)
    @rule(uuid=uuids, host=host_names, size=st.sampled_from(SIZES), audited=st.booleans())
    def a_guest_starts_anywhere(self, uuid, host, size, audited) -> None:
        """Somebody starts a guest without asking, or where nobody expects it."""
        running = self.ledger.running[host]
        documented = any(not each.taken.plain for each in self.ledger.of(uuid))
        if uuid not in running and host in self.alive and not documented:
            running[uuid] = Guest(size)
            self._show(host)
            if audited:
                self.audit(host)

    @precondition(lambda self: self.guests())
    @rule(which=whiches, audited=st.booleans())
    def a_guest_is_gone(self, which, audited) -> None:
        """It was destroyed, or has left for another host."""
        host, uuid = self.guests()[which % len(self.guests())]
        del self.ledger.running[host][uuid]
        self._show(host)
        if audited:
            self.audit(host)

    @precondition(lambda self: self.guests())
    @rule(which=whiches)
    def a_guest_stops(self, which) -> None:
        """It counts as before: it may be started at any moment."""
        host, uuid = self.guests()[which % len(self.guests())]
        self.states[uuid] = "active" if self.states.get(uuid) == "stopped" else "stopped"
        self._show(host)

    # Hosts.

    @rule(host=host_names)
    def audit(self, host) -> None:
        age_claims(self.database)
        self.agents.exists(host, True)
        self.agents.audit(host)
        self.ledger.audited(host)

    @rule(host=host_names)
    def an_agent_is_restarted(self, host) -> None:
        self.agents.restart(self.database, host)

    @rule(host=host_names)
    def a_host_is_gone(self, host) -> None:
        if self.alive == {host} or host not in self.alive:
            return
        self.ledger.lost(host)
        self._show(host)
        self.agents.exists(host, False)
        self.agents.audit(host)

    # What holds after every step.

    @invariant()
    def the_database_says_what_the_ledger_says(self) -> None:
        query = sa.select(tables.allocations)
        nodes, rows = self.database.read(
            lambda c: (compute_nodes.all_live(c), c.execute(query).all())
        )
        self.usage_is_the_sum_of_what_is_there({row.host: row for row in nodes})
        self.claims_are_those_of_the_ledger(rows)

    def usage_is_the_sum_of_what_is_there(self, rows: dict[str, Any]) -> None:
        assert rows.keys() == self.alive
        for host, row in rows.items():
            expected = self.ledger.figures(host)
            assert {name: getattr(row, name) for name in expected} == expected, host
            cells = node_json.numa_topology_from_json(row.numa_topology)
            assert {
                cell.id: (
                    cell.cpu_usage,
                    cell.memory_usage,
                    cell.pinned_cpus,
                    cell.mempages[0].used,
                )
                for cell in (cells.cells if cells else ())
            } == self.ledger.cells(host), host
            pools = node_json.pci_pools_from_json(row.pci_stats)
            assert {each.product_id: each.count for each in pools} == self.ledger.devices(host)

    def claims_are_those_of_the_ledger(self, rows: Sequence[Any]) -> None:
        pending = [row.instance_uuid for row in rows if row.state == PENDING]
        assert len(pending) == len({*pending})
        assert sorted(
            (
                *(row.instance_uuid, row.host, row.state, row.slot, row.vcpus, row.memory_mb),
                *(
                    row.disk_mb,
                    row.in_place,
                    row.request_id,
                    row.digest,
                    row.answer or "",
                    row.group_uuid or "",
                ),
            )
            for row in rows
        ) == sorted(
            (
                *(each.uuid, each.host, each.state, self._slot(each), *each.taken.sizes),
                *(each.taken.disk_mb, each.in_place, each.request, each.digest),
                *(each.answer or "", each.group or ""),
            )
            for each in self.ledger.claims
        )
        assert {row.compute_node_id for row in rows} <= {self.ids[host] for host in self.alive}

    # What there is.

    def waiting(self) -> list[Held]:
        return [each for each in self.ledger.claims if each.state != CONFIRMED]

    def guests(self) -> list[tuple[str, str]]:
        return [(host, uuid) for host, each in self.ledger.running.items() for uuid in each]

    def known(self) -> list[tuple[str, str]]:
        """Return the guests that are there and were there at the last audit."""
        return [(host, uuid) for host, uuid in self.guests() if uuid in self.ledger.seen[host]]

    # How it is done.

    @property
    def alive(self) -> set[str]:
        return self.ledger.alive

    def submit(self, request: Request) -> None:
        """Claim, and compare what comes of it with what the ledger says."""
        if self._has_own_alternates(request):
            # What is claimed then, and what stays, is in test_claimed_alternates.py.
            return
        age_claims(self.database)
        before = self._state()
        try:
            expected = self._foretold(request)
        except Verdict:
            expected = None
        order = self._order(request)
        try:
            done = self.database.write(lambda c: claims.claim(c, order))
        except (ClaimLost, PartlyAnswered) as error:
            assert expected is None, request
            partly = isinstance(error, PartlyAnswered)
            assert partly == self._is_partly(request)
            assert self._state() == before
            return
        assert expected is not None, request
        kept, repeated = expected
        assert (list(done.answers), done.repeated) == (self._answers(request), repeated)
        if repeated:
            assert self._state() == before
            self._renew(request)
            return
        self._are_in_the_rows(done.changes)
        self._enter(request, kept, done)

    def _has_own_alternates(self, request: Request) -> bool:
        """Tell whether an instance with alternates may stay where another request has put it."""
        own = {
            (each.uuid, each.host)
            for each in self.ledger.claims
            if each.state != ALTERNATE and each.request != request.name
        }
        spared = {each.uuid for each in request.wanted if each.alternate}
        return any(each.uuid in spared and (each.uuid, each.host) in own for each in request.wanted)

    def _are_in_the_rows(self, changes: Changes) -> None:
        """Compare what is published of nodes with the rows of those that live."""
        rows = {row.id: row for row in self.database.read(compute_nodes.all_live)}
        for each in changes:
            if each.node_id not in rows:
                continue
            row = rows[each.node_id]
            figures = ("vcpus_used", "free_ram_mb", "free_disk_mb", "disk_mb_used", "claims")
            published = {name: getattr(each, name) for name in figures} | each.documents
            assert published == {name: getattr(row, name) for name in published}
            assert each.before < each.after == row.generation

    def submit_together(self, requests: Sequence[Request]) -> None:
        """Claim in one transaction, and compare it with what comes of one after the other.

        An instance that has claims already, or gets some in the batch, is claimed by itself after
        that.
        """
        age_claims(self.database)
        orders = [self._order(each) for each in requests]
        found, changes = self.database.write(lambda c: claims.claim_each(c, orders))
        self._are_in_the_rows(changes)
        rest: list[Request] = []
        for request, done in zip(requests, found, strict=True):
            if any(self.ledger.of(each.uuid) for each in request.wanted):
                assert done is None, request
                rest.append(request)
                continue
            try:
                kept, _ = self._foretold(request)
            except Verdict:
                assert isinstance(done, ClaimLost), request
                continue
            assert isinstance(done, ClaimResult), request
            assert list(done.answers) == self._answers(request)
            assert done.refused == len(request.wanted) - len(kept)
            self._enter(request, kept, done)
        self.the_database_says_what_the_ledger_says()
        for request in rest:
            self.submit(request)

    def _renew(self, request: Request) -> None:
        mine = (request.name, request.digest)
        self.ledger.claims = [
            replace(e, overdue=e.overdue and (e.request, e.digest) != mine)
            for e in self.ledger.claims
        ]

    def _answering(self, request: Request) -> set[str]:
        return {
            each.uuid
            for each in self.ledger.claims
            if (each.request, each.digest) == (request.name, request.digest)
            and each.answer is not None
        }

    def _is_partly(self, request: Request) -> bool:
        return bool(self._answering(request)) and not self._answering(request) >= {
            each.uuid for each in request.wanted
        }

    def _enter(self, request: Request, kept: Sequence[Wanted], done: ClaimResult) -> None:
        mine = {each.uuid for each in request.wanted}
        old = [e for e in self.ledger.claims if e.uuid in mine and e.state != CONFIRMED]
        assert released_on(done) == {self.ids[each.host] for each in old}
        places = {(each.uuid, each.host) for each in self.ledger.claims}
        self.ledger.claims = [each for each in self.ledger.claims if each not in old]
        self.orders += 1
        for each in kept:
            in_place = each.in_place or (each.uuid, each.host) in places
            state, answer = (
                (ALTERNATE, None) if each.alternate else (PENDING, self._answer(request, each))
            )
            self.ledger.claims.append(
                Held(
                    *(each.uuid, each.host, state, each.taken, request.name, request.digest),
                    *(answer, request.group, in_place),
                    made=self.orders,
                )
            )
        if request.limited:
            for each in kept:
                self._assert_within_limits(each.host)

    def _assert_within_limits(self, host: str) -> None:
        row, most = self.nodes()[host], limits(host)
        assert row.vcpus_used <= most["vcpu"]
        assert row.memory_mb_used <= most["memory_mb"]
        assert row.disk_mb_used <= most["disk_gb"] * GB

    def _foretold(self, request: Request) -> tuple[list[Wanted], bool]:
        """Return what will be claimed, and whether it is already; raises Verdict."""
        if self._answering(request) >= {each.uuid for each in request.wanted}:
            return [], True
        if self._is_partly(request):
            raise Verdict
        wanted = self._agreeable(request)
        rows = self.nodes()
        if any(rows[h].generation != g if h in rows else True for h, g in request.generations):
            raise Verdict
        kept = list(wanted)
        for host in {each.host for each in wanted}:
            here = [each for each in kept if each.host == host]
            if not self._fits(request, host, here):
                chosen = [each for each in here if not each.alternate]
                if chosen and not self._fits(request, host, chosen):
                    raise Verdict
                kept = [each for each in kept if each not in here or each in chosen]
        return kept, False

    def _agreeable(self, request: Request) -> list[Wanted]:
        """Return what of a request the rule of its group allows; raises Verdict."""
        if request.group is None:
            return list(request.wanted)
        most, members = GROUPS[request.group], FAMILIES[request.group]
        there = self.ledger.members(
            request.group, members, {each.uuid for each in request.wanted}, sure=most is None
        )
        if most is None:
            hosts = {each.host for each in request.chosen}
            if not hosts <= there.keys() if there else len(hosts) > 1:
                raise Verdict
            return request.chosen
        moving = [each for each in request.chosen if not self._is_there(each)]
        with_moving = there + Counter(each.host for each in moving)
        there += Counter(each.host for each in request.chosen)
        if any(there[each.host] > most for each in request.chosen) and any(
            with_moving[each.host] > most for each in moving
        ):
            raise Verdict
        agreeable = request.chosen
        for each in request.wanted:
            if each.alternate and there[each.host] < most:
                there[each.host] += 1
                agreeable.append(each)
        return agreeable

    def _is_there(self, wanted: Wanted) -> bool:
        """Tell whether an instance was seen where it is to be claimed for."""
        return wanted.uuid in self.ledger.seen[wanted.host] or any(
            each.state == CONFIRMED and each.host == wanted.host
            for each in self.ledger.of(wanted.uuid)
        )

    def _fits(self, request: Request, host: str, wanted: Sequence[Wanted]) -> bool:
        """Tell whether a host has room for new claims once the older ones are given back."""
        if host not in self.alive:
            return False
        if not request.limited:
            return True
        mine = {each.uuid for each in request.wanted}
        old = [each.taken for each in self.ledger.counting(host) if each.uuid in mine]
        new = [each.taken for each in wanted]
        figures, most = self.ledger.figures(host), limits(host)
        used = {
            "vcpus": figures["vcpus_used"],
            "memory_mb": figures["memory_mb_used"],
            "disk_mb": HOSTS[host].disk_mb - figures["free_disk_mb"],
        }
        room = {"vcpus": most["vcpu"], "memory_mb": most["memory_mb"]}
        room["disk_mb"] = most["disk_gb"] * GB
        return all(
            used[name]
            + sum(getattr(each, name) for each in new)
            - sum(getattr(each, name) for each in old)
            <= room[name]
            for name in used
        )

    def _order(self, request: Request) -> ClaimRequest:
        members = FAMILIES.get(request.group or "", ())
        texts = {host: dict(each) for host, each in request.texts}
        return ClaimRequest(
            request_id=request.name,
            digest=request.digest,
            claims=[self._claim(request, each) for each in request.wanted],
            lease=900,
            group=GroupRule(request.group, members, GROUPS[request.group])
            if request.group
            else None,
            documents={
                self.ids[host]: NodeDocuments(generation, texts[host])
                for host, generation in request.generations
            },
        )

    def _claim(self, request: Request, each: Wanted) -> Claim:
        cells, taken = guest_cells(each.taken), each.taken
        pools = [self._pool(product, number) for product, number in taken.devices]
        return Claim(
            instance_uuid=each.uuid,
            node_id=self.ids[each.host],
            host=each.host,
            node=each.host,
            vcpus=taken.vcpus,
            memory_mb=taken.memory_mb,
            disk_mb=taken.disk_mb,
            limits=limits(each.host) if request.limited else {},
            answer=None if each.alternate else self._answer(request, each),
            in_place=each.in_place,
            numa=node_json.guest_topology_to_json(cells) if cells else None,
            pci=node_json.pci_pools_to_json(pools) if pools else None,
            alternate=each.alternate,
        )

    def _answers(self, request: Request) -> list[str]:
        return [self._answer(request, each) for each in request.chosen]

    @staticmethod
    def _answer(request: Request, each: Wanted) -> str:
        return f"{request.name} {request.digest}: {each.uuid} on {each.host}"

    def _slot(self, each: Held) -> int:
        node_id = self.ids[each.host]
        return {PENDING: 0, ALTERNATE: -node_id, CONFIRMED: node_id}[each.state]

    def _fitted(
        self, rows: dict[str, Any], choices: Iterable[Any], documented: bool
    ) -> Iterable[Any]:
        """Yield the choices with what they would take of the documents of their nodes."""
        taken_cpus: set[int] = set()
        left = {host: dict(self.ledger.devices(host)) for host in HOSTS}
        for number, host, size, which in choices:
            taken, cells = size, HOSTS[host].cells
            kind = KINDS[host][which % len(KINDS[host])]
            if not documented or host not in rows or not size.vcpus:
                kind = "plain"
            if kind == "floating":
                taken = replace(size, floating=((size.vcpus % len(cells), size.vcpus),))
            elif kind == "pinned":
                cell = (number + size.vcpus) % len(cells)
                used = self.ledger.cells(host)[cell][2] | taken_cpus
                free = sorted(set(range(*cells[cell])) - used)
                if len(free) >= size.vcpus:
                    cpus = frozenset(free[: size.vcpus])
                    taken_cpus |= cpus
                    taken = replace(size, pinned=((cell, cpus),))
            elif kind == "devices":
                products = [product for product, some in left[host].items() if some > 0]
                if products:
                    product = products[number % len(products)]
                    left[host][product] -= 1
                    taken = replace(size, devices=((product, 1),))
            yield number, host, taken

    def _documents(self, row: Any, wanted: Sequence[Wanted], host: str) -> dict[str, str | None]:
        """Return the documents of a node as a scheduler writes them that has just read its row."""
        here = [each.taken for each in wanted if each.host == host]
        texts: dict[str, str | None] = {}
        cells = node_json.numa_topology_from_json(row.numa_topology)
        if cells and any(each.floating or each.pinned for each in here):
            by_id = {cell.id: cell for cell in cells.cells}
            for taken in here:
                for cell, cpus in taken.floating:
                    by_id[cell].cpu_usage += cpus
                for cell, pinned in taken.pinned:
                    by_id[cell].pinned_cpus = by_id[cell].pinned_cpus | pinned
                for cell, _ in (*taken.floating, *taken.pinned):
                    by_id[cell].memory_usage += memory_of_cell(taken)
                    by_id[cell].mempages[0].used += memory_of_cell(taken) * 1024 // 4
            texts["numa_topology"] = node_json.numa_topology_to_json(cells)
        if any(each.devices for each in here):
            left = {each.product_id: each for each in node_json.pci_pools_from_json(row.pci_stats)}
            for product, number in (pair for each in here for pair in each.devices):
                left[product] = replace(left[product], count=left[product].count - number)
            texts["pci_stats"] = node_json.pci_pools_to_json(left.values())
        return texts

    @staticmethod
    def _pool(product: str, number: int) -> Any:
        pool = {"product_id": product, "vendor_id": "8086", "count": number, "numa_node": None}
        return node_json.PciDevicePool(**pool, tags={"dev_type": "type-PCI"})

    def _has_a_guest_of_its_own_kind(self, uuid: str) -> bool:
        """Tell whether a guest has cells or devices that no audit has seen yet.

        To give back what was claimed for it would be a mistake that only the next audit heals.
        """
        return any(
            uuid in running
            and not running[uuid].taken.plain
            and self.ledger.seen[host].get(uuid) != running[uuid].taken
            for host, running in self.ledger.running.items()
        )

    def _show(self, host: str) -> None:
        self.agents.show(self.ledger, host, self.states)

    def nodes(self) -> dict[str, Any]:
        return {row.host: row for row in self.database.read(compute_nodes.all_live)}

    def _state(self) -> list[Sequence[Any]]:
        some = (tables.compute_nodes, tables.allocations, tables.instances)
        # A request that comes again begins the leases of its claims anew.
        queries = [
            sa.select(*(c for c in table.c if c.name != "expires_at")).order_by(table.c.id)
            for table in some
        ]
        return self.database.read(lambda c: [c.execute(query).all() for query in queries])
