# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of an audit: instances, moves and reserves to usage.

Everything is added up in whole MiB. Only the two columns that are in GiB are rounded, once, at the
end and upwards: what is taken is never understated, and adding up in another order or counting
twice gives the same figure.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from compute_agent.audit.moves import Room
from compute_agent.virt.driver import MIB_PER_GIB, Guest, NodeFacts, Size
from inventory.fits import whole_gb
from inventory.instance_states import IO_TASKS, released
from inventory.numa.cells import with_usage
from inventory.objects.numa import NUMATopology

# What a column holds. A guest may have any size, and a figure that is too large would
# keep the whole row from being written.
LARGEST = 2**31 - 1
# Of the columns that hold in MB what others hold in GB.
LARGEST_MB = LARGEST * MIB_PER_GIB


def each_once(guests: Iterable[Guest]) -> list[Guest]:
    """Return the guests in the order of their uuids; of namesakes the largest one."""
    found: dict[str, Guest] = {}
    for each in guests:
        namesake = found.get(each.uuid)
        found[each.uuid] = each if namesake is None else max(namesake, each, key=_rank)
    return [found[uuid] for uuid in sorted(found)]


def on_node(guests: Iterable[Guest], managed: Iterable[Guest]) -> list[Guest]:
    """Return what counts on a node: each instance once, in the order of their uuids.

    guests are those that the hypervisor has; managed are the instances of the rows that
    others wrote. Where both are known the row holds, which knows the flavor, and the guest adds
    where it really is. An instance whose row has released its host counts no more, unless its
    guest is still there: then that takes what it takes.
    """
    rows = {each.uuid: each for each in managed if not released(each.vm_state, each.task_state)}
    there = [_joined(rows.pop(each.uuid, None), each) for each in each_once(guests)]
    return each_once(there + list(rows.values()))


def held_by_claims(
    instances: Iterable[Guest], guests: Iterable[Guest], claimed: Collection[str]
) -> list[Guest]:
    """Return the instances, those without a guest that are claimed for as taking nothing.

    Their claims take it, for which they are on their way.
    """
    there = {each.uuid for each in guests}
    return [
        replace(each, vcpus=0, memory_mb=0, root_gb=0, ephemeral_gb=0, swap_mb=0)
        if each.uuid in claimed and each.uuid not in there
        else each
        for each in instances
    ]


def count(
    facts: NodeFacts,
    instances: Collection[Guest],
    more: Iterable[Size] = (),
    overhead: Callable[[Guest], Size] = lambda _: Size(),
    claims: Collection[Size] = (),
    places: Collection[Size] = (),
) -> dict[str, int]:
    """Return the columns of compute_nodes for the usage of a node, counted from zero.

    more is taken besides the instances, such as reserves; claims are held for those to come, places
    for those of reservations.
    Instances count in full whatever their states, since they may be started at any moment. What is
    free is negative where more is allocated than is there: readers compute total * ratio - used.
    """
    held = [*claims, *places]
    taken = [*(each.size for each in instances), *map(overhead, instances), *more, *held]
    memory_mb_used = storable(sum(size.memory_mb for size in taken))
    disk_mb_used = storable(sum(size.disk_mb for size in taken), LARGEST_MB)
    local_gb_used = storable(whole_gb(disk_mb_used))
    return {
        "vcpus_used": storable(sum(size.vcpus for size in taken)),
        "memory_mb_used": memory_mb_used,
        "local_gb_used": local_gb_used,
        "free_ram_mb": storable(storable(facts.memory_mb) - memory_mb_used),
        "free_disk_gb": storable(storable(facts.local_gb) - local_gb_used),
        "disk_mb_used": disk_mb_used,
        "free_disk_mb": _free_disk_mb(facts, disk_mb_used, held),
        "claims": len(claims),
        "running_vms": len(instances),
        "current_workload": sum(1 for each in instances if each.task_state),
    }


def cells(numa: NUMATopology | None, users: Iterable[Guest | Room]) -> NUMATopology | None:
    """Return the cells of a node, numa, with what instances and migrations use of them."""
    if numa is None:
        return None
    for each in users:
        if each.numa is not None:
            numa = with_usage(numa, each.numa)
    return numa


def storable(number: int, largest: int = LARGEST) -> int:
    """Return a number, or the next one to it that there is room for."""
    return max(-largest, min(number, largest))


def _free_disk_mb(facts: NodeFacts, used: int, held: Iterable[Size]) -> int:
    """Return what is free of a node's disk both by what is counted and by what is really there.

    No file of an instance that is not there yet has made disk_available_least smaller.
    """
    free = storable(facts.local_gb) * MIB_PER_GIB - used
    if facts.disk_available_least is not None:
        least = storable(facts.disk_available_least) * MIB_PER_GIB
        free = min(free, least - sum(size.disk_mb for size in held))
    return storable(free, LARGEST_MB)


def _rank(guest: Guest) -> tuple[int, int, int, str]:
    size = guest.size
    return size.memory_mb, size.vcpus, size.disk_mb, repr(guest)


def _joined(row: Guest | None, guest: Guest) -> Guest:
    if row is None:
        return guest
    numa = row.numa if guest.numa is None else guest.numa
    return replace(
        row, numa=numa, pci_addresses=guest.pci_addresses, device_names=guest.device_names
    )


def stats(instances: Collection[Guest]) -> dict[str, str]:
    """Return counters of instances; the values are texts, as in every row that Nova has written."""
    counters = Counter({"io_workload": 0})
    for each in instances:
        counters[f"num_vm_{each.vm_state}"] += 1
        counters[f"num_task_{each.task_state or None}"] += 1
        counters[f"num_os_type_{each.os_type or None}"] += 1
        counters[f"num_proj_{each.project_id or None}"] += 1
        counters["io_workload"] += each.vm_state == "building" or each.task_state in IO_TASKS
    counters["num_instances"] = len(instances)
    return {name: str(number) for name, number in sorted(counters.items())}
