# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's services tell by casts, taken to all whom it concerns."""

from collections.abc import Callable, Sequence

from scheduler.host_view import HostView
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance


class Told:
    """Hands over to the view, and has the claim of an instance released that its host has lost.

    release is given host and uuid, and must not wait for anything. That a host has an instance
    confirms no claim: only the agent who sees it can count it instead.
    """

    def __init__(self, view: HostView, release: Callable[[str, str], None]) -> None:
        self._release = release
        self._view = view
        self.update_aggregates: Callable[[Sequence[Aggregate]], None] = view.update_aggregates
        self.delete_aggregate: Callable[[Aggregate], None] = view.delete_aggregate
        self.update_instances: Callable[[str, Sequence[Instance]], None] = view.update_instances
        self.sync_instances: Callable[[str, Sequence[str]], None] = view.sync_instances

    def delete_instance(self, host: str, uuid: str) -> None:
        """Take it that a host has an instance no longer, and will not get it either."""
        self._view.delete_instance(host, uuid)
        self._release(host, uuid)
