# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Any request that our values can express, and any JSON."""

import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell
from inventory.objects.pci_and_network import InstancePCIRequests
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import RequestSpec, SchedulerRetries
from scheduler.objects.selection import SchedulerLimits
from tests.unit.scheduler.wire.releases import PROPERTIES, TRUTHS, WHOLE_NUMBERS

counts = st.integers(0, 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
# As they are read: in small letters, without blanks.
uuids = st.text("0123456789abcdef-", min_size=1, max_size=8)
moments = st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='seconds')}Z")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_mappings = st.lists(st.dictionaries(texts, st.none() | texts, max_size=2), max_size=2)
_PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(sorted(PROPERTIES), texts),
    **dict.fromkeys(sorted(WHOLE_NUMBERS), counts),
    **dict.fromkeys(sorted(TRUTHS), st.booleans()),
    "hw_disk_bus": st.sampled_from(["ide", "scsi", "virtio"]),
    "hw_numa_cpus": st.lists(st.sets(st.integers(0, 300), max_size=3), max_size=2),
    "hw_numa_mem": st.lists(counts, max_size=2),
    "traits_required": st.lists(texts, max_size=2, unique=True),
    "img_block_device_mapping": _mappings,
    "img_mappings": _mappings,
}
all_properties = st.fixed_dictionaries(_PROPERTIES).map(ImageMetaProps)
_properties = st.sets(st.sampled_from(sorted(_PROPERTIES)), max_size=6).flatmap(
    lambda names: st.fixed_dictionaries({name: _PROPERTIES[name] for name in sorted(names)})
)
_PLAIN = {
    int: counts,
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: texts,
    bool: st.booleans(),
    types.NoneType: st.none(),
    ImageMetaProps: _properties.map(ImageMetaProps),
}
# Fields whose values are fewer than their type says.
_SPECIAL: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (ImageMeta, "created_at"): st.none() | moments,
    (ImageMeta, "updated_at"): st.none() | moments,
    # An empty one says what the policy says today.
    (InstanceNUMACell, "cpu_pinning"): st.none()
    | st.dictionaries(counts, counts, min_size=1, max_size=2),
    (InstanceNUMACell, "cpu_policy"): st.sampled_from([None, "shared", "dedicated", "mixed"]),
    (InstanceGroup, "rules"): st.fixed_dictionaries(
        {}, optional={"max_server_per_host": st.integers(1, 2**31 - 1)}
    ),
    (InstanceGroup, "members"): st.lists(uuids, max_size=2),
    (InstancePCIRequests, "instance_uuid"): st.none() | uuids,
    (SchedulerRetries, "num_attempts"): st.integers(0, 2_000_000_000),
    (RequestSpec, "instance_uuid"): st.none() | uuids,
    (RequestSpec, "num_instances"): st.integers(1, 10_000),
    # Of no caller.
    (RequestSpec, "offered_nodes"): st.none(),
    (RequestSpec, "refused_nodes"): st.builds(set),
    (RequestSpec, "needs_placement"): st.just(False),
    (RequestSpec, "kept_apart"): st.builds(set),
    # All instances of a request have to fit into the columns of one node.
    **{
        (Flavor, name): st.integers(0, 100_000)
        for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
    },
    (SchedulerLimits, "vcpu"): st.none() | counts,
    (SchedulerLimits, "memory_mb"): st.none() | counts,
    (SchedulerLimits, "disk_gb"): st.none() | counts,
}


def any_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return the values of a type as the fields of our dataclasses name it."""
    inner = [any_of(each) for each in get_args(hint)]
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(inner)
    if origin is list:
        return st.lists(inner[0], max_size=2)
    if origin is set:
        return st.sets(inner[0], max_size=2)
    if origin is dict:
        return st.dictionaries(*inner, max_size=2)
    if is_dataclass(hint):
        return st.deferred(lambda: _built(hint))
    return _PLAIN[hint]


def _built(made: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(made)
    return st.builds(
        made,
        **{
            each.name: _SPECIAL.get((made, each.name), any_of(hints[each.name]))
            for each in fields(made)
        },
    )


requests = any_of(RequestSpec)
