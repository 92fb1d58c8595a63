# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's compute and API services told this process by casts, whoever else knows it.

Casts may be lost, come late or come in another order than they were sent; they are hints. What is
remembered is bounded, so that a caller gone wild costs no more than memory that was planned for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oslo_log import log

from scheduler.objects.aggregate import Aggregate
from scheduler.objects.instance import Instance

LOG = log.getLogger(__name__)
MOST_INSTANCES = 1_000_000
MOST_ON_A_HOST = 10_000
MOST_AGGREGATES = 10_000


class ToldInstances:
    """Instances by the name of the host whose compute service told of them."""

    def __init__(self) -> None:
        self._by_host: dict[str, dict[str, Instance]] = {}
        self._count = 0
        self._was_full = False

    def on(self, host: str) -> Mapping[str, Instance]:
        """Return {uuid: instance} of a host, letter case respected."""
        return self._by_host.get(host, {})

    def hosts(self) -> list[str]:
        """Return the hosts that have any."""
        return list(self._by_host)

    def put(self, host: str, instance: Instance) -> Instance | None:
        """Remember an instance as one of a host; None when there are too many to remember it."""
        here = self.on(host)
        if instance.uuid not in here and (
            len(here) >= MOST_ON_A_HOST or self._count >= MOST_INSTANCES
        ):
            self._say_full()
            return None
        self._count += instance.uuid not in here
        kept = replace(instance, host=host)
        self._by_host.setdefault(host, {})[instance.uuid] = kept
        return kept

    def drop(self, host: str, uuid: str) -> None:
        """Forget one instance of a host."""
        here = self._by_host.get(host, {})
        if here.pop(uuid, None) is not None:
            self._count -= 1
            if not here:
                del self._by_host[host]

    def forget(self, host: str) -> None:
        """Forget all instances of a host."""
        self._count -= len(self._by_host.pop(host, {}))

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
        self._told: list[Aggregate] = []

    def put(self, aggregate: Aggregate) -> None:
        """Remember an aggregate in the place of what was told of it before."""
        self.drop(aggregate)
        if len(self._told) < MOST_AGGREGATES:
            self._told.append(aggregate)
        else:
            ours = aggregate.uuid or aggregate.id
            LOG.warning("Casts told of more than %s aggregates; %s ignored", MOST_AGGREGATES, ours)

    def drop(self, aggregate: Aggregate) -> None:
        """Forget an aggregate."""
        self._told = [each for each in self._told if not _same(each, aggregate)]

    def over(self, inventory: Iterable[Aggregate]) -> list[Aggregate]:
        """Return the aggregates of the inventory, those that were told in their place or added.

        An aggregate that the inventory has stays after its end was told: it ends there.
        """
        told = {each.uuid or each.id: each for each in self._told}
        found = [told.get(each.uuid) or told.get(each.id) or each for each in inventory]
        replaced = {id(each) for each in found}
        more = [each for each in self._told if id(each) not in replaced]
        return found + sorted(more, key=lambda each: (each.id or 0, each.uuid or ""))


def _same(one: Aggregate, other: Aggregate) -> bool:
    if one.uuid and other.uuid:
        return one.uuid == other.uuid
    return one.id is not None and one.id == other.id
