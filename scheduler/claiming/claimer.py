# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims in the database, and those who are told of them."""

import math
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import sqlalchemy as sa

from inventory import claimed_groups, claims, standing_claims
from inventory.claims import ClaimLost, GroupUnlisted
from inventory.engine import Database
from inventory.orders import CONFIRMED, Claimed, Identity, Order
from scheduler.cached_thread_pool import CachedThreadPool
from scheduler.claiming.orders import Terms
from scheduler.claiming.timed_reads import TimedReads, in_time
from scheduler.claiming.width import Width

T = TypeVar("T")
# How often the row of a group is made that others, who saw no claims for it, delete meanwhile.
MOST_MAKINGS = 10
Left = Callable[[], float]


def forever() -> float:
    """Return how long somebody waits who has not said."""
    return math.inf


class TooLate(Exception):
    """Nobody waits for the claim any more; it was not made."""


class Claimer:
    """Claims for the requests of a process. Many threads may use it.

    tell is given the ids of nodes whose rows have changed; it must not wait for anything.
    """

    def __init__(
        self,
        database: Database,
        terms: Terms,
        tell: Callable[[Collection[int]], None] = lambda _: None,
    ) -> None:
        self.terms = terms
        self.width = Width()
        self._database = database
        self._threads = CachedThreadPool()
        self._tell = tell

    def claim(self, order: Order, left: Left = forever) -> Claimed:
        """Claim for all instances of an order.

        left, in seconds, is how long somebody waits for it. It is asked at the last moment, too:
        nobody is to find a claim that is made after all. Raises ClaimLost, Outdated,
        PartlyAnswered, TooLate and DatabaseUnavailable.
        """
        claimed = self._claim_for_group(order, left)
        if not claimed.repeated:
            self.width.won()
            self._tell({each.node_id for each in order.claims} | set(claimed.left))
        return claimed

    def _claim_for_group(self, order: Order, left: Left) -> Claimed:
        for _ in range(MOST_MAKINGS):
            try:
                return self._claim(order, left)
            except GroupUnlisted as error:
                claimed_groups.ensure(self._database, error.uuid)
        raise ClaimLost((), "the row of its server group is deleted again and again")

    def _claim(self, order: Order, left: Left) -> Claimed:
        try:
            return self._written(lambda connection: claims.claim(connection, order), left)
        except ClaimLost:
            self.width.lost()
            raise

    def make_way(self, identity: Identity, left: Left = forever) -> Claimed | None:
        """Return what was answered to the same request; else give back what is in its way.

        None where there was nothing of either. Raises as claim() does.
        """
        lease = self.terms.lease
        found = self._written(lambda connection: claims.make_way(connection, identity, lease), left)
        if found:
            self._tell(found.left)
        return found

    def _written(self, work: Callable[[sa.Connection], T], left: Left) -> T:
        """Return what work does in a transaction, if somebody still waits for it then."""

        def wanted(connection: sa.Connection) -> T:
            found = work(connection)
            if left() <= 0:
                raise TooLate()
            return found

        seconds = left()
        if seconds <= 0:
            raise TooLate()
        return in_time(self._threads, seconds, lambda: self._database.write(wanted))

    def release(self, uuids: Collection[str], host: str | None = None) -> Collection[int]:
        """Give back what is claimed for instances, on one host only if one is named.

        Return the nodes that have changed. Raises ClaimLost and DatabaseUnavailable.
        """
        changed = self._database.write(lambda connection: claims.release(connection, uuids, host))
        self._tell(changed)
        return changed

    def pending(self, uuids: Collection[str]) -> list[sa.Row[Any]]:
        """Return the claims of instances that are not confirmed. Raises DatabaseUnavailable."""
        standing, _ = self._database.read(lambda each: standing_claims.of(each, uuids))
        return [row for row in standing if row.state != CONFIRMED]

    def give_back(self, standing: Collection[sa.Row[Any]]) -> None:
        """Give back what pending() has returned, all or nothing; raises as release() does."""
        self._tell(self._database.write(lambda each: claims.give_back(each, standing)))

    def members(
        self,
        group: str,
        uuids: Collection[str],
        but: Collection[str],
        alternates: bool,
        left: Left = forever,
    ) -> Counter[str]:
        """Return how many members of a server group each host has, but for some instances.

        alternates tells whether those count to which members may have to go, left for how long
        somebody waits.
        """
        found = TimedReads(self._database, self._threads, left).read(
            lambda connection: claimed_groups.members(connection, group, uuids, alternates)
        )
        return claimed_groups.hosts_of(found, but)
