# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Who says that an instance is on a node: agents, claims, decisions and compute services.

Many instances of a host are asked about at a time: what is said of them is looked up once for each
node, so that a service with many nodes costs no more than one with many instances.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from scheduler.decision.host_table import HostTable
from scheduler.host_view.claimed import ClaimedInstances
from scheduler.host_view.promises import Place, Promises
from scheduler.host_view.reported import ReportedInstances, Uuids, in_both
from scheduler.host_view.tracking import ToldInstances
from scheduler.objects.instance import Instance

# What each of the sources says: {uuid: instance} of decisions, claims and agents.
Said = tuple[Mapping[str, Instance], Mapping[str, Instance], Mapping[str, Instance]]


class Sources:
    """What each of them says, and by the names of hosts what all of them say."""

    def __init__(self, hosts: HostTable) -> None:
        self._hosts = hosts
        self.reported = ReportedInstances()
        self.claimed = ClaimedInstances()
        self.promises = Promises()
        self.told = ToldInstances()

    def of(
        self, host: str, uuids: Uuids, node: str | None = None
    ) -> Iterator[tuple[int, dict[str, list[Instance]]]]:
        """Yield each row of a host, with {uuid: what those say who say that it is there}.

        Where somebody has said something of one node, it is enough to look at that, unless the
        compute service told of the instances: that may have been about any.
        """
        others = self._others(host, uuids, None if in_both(uuids, self.told.on(host)) else node)
        told = self.told.on(host)
        told_on: dict[int, dict[str, Instance]] = defaultdict(dict)
        for uuid, row in self._told_rows(host, uuids, others).items():
            told_on[row][uuid] = told[uuid]
        for row, (promised, claimed, reported) in others.items():
            said: dict[str, list[Instance]] = {}
            for each in (promised, claimed, told_on.get(row), reported):
                if each:
                    for uuid, instance in each.items():
                        said.setdefault(uuid, []).append(instance)
            yield row, said

    def told_rows(self, host: str, uuids: Uuids) -> dict[str, int]:
        """Return the rows of those instances that a compute service told of; none if unknown.

        A service may have several nodes. Where it does not say which, others may know.
        """
        return self._told_rows(host, uuids, self._others(host, uuids))

    def expected(self, host: str, uuids: Uuids) -> set[str]:
        """Return those instances that schedulers have sent to a host."""
        others = self._others(host, uuids).values()
        return {uuid for sent, claimed, _ in others for each in (sent, claimed) for uuid in each}

    def reports(self, place: Place, uuid: str) -> bool:
        """Return whether the agent of a node has reported an instance that is there still."""
        return self.reported.get(place, uuid) is not None

    def places(self, host: str) -> list[Place]:
        """Return the names of all nodes of a host."""
        return [self.place(row) for row in self._hosts.rows_of_host(host)]

    def place(self, row: int) -> Place:
        """Return the names of the node of a row."""
        return self._hosts.get(row, "host"), self._hosts.get(row, "nodename")

    def node_id(self, row: int) -> int:
        """Return the id of the node of a row."""
        found: int = self._hosts.get(row, "node_id")
        return found

    def _others(self, host: str, uuids: Uuids, node: str | None = None) -> dict[int, Said]:
        """Return by row what everybody says but the compute service: of one node or of all."""
        promised = self.promises.of(uuids)
        found: dict[int, Said] = {}
        for row in self._rows(host, node):
            place, claimed = self.place(row), self.claimed.on(self.node_id(row))
            found[row] = (
                promised.get(place, {}),
                {uuid: claimed[uuid] for uuid in in_both(uuids, claimed)},
                self.reported.of(place, uuids),
            )
        return found

    def _rows(self, host: str, node: str | None) -> Iterable[int]:
        if node is None:
            return self._hosts.rows_of_host(host)
        row = self._hosts.row_of(host, node)
        return () if row is None else (row,)

    def _told_rows(self, host: str, uuids: Uuids, others: dict[int, Said]) -> dict[str, int]:
        told = self.told.on(host)
        known = in_both(uuids, told)
        if not known or not others:
            return {}
        # Where nobody knows, the first row is as good as any.
        found = dict.fromkeys(known, next(iter(others)))
        for row in reversed(others):
            for each in others[row]:
                if each:
                    found.update(dict.fromkeys(in_both(each, found), row))
        for uuid in found:
            named = self._hosts.row_of(host, told[uuid].node or "")
            if named is not None:
                found[uuid] = named
        return found
