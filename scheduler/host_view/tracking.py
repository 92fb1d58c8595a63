# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's compute and API services told this process by casts, whoever else knows it.

Casts may be lost, come late or come in another order than they were sent; they are hints. What is
remembered is bounded, so that a caller gone wild costs no more than memory that was planned for.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from oslo_log import log

from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance

LOG = log.getLogger(__name__)
MOST_INSTANCES = 1_000_000
MOST_ON_A_HOST = 10_000
MOST_AGGREGATES = 10_000
# For how many seconds an instance counts of which its host has not told again. Services list all
# that they have every two minutes, unless they are configured to do so less often, or never.
KEPT = 3600.0


class ToldInstances:
    """Instances by the name of the host whose compute service told of them.

    Moments are in seconds since 1970 on the database's clock, and 0 before that is known.
    """

    def __init__(self) -> None:
        self._by_host: dict[str, dict[str, Instance]] = {}
        self._moments: dict[str, dict[str, float]] = {}
        self._count = 0
        self._was_full = False

    def on(self, host: str) -> Mapping[str, Instance]:
        """Return {uuid: instance} of a host, letter case respected."""
        return self._by_host.get(host, {})

    def hosts(self) -> list[str]:
        """Return the hosts that have any."""
        return list(self._by_host)

    def put(self, host: str, instance: Instance, moment: float) -> Instance | None:
        """Remember an instance as one of a host; None when there are too many to remember it."""
        here = self.on(host)
        if instance.uuid not in here and (
            len(here) >= MOST_ON_A_HOST or self._count >= MOST_INSTANCES
        ):
            self._say_full()
            return None
        self._count += instance.uuid not in here
        kept = instance if instance.host == host else replace(instance, host=host)
        self._by_host.setdefault(host, {})[instance.uuid] = kept
        self._moments.setdefault(host, {})[instance.uuid] = moment
        return kept

    def renew(self, host: str, moment: float) -> None:
        """Take it that a host told of all its instances again."""
        if host in self._moments:
            self._moments[host] = dict.fromkeys(self._moments[host], moment)

    def was_told(self, host: str, uuid: str) -> float:
        """Return when a host last told of an instance that it has told of."""
        return self._moments[host][uuid]

    def drop(self, host: str, uuid: str) -> bool:
        """Forget one instance of a host; return whether there was one."""
        here = self._by_host.get(host, {})
        if here.pop(uuid, None) is None:
            return False
        self._count -= 1
        del self._moments[host][uuid]
        if not here:
            del self._by_host[host], self._moments[host]
        return True

    def expired(self, now: float) -> Iterator[tuple[str, str]]:
        """Forget and yield (host, uuid) of the instances that were not told of for too long.

        All others are looked at as well.
        """
        for host, moments in list(self._moments.items()):
            for uuid, moment in list(moments.items()):
                if not moment:
                    moments[uuid] = now
                elif moment + KEPT <= now:
                    self.drop(host, uuid)
                    yield host, uuid

    def _say_full(self) -> None:
        if not self._was_full:
            LOG.warning(
                "Casts told of more than %s instances of one host or %s of all;"
                " no more are remembered",
                MOST_ON_A_HOST,
                MOST_INSTANCES,
            )
        self._was_full = True


class ToldAggregates:
    """Aggregates, told apart by uuid, and by id where one comes without."""

    def __init__(self) -> None:
        # Those without uuid by their ids, and the uuids of the others by those.
        self._by_uuid: dict[str, Aggregate] = {}
        self._by_id: dict[int | None, Aggregate] = {}
        self._uuids: dict[int | None, dict[str, None]] = defaultdict(dict)
        # The uuids of those that were deleted, the oldest first: the inventory may have them still.
        self._gone: dict[str, None] = {}

    def put(self, aggregate: Aggregate) -> None:
        """Remember an aggregate in the place of what was told of it before."""
        self._drop(aggregate)
        if len(self._by_uuid) + len(self._by_id) >= MOST_AGGREGATES:
            ours = aggregate.uuid or aggregate.id
            LOG.warning("Casts told of more than %s aggregates; %s ignored", MOST_AGGREGATES, ours)
        elif aggregate.uuid:
            self._by_uuid[aggregate.uuid] = aggregate
            self._uuids[aggregate.id][aggregate.uuid] = None
        else:
            self._by_id[aggregate.id] = aggregate

    def end(self, aggregate: Aggregate) -> None:
        """Remember that an aggregate was deleted; of one without uuid, forget what was told."""
        self._drop(aggregate)
        if aggregate.uuid:
            self._gone[aggregate.uuid] = None
            if len(self._gone) > MOST_AGGREGATES:
                del self._gone[next(iter(self._gone))]

    def forget(self, uuid: str | None) -> None:
        """Forget whatever was told of the aggregate with a uuid."""
        found = self._by_uuid.pop(uuid or "", None)
        if found is not None and found.uuid:
            here = self._uuids[found.id]
            del here[found.uuid]
            if not here:
                del self._uuids[found.id]
        self._gone.pop(uuid or "", None)

    def over(self, inventory: Iterable[Aggregate]) -> list[Aggregate]:
        """Return the aggregates of the inventory, those that were told in their place or added.

        Those whose end was told are not among them. The ids of the inventory are numbers of its
        own, so they say nothing of those that were told.
        """
        found = [
            self._by_uuid.get(each.uuid, each) if each.uuid else each
            for each in inventory
            if each.uuid not in self._gone
        ]
        replaced = {id(each) for each in found}
        told = (*self._by_uuid.values(), *self._by_id.values())
        more = [each for each in told if id(each) not in replaced]
        return found + sorted(more, key=lambda each: (each.id or 0, each.uuid or ""))

    def _drop(self, aggregate: Aggregate) -> None:
        self.forget(aggregate.uuid)
        if aggregate.id is not None:
            self._by_id.pop(aggregate.id, None)
            if not aggregate.uuid:
                for uuid in [*self._uuids.get(aggregate.id, ())]:
                    self.forget(uuid)
