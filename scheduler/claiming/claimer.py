# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Claims in the database, and those who are told of them."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from inventory import claimed_groups, claims
from inventory.claims import Claimed, ClaimLost, GroupUnlisted, Order
from inventory.engine import Database
from scheduler.claiming.orders import Terms
from scheduler.claiming.width import Width


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

    def claim(self, order: Order) -> Claimed:
        """Claim for all instances of an order; raises ClaimLost and DatabaseUnavailable."""
        try:
            claimed = self._claim(order)
        except GroupUnlisted as error:
            claimed_groups.ensure(self._database, error.uuid)
            claimed = self._claim(order)
        if not claimed.repeated:
            self.width.won()
            self._tell({each.node_id for each in order.claims} | set(claimed.left))
        return claimed

    def _claim(self, order: Order) -> Claimed:
        try:
            return self._database.write(lambda connection: claims.claim(connection, order))
        except ClaimLost:
            self.width.lost()
            raise

    def lookup(
        self, request_id: str | None, digest: str, uuids: Sequence[str]
    ) -> tuple[Sequence[str | None] | None, bool]:
        """Return what was answered to a request, and whether its instances have claims."""
        return self._database.read(
            lambda connection: claims.lookup(connection, request_id, digest, uuids)
        )

    def is_pending(self, uuid: str) -> bool:
        """Tell whether an instance has a claim that is not confirmed."""
        return self.lookup(None, "", [uuid])[1]

    def release(self, uuids: Collection[str], host: str | None = None) -> Collection[int]:
        """Give back what is claimed for instances, on one host only if one is named.

        Return the nodes that have changed. Raises DatabaseUnavailable.
        """
        try:
            changed = self._database.write(
                lambda connection: claims.release(connection, uuids, host)
            )
        except ClaimLost:
            # Somebody else has just ended one of them; what is left is read anew.
            changed = self._database.write(
                lambda connection: claims.release(connection, uuids, host)
            )
        self._tell(changed)
        return changed

    def members(
        self, group: str, uuids: Collection[str], but: Collection[str], alternates: bool
    ) -> Counter[str]:
        """Return how many members of a server group each host has, but for some instances.

        alternates tells whether those count to which members may have to go.
        """
        return self._database.read(
            lambda connection: claimed_groups.others(connection, group, uuids, but, alternates)
        )
