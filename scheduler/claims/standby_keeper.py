# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Keep standbys where they hold, one scheduler at a time: decide again about those that do not."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from oslo_log import log

from inventory.claims import standby_rows
from inventory.claims.group_locks import GroupMembers, hosts_of
from inventory.claims.standby_rows import InstancePlaces, StandbyRows
from inventory.claims.types import ClaimLost, GroupRule, Standby
from inventory.engine import Database
from inventory.errors import counted, some
from inventory.objects.amounts import amounts_of, covers, plus
from inventory.objects.standby import Protection, domains_text
from scheduler.claims.claim_request import where
from scheduler.claims.claimer import Claimer
from scheduler.claims.protection import group_rule, of_stored_request, request_to_text, there
from scheduler.decision.evacuations import is_alive
from scheduler.decision.pipeline import Plan, Request
from scheduler.decision.standby_room import StandbyRoom
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.failure_domains import domains_of, doubtful
from scheduler.hosts.host_state import Candidate, usage_changes
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec

LOG = log.getLogger(__name__)
# How many standbys one transaction makes: the nodes of all of them are locked meanwhile.
BATCH = 20
# How many standbys are judged in a pass that nothing speaks against, one after the other.
JUDGED = 100


@dataclass(slots=True)
class Pass:
    """What one look at all standbys has come to."""

    ended: int = 0
    made: int = 0
    lost: int = 0
    # The instances without a standby, by uuid, and why.
    without: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Due:
    """A standby that is to be found anew, for the instance on the host of a row."""

    row: Any
    place: int
    node_id: int
    # What the instance is seen to have there: vCPUs and memory in MB.
    seen: tuple[int, int] = (0, 0)
    # The instance needs less than before, and will not need that again.
    shrinks: bool = False

    def grown(self, spec: RequestSpec) -> RequestSpec:
        """Return the request of an instance, that may have become larger, as it is seen."""
        return spec.at_least((*self.seen, 0))


class StandbyKeeper:
    """Decides as the schedulers do; plan and claimer may be replaced at any time."""

    def __init__(
        self,
        database: Database,
        cache: HostCache,
        plan: Callable[[], Plan],
        claimer: Callable[[], Claimer | None],
    ) -> None:
        self._database, self._cache = database, cache
        self._plan, self._claimer = plan, claimer
        # The id after which the judging goes on.
        self._judged_until = 0
        self._warned: frozenset[str] = frozenset()
        # What was in doubt of failure domains at the last look.
        self._doubtful: frozenset[str] = frozenset()

    def keep(self) -> Pass:
        """Look at all standbys once; raises DatabaseUnavailable."""
        found, claimer = Pass(), self._claimer()
        known = self._database.read(standby_rows.read)
        if not known.rows or claimer is None:
            self._warn(found)
            return found
        self._cache.refresh_if_older(fresh=True)
        with self._cache.locked() as table:
            hosts, in_flight = table.detached(), {*self._cache.nodes_in_flight}
        self._warn_of_domains(hosts)
        groups = {row.group_uuid for row in known.rows if row.group_uuid}
        rules = [GroupRule(uuid, ()) for uuid in sorted(groups)]
        members = self._database.read(lambda each: GroupMembers.read(each, rules))
        work = _Work(hosts, self._plan(), known, in_flight, members)
        ending = [row.id for row in work.gone()]
        due = [*work.due(), *self._failing(work, known)]
        made = self._decide(work, due, known)
        found.ended = self._settle(claimer, [], ending)
        for batch in _batches(made):
            found.made += self._settle(claimer, batch, [])
        found.lost = len(made) - found.made
        found.without = self._database.read(standby_rows.reasons)
        self._warn(found)
        return found

    def _failing(self, work: "_Work", known: StandbyRows) -> Iterator[_Due]:
        """Yield the standbys whose hosts do not pass any more.

        Those are judged that are on full hosts or beside members of their server groups, and some.
        """
        full = {row.id for row in known.rows if work.is_full(row) or work.is_beside_another(row)}
        others = [row.id for row in known.rows if row.id > self._judged_until]
        judged = [*islice(others, JUDGED)]
        self._judged_until = judged[-1] if len(judged) == JUDGED else 0
        ids = full.union(judged) - work.handled
        requests = self._database.read(lambda each: standby_rows.requests_of(each, ids))
        rows = [row for row in known.rows if row.id in requests]
        for row in sorted(rows, key=amounts_of, reverse=True):
            judge = partial(work.judge, row)
            due = of_stored_request(row.instance_uuid, requests[row.id], judge)
            if due is not None:
                yield due

    def _decide(self, work: "_Work", due: Sequence[_Due], known: StandbyRows) -> list[Standby]:
        """Return the standbys that are to be made, those of the largest instances first."""
        ids = [each.row.id for each in due]
        requests = self._database.read(lambda each: standby_rows.requests_of(each, ids))
        found = []
        for each in sorted(due, key=lambda each: amounts_of(each.row), reverse=True):
            if each.row.id in requests:
                decide = partial(self._decided, work, each)
                text = requests[each.row.id]
                made = of_stored_request(each.row.instance_uuid, text, decide)
                if made is not None:
                    found.append(made)
        return found

    def _decided(self, work: "_Work", due: _Due, spec: RequestSpec) -> Standby | None:
        """Return the standby of one instance, None where all stays as it is."""
        spec = due.grown(spec)
        row, planned = due.row, work.find(due, spec)
        is_same = row.compute_node_id is None and row.place_node_id == due.node_id
        if planned.host is None and is_same and row.reason == planned.reason:
            return None
        moved = row.place_node_id != due.node_id
        return Standby(
            instance_uuid=row.instance_uuid,
            place_node_id=due.node_id,
            domains=planned.domains,
            mode=row.mode,
            size=planned.size,
            request=request_to_text(spec),
            reason=planned.reason,
            evacuates=row.place_node_id if moved else None,
            project_id=row.project_id,
            group=work.group_rule(row, spec, planned.host),
            of_place=row.of_place,
            replaces=row.id,
            shrinks=due.shrinks,
            member=work.member_of(row),
            **there(planned.host, partial(where, work.hosts, host_cache=self._cache)),
        )

    def _settle(self, claimer: Claimer, made: Sequence[Standby], ending: Sequence[int]) -> int:
        """Write standbys together, else one by one; return how many were written."""
        if not made and not ending:
            return 0
        try:
            claimer.settle_standbys(made, ending)
            return len(made) + len(ending)
        except ClaimLost as error:
            LOG.debug(
                "Standbys were not written; the keeper tries again at its next look: %s", error
            )
        if len(made) + len(ending) == 1:
            return 0
        return sum(self._settle(claimer, [each], []) for each in made) + sum(
            self._settle(claimer, [], [each]) for each in ending
        )

    def _warn_of_domains(self, hosts: HostTable) -> None:
        """Warn once of failure domains that are perhaps meant otherwise."""
        now = frozenset(doubtful(hosts))
        for text in sorted(now - self._doubtful):
            LOG.warning("%s", text)
        self._doubtful = now

    def _warn(self, found: Pass) -> None:
        """Warn of what has no standby whenever that is something else than before."""
        if found.made or found.ended:
            made, ended = counted(found.made, "standby"), counted(found.ended, "standby")
            LOG.info("Made or moved %s, ended %s", made, ended)
        now = frozenset(found.without)
        if now != self._warned:
            if now:
                number = counted(
                    len(now),
                    "protected instance or place has",
                    "protected instances or places have",
                )
                LOG.warning("%s no standby: %s", number, some(sorted(now)))
            else:
                LOG.info("All protected instances and places have standbys")
        self._warned = now


class _Work:
    """The standbys on a copy of the hosts, on which is decided."""

    def __init__(
        self,
        hosts: HostTable,
        plan: Plan,
        known: StandbyRows,
        in_flight: Collection[int],
        members: GroupMembers,
    ) -> None:
        self.hosts, self._plan, self._known, self._in_flight = hosts, plan, known, in_flight
        self._members = members
        self._ids = {int(hosts.get(row, "node_id")): row for row in hosts.rows()}
        self._rows = {(row.instance_uuid.lower(), row.place_node_id): row for row in known.rows}
        # The ids of rows about which all is said.
        self.handled: set[int] = set()
        self._alive: dict[int, bool] = {}
        self._released: set[int] = set()
        sums = StandbyRoom.sums_of(
            (row.compute_node_id, row.domains, amounts_of(row))
            for row in known.rows
            if row.compute_node_id is not None
        )
        self.room = StandbyRoom(hosts, Protection("", sums))

    def gone(self) -> Iterator[Any]:
        """Yield the standbys to end, whose instances have left the nodes that these cover."""
        for row in self._known.rows:
            at = self._known.instances.get(row.instance_uuid.lower())
            if at is None or (not self._is_at(at, row.place_node_id) and not self._moved(row, at)):
                self.handled.add(row.id)
                yield row

    def due(self) -> Iterator[_Due]:
        """Yield the standbys that do not hold, and those for another place than the instance's."""
        for row in self._known.rows:
            if row.id in self.handled:
                continue
            at = self._known.instances[row.instance_uuid.lower()]
            node_id = row.place_node_id
            if not self._is_at(at, node_id):
                node_id = self._moved(row, at)
            place = self._ids.get(node_id)
            if place is None:
                self.handled.add(row.id)
                continue
            if at.is_free and self._is_to_leave(row, place):
                # A place nobody is in goes to its standby.
                node_id, place = row.compute_node_id, self._ids[row.compute_node_id]
                self._release(row)
                self.hosts.add_to(place, usage_changes(*amounts_of(row)))
            seen = at.seen.get(self._name(place), (0, 0))
            is_small = row.vcpus < seen[0] or row.memory_mb < seen[1]
            if is_small or node_id != row.place_node_id or not self._holds(row, place):
                self.handled.add(row.id)
                yield _Due(row, place, node_id, seen)

    def is_full(self, row: Any) -> bool:
        """Return whether more is used of the node of a standby than it may have."""
        at = self._ids.get(row.compute_node_id)
        return at is not None and self.room.is_over(at)

    def is_beside_another(self, row: Any) -> bool:
        """Return whether another member of its server group is, or may come, to its host."""
        at = self._ids.get(row.compute_node_id)
        if at is None or not row.group_uuid:
            return False
        return self.hosts.get(at, "host") in self._others(row)

    def member_of(self, row: Any) -> str:
        """Return the instance of a standby, or that in the place whose standby it is."""
        at = self._known.instances.get(row.instance_uuid.lower())
        return (at and at.taken_by) or str(row.instance_uuid)

    def group_rule(self, row: Any, spec: RequestSpec, chosen: Candidate | None) -> GroupRule | None:
        """Return the rule of the server group that the row of a standby names."""
        at = self._known.instances.get(row.instance_uuid.lower())
        # A place that nobody is in may still have the group of who was in it.
        if not row.group_uuid or (at and at.is_free):
            return None
        return group_rule(spec, chosen) or GroupRule(row.group_uuid, (), enforced=False)

    def judge(self, row: Any, spec: RequestSpec) -> _Due | None:
        """Return what is to be found anew.

        That is a standby whose host does not pass any more, and one that is larger than its
        instance, since that was resized on its host.
        """
        self.handled.add(row.id)
        at, place = self._ids.get(row.compute_node_id), self._ids.get(row.place_node_id)
        if at is None or place is None or not self._is_as_known(at, row.compute_node_id):
            return None
        spec = self._located(row, spec)
        passes = self.room.passes(at, spec, self._plan, row.domains.split(","))
        seen = self._known.instances[row.instance_uuid.lower()].seen.get(self._name(place), (0, 0))
        due = _Due(row, place, row.place_node_id, seen)
        due = replace(due, shrinks=self._is_too_large(due, spec))
        if passes and not due.shrinks:
            return None
        self._release(row)
        return due

    def _is_too_large(self, due: _Due, spec: RequestSpec) -> bool:
        """Return whether an instance will not need as much again as its standby holds."""
        at = self._known.instances[due.row.instance_uuid.lower()]
        is_done = due.seen != (0, 0) and not at.is_changing
        return is_done and not covers(amounts_of(due.grown(spec)), amounts_of(due.row))

    def _is_as_known(self, at: int, node_id: int) -> bool:
        """Return whether the row of a host has what was read of its standbys, and nothing later.

        An instance that has just been evacuated would count twice there, as itself and by the
        standby that it has taken, and others would lose theirs for that.
        """
        is_same = self.hosts.get(at, "generation") == self._known.generations.get(node_id)
        return is_same and node_id not in self._in_flight

    def find(self, due: _Due, spec: RequestSpec) -> Any:
        """Return the standby of an instance as it is now best."""
        self._release(due.row)
        spec = self._located(due.row, spec)
        request = Request(spec, [due.row.instance_uuid], seed=due.row.id)
        planned, _ = self.room.find(spec, due.place, request, self._plan)
        if planned.host is not None and spec.instance_group is not None and due.row.group_uuid:
            host = planned.host.host
            self._members.hold(due.row.group_uuid, self.member_of(due.row), host)
        return planned

    def _located(self, row: Any, spec: RequestSpec) -> RequestSpec:
        """Return a request with where the other members of its server group are or may come."""
        if spec.instance_group is None or not row.group_uuid:
            return spec
        found = spec.for_instance(spec.instance_uuid, self._others(row).elements())
        return found

    def _others(self, row: Any) -> Counter[str]:
        found = self._members.of(row.group_uuid)
        return hosts_of(found, {self.member_of(row)})

    def _release(self, row: Any) -> None:
        """Give back what a standby holds, once."""
        at = self._ids.get(row.compute_node_id)
        if at is not None and row.id not in self._released:
            self._released.add(row.id)
            self._members.drop(self.member_of(row), row.id)
            self.room.give_back(at, row.domains.split(","), amounts_of(row))

    def _holds(self, row: Any, place: int) -> bool:
        """Return whether a standby is on a living host of another failure domain."""
        at, domains = self._ids.get(row.compute_node_id), domains_of(self.hosts, place)
        if at is None or domains_text(domains) != row.domains:
            return False
        if not {*domains}.isdisjoint(domains_of(self.hosts, at)):
            return False
        return self._is_alive(at) and not self.hosts.get(at, "service_disabled")

    def _is_to_leave(self, row: Any, place: int) -> bool:
        """Return whether the host of a reserved place is lost, and that of its standby has room.

        Other standbys are not in the way: their domains are not those that have died.
        """
        at = self._ids.get(row.compute_node_id)
        if at is None or self._is_alive(place):
            return False
        others = plus(self.room.held_on(at), amounts_of(row), -1)
        return self._holds(row, place) and not self.room.is_over(at, others)

    def _is_alive(self, at: int) -> bool:
        if at not in self._alive:
            self._alive[at] = is_alive(self.hosts, self._plan, at)
        return self._alive[at]

    def _is_at(self, at: InstancePlaces, node_id: int) -> bool:
        row = self._ids.get(node_id)
        if node_id in at.claimed:
            return True
        if row is None:
            return False
        return self._name(row) in at.seen

    def _name(self, row: int) -> tuple[str, str]:
        return self.hosts.get(row, "host"), self.hosts.get(row, "nodename")

    def _moved(self, row: Any, at: InstancePlaces) -> int:
        """Return the node where an instance is without a row for that place, 0 for none."""
        nodes = {*at.confirmed}
        for host, node in at.seen:
            found = self.hosts.row_of(host, node)
            if found is not None:
                nodes.add(int(self.hosts.get(found, "node_id")))
        uuid = row.instance_uuid.lower()
        return min((each for each in nodes if (uuid, each) not in self._rows), default=0)


def _batches(made: Iterable[Standby]) -> Iterator[list[Standby]]:
    rest = iter(made)
    while batch := [*islice(rest, BATCH)]:
        yield batch
