# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims in the database, and those who are told of them."""

from collections import Counter
from collections.abc import Callable, Collection

import sqlalchemy as sa

from inventory import allocations, claimed_groups, claims
from inventory.claims import ClaimLost, GroupUnlisted
from inventory.engine import Database
from inventory.orders import Claimed, Identity, Order
from scheduler.claiming.orders import Terms
from scheduler.claiming.width import Width


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
        self._tell = tell

    def claim(self, order: Order, too_late: Callable[[], bool] = lambda: False) -> Claimed:
        """Claim for all instances of an order.

        too_late is asked at the last moment: nobody is to find a claim that is made after all.
        Raises ClaimLost, Outdated, PartlyAnswered, TooLate and DatabaseUnavailable.
        """
        try:
            claimed = self._claim(order, too_late)
        except GroupUnlisted as error:
            claimed_groups.ensure(self._database, error.uuid)
            claimed = self._claim(order, too_late)
        if not claimed.repeated:
            self.width.won()
            self._tell({each.node_id for each in order.claims} | set(claimed.left))
        return claimed

    def _claim(self, order: Order, too_late: Callable[[], bool]) -> Claimed:
        def work(connection: sa.Connection) -> Claimed:
            claimed = claims.claim(connection, order)
            if too_late():
                raise TooLate()
            return claimed

        try:
            return self._database.write(work)
        except ClaimLost:
            self.width.lost()
            raise

    def make_way(
        self, identity: Identity, too_late: Callable[[], bool] = lambda: False
    ) -> Claimed | None:
        """Return what was answered to the same request; else give back what is in its way.

        None where there was nothing of either. Raises as claim() does.
        """

        def work(connection: sa.Connection) -> Claimed | None:
            found = claims.make_way(connection, identity, self.terms.lease)
            if too_late():
                raise TooLate()
            return found

        found = self._database.write(work)
        if found:
            self._tell(found.left)
        return found

    def is_pending(self, uuid: str) -> bool:
        """Tell whether an instance has a claim that is not confirmed."""
        return bool(self._database.read(lambda each: allocations.listed(each, None, uuid, False)))

    def release(self, uuids: Collection[str], host: str | None = None) -> Collection[int]:
        """Give back what is claimed for instances, on one host only if one is named.

        Return the nodes that have changed. Raises ClaimLost and DatabaseUnavailable.
        """
        changed = self._database.write(lambda connection: claims.release(connection, uuids, host))
        self._tell(changed)
        return changed

    def members(
        self, group: str, uuids: Collection[str], but: Collection[str], alternates: bool
    ) -> Counter[str]:
        """Return how many members of a server group each host has, but for some instances.

        alternates tells whether those count to which members may have to go.
        """
        found = self._database.read(
            lambda connection: claimed_groups.members(connection, group, uuids, alternates)
        )
        return claimed_groups.hosts_of(found, but)
