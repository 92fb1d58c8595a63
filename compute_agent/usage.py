# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of an audit: instances, moves and reserves to usage.

Everything is added up in whole MiB. Only the two columns that are in GiB are rounded, once, at the
end and upwards: what is taken is never understated, and adding up in another order or counting
twice gives the same figure.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from compute_agent.virt.driver import MIB_PER_GIB, Guest, NodeFacts, Size
from inventory.instance_states import IO_TASKS, released
from inventory.numa.usage import with_usage
from scheduler.objects.numa import NUMATopology


@dataclass(frozen=True, slots=True)
class Usage:
    """The columns of compute_nodes that an audit recounts, named as they are."""

    vcpus_used: int
    memory_mb_used: int
    local_gb_used: int
    free_ram_mb: int
    free_disk_gb: int
    running_vms: int
    current_workload: int
    stats: dict[str, str]


def on_node(guests: Iterable[Guest], managed: Iterable[Guest]) -> list[Guest]:
    """Return what counts on a node: each instance once.

    guests are those that the hypervisor has; managed are the instances that somebody else's rows
    have there. Where both are known the row holds, which knows the flavor, and the guest adds
    where it really is. An instance whose row has released its host counts no more, unless its
    guest is still there: then that takes what it takes.
    """
    rows = {each.uuid: each for each in managed if not released(each.vm_state, each.task_state)}
    there = [_joined(rows.pop(each.uuid, None), each) for each in guests]
    return there + list(rows.values())


def count(
    facts: NodeFacts,
    instances: Collection[Guest],
    more: Iterable[Size] = (),
    overhead: Callable[[Guest], Size] = lambda _: Size(),
) -> Usage:
    """Return the usage of a node, counted from zero.

    more is what is taken besides the instances, such as reserves. An instance counts in full
    whatever its state, since it may be started at any moment. The free figures may be negative,
    where more was promised than is there, and must stay so: readers compute
    total * ratio - (total - free).
    """
    taken = [*(each.size for each in instances), *map(overhead, instances), *more]
    memory_mb = sum(size.memory_mb for size in taken)
    local_gb_used = -(-sum(size.disk_mb for size in taken) // MIB_PER_GIB)
    return Usage(
        vcpus_used=sum(size.vcpus for size in taken),
        memory_mb_used=memory_mb,
        local_gb_used=local_gb_used,
        free_ram_mb=facts.memory_mb - memory_mb,
        free_disk_gb=facts.local_gb - local_gb_used,
        running_vms=len(instances),
        current_workload=sum(1 for each in instances if each.task_state),
        stats=_stats(instances),
    )


def cells(numa: NUMATopology | None, instances: Iterable[Guest]) -> NUMATopology | None:
    """Return the cells of a node, numa, with what the instances use of them."""
    if numa is None:
        return None
    for each in instances:
        if each.numa is not None:
            numa = with_usage(numa, each.numa)
    return numa


def _joined(row: Guest | None, guest: Guest) -> Guest:
    if row is None:
        return guest
    facts = {name: getattr(row, name) for name in Guest.__slots__}
    numa = row.numa if guest.numa is None else guest.numa
    return Guest(**facts | {"numa": numa, "pci_addresses": guest.pci_addresses})


def _stats(instances: Collection[Guest]) -> dict[str, str]:
    """Return the counters; their values are texts, as in every row that Nova has written."""
    counters: Counter[str] = Counter()
    for each in instances:
        counters[f"num_vm_{each.vm_state}"] += 1
        counters[f"num_task_{each.task_state}"] += 1
        counters[f"num_os_type_{each.os_type}"] += 1
        counters[f"num_proj_{each.project_id}"] += 1
    workload = sum(1 for each in instances if _is_io(each))
    counters.update(num_instances=len(instances), io_workload=workload)
    return {name: str(number) for name, number in sorted(counters.items())}


def _is_io(instance: Guest) -> bool:
    return instance.vm_state == "building" or instance.task_state in IO_TASKS
