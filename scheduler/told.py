# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's services tell by casts, taken to all whom it concerns."""

from collections.abc import Callable, Sequence

from oslo_log import log

from inventory.claims import ClaimLost
from inventory.engine import DatabaseUnavailable
from scheduler.claiming import Claimer
from scheduler.host_view import HostView
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance

LOG = log.getLogger(__name__)


class Told:
    """Hands over to the view, and ends the claim of an instance that its host has lost.

    That a host has an instance confirms no claim: only the agent who sees it can count it instead.
    """

    def __init__(self, view: HostView, claimer: Callable[[], Claimer | None]) -> None:
        self._claimer = claimer
        self._view = view
        self.update_aggregates: Callable[[Sequence[Aggregate]], None] = view.update_aggregates
        self.delete_aggregate: Callable[[Aggregate], None] = view.delete_aggregate
        self.update_instances: Callable[[str, Sequence[Instance]], None] = view.update_instances
        self.sync_instances: Callable[[str, Sequence[str]], None] = view.sync_instances

    def delete_instance(self, host: str, uuid: str) -> None:
        """Take it that a host has an instance no longer, and will not get it either."""
        self._view.delete_instance(host, uuid)
        claimer = self._claimer()
        if claimer is None:
            return
        try:
            # All schedulers hear of it, and hardly any instance has a claim still.
            if claimer.is_pending(uuid) and claimer.release([uuid], host):
                LOG.info("Host %s has lost instance %s: its claim has ended", host, uuid)
        except (ClaimLost, DatabaseUnavailable) as error:
            LOG.warning("The claim of instance %s stays until its lease ends: %s", uuid, error)
