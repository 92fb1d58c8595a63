# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What agents and schedulers push to every scheduler, on a topic of our own."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import oslo_messaging
from oslo_log import log

from scheduler.objects.kinds import shown
from scheduler.rpc import changes
from scheduler.rpc.failures import InvalidInput

LOG = log.getLogger(__name__)


class Follower(Protocol):
    """What follows the rows of the inventory."""

    def take(self, nodes: Sequence[Any], instances: Sequence[Any], claims: Sequence[Any]) -> None:
        """Take rows that were written, as far as they are news."""


class ChangesEndpoint:
    """Hands over rows that were just written.

    Nobody waits for an answer: a push that cannot be read is dropped with a line in the log.
    """

    target = oslo_messaging.Target(namespace=changes.NAMESPACE, version=changes.VERSION)

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def nodes_changed(
        self, _context: Mapping[str, Any], agent: Any = None, **arguments: Any
    ) -> None:
        """Take rows of nodes, and of the instances and claims there; agent is who sends them."""
        if not changes.is_complete(arguments):
            LOG.debug("%s pushed no claims; what it changed is left to be read", shown(agent))
            return
        try:
            pushed = changes.decode(arguments)
        except InvalidInput as error:
            LOG.info("Refused malformed changes that %s pushed: %s", shown(agent), error.reason)
            return
        self._follower.take(pushed.nodes, pushed.instances, pushed.claims)
        LOG.debug("%s pushed changes of %s nodes", shown(agent), len(pushed.nodes))
