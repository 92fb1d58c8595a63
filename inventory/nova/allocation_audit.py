# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where the allocations in Placement disagree with the instances in Nova's cells."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from inventory.errors import counted
from inventory.objects.amounts import taken_amounts

Resources = Mapping[str, int]

CPUS = ("VCPU", "PCPU")
MEMORY = "MEMORY_MB"
# Those by which `nova-manage placement audit` knows what is Nova's.
_BANDWIDTH = ("NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC")
AUDITED = frozenset((*CPUS, MEMORY, "DISK_GB", "VGPU", "MEM_ENCRYPTION_CONTEXT", *_BANDWIDTH))
_REMOVE = "nova-manage placement audit --delete"
_CAUTION = ", while no instance is being built or moved there"


class Kind(StrEnum):
    """What disagrees."""

    MISSING = "no allocation"
    ELSEWHERE = "allocation elsewhere"
    SIZE = "wrong size"
    LEFT_OVER = "left over"


@dataclass(frozen=True, slots=True)
class AuditedInstance:
    """An instance that is not deleted; a size of None is not compared, see compared_sizes().

    is_busy means that it has a task_state, or that it is not built yet.
    """

    uuid: str
    node_uuid: str | None
    vcpus: int | None
    memory_mb: int | None
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class AuditedMigration:
    """A migration in progress, as also a resize that waits for its confirmation.

    An evacuation is in progress until its source has come back and cleaned up.
    """

    uuid: str
    instance_uuid: str
    source_uuid: str | None
    dest_uuid: str | None


@dataclass(frozen=True, slots=True)
class NovaRecords:
    """What all cells say; nodes are names by the uuids of compute nodes, rows the rows of these.

    Without is_complete a cell is missing: what only it could know is not called left over.
    """

    nodes: Mapping[str, str]
    instances: Sequence[AuditedInstance]
    migrations: Sequence[AuditedMigration] = ()
    is_complete: bool = True
    rows: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacementRecords:
    """What providers have given to consumers, and the root of the tree of each provider."""

    allocations: Mapping[str, Mapping[str, Resources]]
    roots: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One of them, with the command that mends it; under_way if it may vanish by itself."""

    kind: Kind
    consumer_uuid: str
    provider_uuid: str
    text: str
    under_way: bool
    command: str

    @property
    def cure(self) -> str:
        if self.under_way:
            return "wait until its task or its migration is over, and look again"
        # Nova's command takes away what an instance that is being built has, too.
        return self.command + (_CAUTION if self.command.startswith(_REMOVE) else "")


# Of one consumer: resources by provider, by the root of the provider's tree.
_Holdings = Mapping[str, Mapping[str, Resources]]


@dataclass(frozen=True, slots=True)
class _Consumer:
    """A consumer of allocations; places are the nodes where it may have some.

    Of a move that holds the source under its own uuid, move_holds is true.
    """

    what: str
    uuid: str
    places: frozenset[str | None] = frozenset()
    under_way: bool = False
    is_moving: bool = False
    move_holds: bool = False


def compared_sizes(
    vcpus: int, memory_mb: int, extra_specs: Mapping[str, str]
) -> tuple[int | None, int | None]:
    """Return the CPUs and MB of a flavor in Placement, None where that depends on its hosts."""
    vcpus, memory_mb, _ = taken_amounts((vcpus, memory_mb, 0), extra_specs)
    # An isolated emulator has a CPU of its own.
    return None if "hw:emulator_threads_policy" in extra_specs else vcpus, memory_mb


def audit(nova: NovaRecords, placement: PlacementRecords) -> list[Disagreement]:
    """Return what disagrees, instance by instance, then what is left over.

    Both are read at different moments: of what has just come or gone, ask again.
    """
    held = _by_consumer(nova.nodes, placement)
    moves: dict[str, list[AuditedMigration]] = {}
    for each in nova.migrations:
        moves.setdefault(each.instance_uuid, []).append(each)
    found: list[Disagreement] = []
    for instance in nova.instances:
        consumer = _instance(instance, moves.get(instance.uuid, ()), held)
        found += _of_instance(instance, consumer, held.pop(instance.uuid, {}), nova.nodes)
    for each in nova.migrations:
        consumer = _Consumer("migration", each.uuid, frozenset({each.source_uuid}), under_way=True)
        found += _left_over(consumer, held.pop(each.uuid, {}), nova.nodes)
    if nova.is_complete:
        for uuid, own in sorted(held.items()):
            found += _left_over(_Consumer("unknown consumer", uuid), own, nova.nodes)
    return found


def _by_consumer(
    nodes: Collection[str], placement: PlacementRecords
) -> dict[str, dict[str, dict[str, Resources]]]:
    """Return what each consumer has of compute nodes, also of those that Nova has no more.

    Shared storage, for one, is in trees of its own, and nothing of an instance's place.
    """
    held: dict[str, dict[str, dict[str, Resources]]] = {}
    for provider, consumers in placement.allocations.items():
        root = placement.roots.get(provider, provider)
        for consumer, resources in consumers.items():
            if root in nodes or not resources.keys().isdisjoint((*CPUS, MEMORY)):
                held.setdefault(consumer, {}).setdefault(root, {})[provider] = resources
    return held


def _instance(
    instance: AuditedInstance, moves: Sequence[AuditedMigration], held: Collection[str]
) -> _Consumer:
    ends = [end for each in moves for end in (each.source_uuid, each.dest_uuid)]
    return _Consumer(
        what="instance",
        uuid=instance.uuid,
        places=frozenset((instance.node_uuid, *ends)),
        under_way=instance.is_busy or bool(moves),
        is_moving=bool(moves),
        move_holds=any(each.uuid in held for each in moves),
    )


def _of_instance(
    instance: AuditedInstance, consumer: _Consumer, own: _Holdings, nodes: Mapping[str, str]
) -> Iterator[Disagreement]:
    """Find out whether an instance has what it should, where it should and nowhere else."""
    node = instance.node_uuid
    heal = "nova-manage placement heal_allocations"
    force = f"{heal} --force --instance {instance.uuid}"

    def disagreement(kind: Kind, text: str, command: str) -> Disagreement:
        provider = str(node)
        text = f"instance {instance.uuid} on {nodes.get(provider, provider)} {text}"
        return Disagreement(kind, instance.uuid, provider, text, consumer.under_way, command)

    if node is None:
        # One that is being placed may have something anywhere.
        if not instance.is_busy:
            yield from _left_over(consumer, own, nodes)
    elif not own:
        if not consumer.move_holds:
            command = f"{heal} --instance {instance.uuid}"
            yield disagreement(Kind.MISSING, "has no allocation", command)
    elif own.keys().isdisjoint(consumer.places):
        where = ", ".join(nodes.get(each, each) for each in sorted(own))
        yield disagreement(Kind.ELSEWHERE, f"has its allocation on {where}", force)
    else:
        # The flavor of an instance that is resized is the old one or the new one.
        if not consumer.is_moving and (difference := _difference(instance, own[node])):
            yield disagreement(Kind.SIZE, difference, force)
        yield from _left_over(consumer, own, nodes)


def _left_over(
    consumer: _Consumer, own: _Holdings, nodes: Mapping[str, str]
) -> Iterator[Disagreement]:
    """Find what is held where its consumer has no business."""
    for root in sorted(own.keys() - consumer.places):
        for provider, resources in sorted(own[root].items()):
            yield Disagreement(
                kind=Kind.LEFT_OVER,
                consumer_uuid=consumer.uuid,
                provider_uuid=provider,
                text=f"{consumer.what} {consumer.uuid} has an allocation on"
                f" {nodes.get(root, root)} but is not on this node",
                under_way=consumer.under_way,
                command=_removal(consumer.uuid, provider, resources),
            )


def _difference(instance: AuditedInstance, held: Mapping[str, Resources]) -> str:
    """Return in words how an allocation differs from the flavor of its instance, else ""."""
    cpus = sum(each.get(name, 0) for each in held.values() for name in CPUS)
    memory_mb = sum(each.get(MEMORY, 0) for each in held.values())
    found = []
    if instance.vcpus not in (None, cpus):
        found.append(f"{cpus} of {counted(instance.vcpus or 0, 'vCPU')}")
    if instance.memory_mb not in (None, memory_mb):
        found.append(f"{memory_mb} of {instance.memory_mb} MB")
    return "has an allocation of " + " and ".join(found) if found else ""


def _removal(consumer: str, provider: str, resources: Resources) -> str:
    if AUDITED.isdisjoint(resources):
        return f"openstack resource provider allocation unset --provider {provider} {consumer}"
    return f"{_REMOVE} --resource_provider {provider}"
