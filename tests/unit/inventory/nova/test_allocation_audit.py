# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of allocations that do not fit the instances, and what is to be done about them."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.nova.allocation_audit import (
    AuditedInstance,
    AuditedMigration,
    Disagreement,
    Kind,
    NovaRecords,
    PlacementRecords,
    audit,
    compared_sizes,
)

NODES = {"n1": "node-1", "n2": "node-2", "n3": "node-3"}
SMALL = {"VCPU": 1, "MEMORY_MB": 512}
HEAL = "nova-manage placement heal_allocations"
WAIT = "wait until its task or its migration is over, and look again"
Allocations = Mapping[str, Mapping[str, Mapping[str, int]]]


def an_instance(
    node: str | None = "n1", uuid: str = "i1", is_busy: bool = False
) -> AuditedInstance:
    return AuditedInstance(uuid, node, vcpus=1, memory_mb=512, is_busy=is_busy)


def audited(
    *instances: AuditedInstance,
    allocations: Allocations,
    migrations: tuple[AuditedMigration, ...] = (),
    is_complete: bool = True,
) -> list[Disagreement]:
    roots = {"n1": "n1", "n1-gpu": "n1", "n2": "n2", "n3": "n3", "storage": "storage"}
    nova = NovaRecords(NODES, instances, migrations, is_complete)
    return audit(nova, PlacementRecords(allocations, roots))


MOVE = AuditedMigration("m1", "i1", source_uuid="n1", dest_uuid="n2")


@pytest.mark.parametrize(
    ("instance", "allocations", "migrations"),
    [
        (an_instance(), {"n1": {"i1": SMALL}}, ()),
        (an_instance(), {"n1": {"i1": {"PCPU": 1, "MEMORY_MB": 512}}}, ()),
        # Of its GPU and of shared storage, too.
        (
            an_instance(),
            {"n1": {"i1": SMALL}, "n1-gpu": {"i1": {"VGPU": 1}}, "storage": {"i1": {"DISK_GB": 9}}},
            (),
        ),
        # Being placed, and placed nowhere.
        (an_instance(None, is_busy=True), {"n2": {"i1": SMALL}}, ()),
        (an_instance(None), {}, ()),
        # A resize, from the choice of a host to the end.
        (an_instance(), {"n1": {"m1": SMALL}, "n2": {"i1": {"VCPU": 4}}}, (MOVE,)),
        (an_instance("n2"), {"n1": {"m1": SMALL}, "n2": {"i1": {"VCPU": 4}}}, (MOVE,)),
        (an_instance(), {"n1": {"m1": SMALL}}, (MOVE,)),
        # An evacuation holds the source under the uuid of the instance.
        (an_instance("n2"), {"n1": {"i1": SMALL}, "n2": {"i1": SMALL}}, (MOVE,)),
    ],
)
def test_nothing_disagrees(
    instance: AuditedInstance, allocations: Allocations, migrations: tuple[AuditedMigration, ...]
) -> None:
    assert audited(instance, allocations=allocations, migrations=migrations) == []


@pytest.mark.parametrize(
    ("instance", "allocations", "kind", "text", "cure"),
    [
        (
            an_instance(),
            {},
            Kind.MISSING,
            "instance i1 on node-1 has no allocation",
            f"{HEAL} --instance i1",
        ),
        # What it has of storage does not say where it is.
        (
            an_instance(),
            {"storage": {"i1": {"DISK_GB": 1}}},
            Kind.MISSING,
            "instance i1 on node-1 has no allocation",
            f"{HEAL} --instance i1",
        ),
        (
            an_instance(),
            {"n2": {"i1": SMALL}},
            Kind.ELSEWHERE,
            "instance i1 on node-1 has its allocation on node-2",
            f"{HEAL} --force --instance i1",
        ),
        (
            an_instance(),
            {"n1": {"i1": {"VCPU": 1, "PCPU": 1, "MEMORY_MB": 256}}},
            Kind.SIZE,
            "instance i1 on node-1 has an allocation of 2 of 1 vCPU and 256 of 512 MB",
            f"{HEAL} --force --instance i1",
        ),
        (
            an_instance(None),
            {"n2": {"i1": SMALL}},
            Kind.LEFT_OVER,
            "instance i1 has an allocation on node-2 but is not on this node",
            "nova-manage placement audit --delete --resource_provider n2, while no instance is"
            " being built or moved there",
        ),
        # A node that Nova has no more, and a class that Nova's command does not look at.
        (
            an_instance(None),
            {"gone": {"i2": SMALL}},
            Kind.LEFT_OVER,
            "unknown consumer i2 has an allocation on gone but is not on this node",
            "nova-manage placement audit --delete --resource_provider gone, while no instance is"
            " being built or moved there",
        ),
        (
            an_instance(None),
            {"n1": {"i2": {"CUSTOM_BAREMETAL": 1}}},
            Kind.LEFT_OVER,
            "unknown consumer i2 has an allocation on node-1 but is not on this node",
            "openstack resource provider allocation unset --provider n1 i2",
        ),
        (
            an_instance(is_busy=True),
            {},
            Kind.MISSING,
            "instance i1 on node-1 has no allocation",
            WAIT,
        ),
    ],
)
def test_what_disagrees_and_its_cure(
    instance: AuditedInstance, allocations: Allocations, kind: Kind, text: str, cure: str
) -> None:
    (found,) = audited(instance, allocations=allocations)
    assert (found.kind, found.text, found.cure) == (kind, text, cure)


def test_what_is_wrong_during_a_move_is_waited_for() -> None:
    allocations = {"n2": {"i1": SMALL, "m1": SMALL}, "n3": {"i1": SMALL}}
    found = audited(an_instance(), allocations=allocations, migrations=(MOVE,))
    assert [(each.text, each.cure) for each in found] == [
        ("instance i1 has an allocation on node-3 but is not on this node", WAIT),
        ("migration m1 has an allocation on node-2 but is not on this node", WAIT),
    ]


def test_what_a_missing_cell_could_know_is_not_left_over() -> None:
    """But of an instance that another cell has everything is known."""
    allocations = {"n1": {"i1": SMALL}, "n2": {"i1": SMALL, "i2": SMALL}}
    found = audited(an_instance(), allocations=allocations, is_complete=False)
    assert [each.consumer_uuid for each in found] == ["i1"]


@pytest.mark.parametrize(
    ("extra_specs", "sizes"),
    [
        ({}, (4, 512)),
        ({"hw:cpu_policy": "dedicated", "resources:VGPU": "1"}, (4, 512)),
        ({"resources:VCPU": "0"}, (0, 512)),
        ({"resources1:PCPU": "2"}, (2, 512)),
        ({"hw:emulator_threads_policy": "isolate"}, (None, 512)),
        ({"resources:MEMORY_MB": "0"}, (4, 0)),
    ],
)
def test_the_amounts_of_extra_specs_are_compared(
    extra_specs: Mapping[str, str], sizes: tuple[int | None, int | None]
) -> None:
    assert compared_sizes(4, 512, extra_specs) == sizes


def test_a_size_of_which_nothing_is_known_is_any() -> None:
    instance = AuditedInstance("i1", "n1", vcpus=None, memory_mb=None)
    assert audited(instance, allocations={"n1": {"i1": {"CUSTOM_BAREMETAL": 1}}}) == []


_NODE = st.sampled_from([None, *NODES])
_INSTANCES = st.lists(
    st.builds(an_instance, _NODE, st.sampled_from(["i1", "i2", "i3"]), st.booleans()),
    unique_by=lambda each: each.uuid,
)
_MIGRATIONS = st.lists(
    st.builds(
        AuditedMigration,
        st.sampled_from(["m1", "m2"]),
        st.sampled_from(["i1", "i2", "i3"]),
        _NODE,
        _NODE,
    ),
    unique_by=lambda each: each.uuid,
)
_ALLOCATIONS = st.dictionaries(
    st.sampled_from([*NODES, "gone"]),
    st.dictionaries(
        st.sampled_from(["i1", "i2", "i3", "m1", "m2", "x"]),
        st.sampled_from([SMALL, {"VCPU": 2, "MEMORY_MB": 512}, {"PCPU": 1, "MEMORY_MB": 512}]),
    ),
)


def naively(
    instances: list[AuditedInstance], migrations: list[AuditedMigration], held: Allocations
) -> set[tuple[Kind, str, str]]:
    """Look at each pair of a consumer and a place by itself; one provider is one tree."""
    found: set[tuple[Kind, str, str]] = set()
    by_uuid = {each.uuid: each for each in instances}
    pairs = {(consumer, node) for node, consumers in held.items() for consumer in consumers}

    def may_be(consumer: str, node: str) -> bool:
        instance = by_uuid.get(consumer)
        if instance and (
            instance.node_uuid == node or (not instance.node_uuid and instance.is_busy)
        ):
            return True
        own = [each for each in migrations if each.instance_uuid == consumer and instance]
        if any(node in (each.source_uuid, each.dest_uuid) for each in own):
            return True
        return any(each.uuid == consumer and each.source_uuid == node for each in migrations)

    for instance in instances:
        node, uuid = instance.node_uuid, instance.uuid
        has = {each for consumer, each in pairs if consumer == uuid}
        own = [each for each in migrations if each.instance_uuid == uuid]
        moves_have = any(consumer == each.uuid for consumer, _ in pairs for each in own)
        if node and not has and not moves_have:
            found.add((Kind.MISSING, uuid, node))
        elif node and has and not any(may_be(uuid, each) for each in has):
            found.add((Kind.ELSEWHERE, uuid, node))
            pairs = {pair for pair in pairs if pair[0] != uuid}
        elif node in has and not own and 2 in held[str(node)][uuid].values():
            found.add((Kind.SIZE, uuid, str(node)))
    return found | {(Kind.LEFT_OVER, *pair) for pair in pairs if not may_be(*pair)}


@given(_INSTANCES, _MIGRATIONS, _ALLOCATIONS)
def test_the_same_disagrees_as_pair_by_pair(
    instances: list[AuditedInstance], migrations: list[AuditedMigration], held: Allocations
) -> None:
    found = audit(NovaRecords(NODES, instances, migrations), PlacementRecords(held, {}))
    seen = [(each.kind, each.consumer_uuid, each.provider_uuid) for each in found]
    assert len(seen) == len(set(seen))
    assert set(seen) == naively(instances, migrations, held)
