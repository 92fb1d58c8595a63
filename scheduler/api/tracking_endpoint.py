# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The casts that report changes: those of Nova's services, and rows pushed by our own daemons."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any

import oslo_messaging
from oslo_log import log

from inventory.errors import counted
from inventory.objects.aggregate import Aggregate
from inventory.objects.field_types import shown
from scheduler.host_cache.cache import HostCache
from scheduler.wire import claim_messages, push_messages
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import InvalidInput
from scheduler.wire.tracking import decode_argument

LOG = log.getLogger(__name__)


def _cast(method: Callable[..., None]) -> Callable[..., None]:
    """Have a cast decoded as the arguments of a method, others of which are ignored.

    A malformed one is logged: its caller waits for no answer. One about instances, which names a
    host, is ignored where instances are not tracked.
    """
    _, *names = signature(method).parameters
    is_about_instances = "host_name" in names

    @wraps(method)
    def received(endpoint: Any, context: Mapping[str, Any], /, **arguments: Any) -> None:
        caller = RequestContext.from_dict(context)
        caller.for_logging()
        if is_about_instances and not endpoint._tracks_instances():
            return
        try:
            method(endpoint, *(decode_argument(name, arguments.get(name)) for name in names))
        except InvalidInput as error:
            name, request_id = method.__name__, caller.request_id
            LOG.info("Refused a malformed %s of %s: %s", name, request_id, error.reason)

    return received


class TrackingEndpoint:
    """Hands the casts of compute hosts and of the API of Nova over to the host cache.

    release_claim is called, without waiting, with the host and uuid of an instance that has gone.
    tracks_instances returns whether casts about instances count.
    """

    target = oslo_messaging.Target(version="4.5")

    def __init__(
        self,
        host_cache: HostCache,
        release_claim: Callable[[str, str], None],
        tracks_instances: Callable[[], bool],
    ) -> None:
        self._host_cache = host_cache
        self._release_claim = release_claim
        self._tracks_instances = tracks_instances

    @_cast
    def update_aggregates(self, aggregates: list[Aggregate]) -> None:
        """Add or replace aggregates."""
        self._host_cache.update_aggregates(aggregates)
        LOG.debug("Received update_aggregates: %s", counted(len(aggregates), "aggregate"))

    @_cast
    def delete_aggregate(self, aggregate: Aggregate) -> None:
        """Remove an aggregate."""
        self._host_cache.delete_aggregate(aggregate)
        LOG.debug("Received delete_aggregate: %s", aggregate.uuid or aggregate.id)

    @_cast
    def update_instance_info(self, host_name: str) -> None:
        """Read a host again, since instances there have come or changed."""
        self._host_cache.mark_host_stale(host_name)
        LOG.debug("Received update_instance_info of %s", host_name)

    @_cast
    def delete_instance_info(self, host_name: str, instance_uuid: str) -> None:
        """Read a host again, and release its claim for an instance that it has deleted."""
        self._host_cache.forget_instance(host_name, instance_uuid)
        self._release_claim(host_name, instance_uuid)
        LOG.debug("Received delete_instance_info of %s: instance %s", host_name, instance_uuid)

    @_cast
    def sync_instance_info(self, host_name: str, instance_uuids: list[str]) -> None:
        """Read a host again if its list of all instances differs from what is known here."""
        self._host_cache.compare_instances(host_name, instance_uuids)
        many = counted(len(instance_uuids), "instance")
        LOG.debug("Received sync_instance_info of %s: %s", host_name, many)


class PushEndpoint:
    """Hands rows over to the host cache; a malformed push is dropped with a line in the log."""

    target = oslo_messaging.Target(namespace=push_messages.NAMESPACE, version=push_messages.VERSION)

    def __init__(self, host_cache: HostCache) -> None:
        self._host_cache = host_cache

    def nodes_changed(
        self, _context: Mapping[str, Any], agent: Any = None, **arguments: Any
    ) -> None:
        """Apply rows of nodes, of instances and claims there, or what claims have changed.

        agent names the sender.
        """
        if claim_messages.CHANGES in arguments:
            self._apply_claims(agent, arguments)
            return
        # Agents of before there were claims leave them out.
        if "claims" not in arguments:
            LOG.debug("%s pushed no claims; its changes are read from the database", shown(agent))
            return
        try:
            pushed = push_messages.decode(arguments)
        except InvalidInput as error:
            LOG.info("Refused malformed changes that %s pushed: %s", shown(agent), error.reason)
            return
        self._host_cache.apply_push(pushed.nodes, pushed.instances, pushed.claims)
        LOG.debug("%s pushed changes (nodes: %s)", shown(agent), len(pushed.nodes))

    def _apply_claims(self, sender: Any, arguments: Mapping[str, Any]) -> None:
        try:
            changes = claim_messages.decode(arguments)
        except InvalidInput as error:
            LOG.info("Refused malformed claims that %s pushed: %s", shown(sender), error.reason)
            return
        self._host_cache.apply_changes(changes)
        LOG.debug("%s pushed what it claimed (nodes: %s)", shown(sender), len(changes))
