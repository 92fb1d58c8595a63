# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests as hypothesis draws them: many ordinary, many odd, many alike."""

import json

from hypothesis import strategies as st

from scheduler.objects.aggregate import Aggregate
from scheduler.objects.retries import SchedulerRetries, TriedHost
from tests.builders import a_group, a_request, an_image
from tests.hosts import a_host

HOSTS = ["h1", "H1", "h2", "h3", "h4"]
NODES = ["n1", "n2"]
UUIDS = ["u1", "u2", "u3", "u4"]
KEYS = [
    "availability_zone",
    "ram_weight_multiplier",
    "cpu_weight_multiplier",
    "disk_weight_multiplier",
    "io_ops_weight_multiplier",
    "num_instances_weight_multiplier",
]
SMALL = st.integers(-4, 12)
TEXTS = st.sampled_from(["", "1", "2.5", "-3", "x", "z1", "z1, z2", "nova", "nan", "inf", "1e400"])
# Objects are shared, as those of one database reading are.
AGGREGATES = st.lists(
    st.dictionaries(st.sampled_from(KEYS), TEXTS).map(lambda each: Aggregate(metadata=each)),
    max_size=3,
)
STATS = st.dictionaries(
    st.sampled_from(["gpu", "num_instances", "free_ram_mb"]), TEXTS | st.none() | SMALL
)
CPU_INFO = st.one_of(
    st.none(),
    st.sampled_from(["", "nonsense", "[]", "7", "null"]),
    st.dictionaries(st.sampled_from(["vendor", "maxphysaddr"]), TEXTS | st.none()).map(json.dumps),
    st.floats().map(lambda bits: json.dumps({"maxphysaddr": {"bits": bits}})),
)
NAMES = st.sampled_from(["x86_64", "i686", "kvm", "xen", "hvm"])
ENTRIES = st.lists(st.lists(NAMES, min_size=3, max_size=3), max_size=2)

_ATTRIBUTES = st.fixed_dictionaries(
    {
        "total_usable_ram_mb": SMALL,
        "free_ram_mb": SMALL,
        "total_usable_disk_gb": SMALL,
        "free_disk_mb": st.integers(-2048, 8192),
        "vcpus_total": SMALL,
        "vcpus_used": SMALL,
        "num_io_ops": SMALL,
        "num_instances": SMALL,
        "cpu_allocation_ratio": st.none() | st.floats(0, 8),
        "ram_allocation_ratio": st.none() | st.floats(0, 8),
        "disk_allocation_ratio": st.none() | st.floats(0, 8),
        "heartbeat_age": st.none() | st.floats(allow_nan=False),
        "service_disabled": st.booleans(),
        "forced_down": st.booleans(),
        "hypervisor_version": st.none() | st.sampled_from([0, 10, 5000, 6002000, -1]),
        "supported_instances": st.none() | ENTRIES,
        "cpu_info": CPU_INFO,
        "stats": st.none() | STATS,
        "aggregates": st.none() | AGGREGATES,
        "instances": st.sets(st.sampled_from(UUIDS), max_size=3),
    }
)


@st.composite
def hosts(draw, least=1):
    """Draw hosts of different names; some have the very attributes of another one."""
    places = st.tuples(st.sampled_from(HOSTS), st.sampled_from(NODES))
    places = draw(st.lists(places, min_size=least, max_size=6, unique=True))
    kinds = draw(st.lists(_ATTRIBUTES, min_size=1, max_size=3))
    return [a_host(*place, **draw(st.sampled_from(kinds))) for place in places]


_RULES = st.sampled_from(
    [">= 1", "= 2", "== x", "x", "s!= x", "<or> a <or> z1", "<or>", "<in> z", "<all-in> a b", ""]
)
_EXTRA_SPECS = st.dictionaries(
    st.sampled_from(
        [
            "gpu",
            "free_ram_mb",
            "capabilities:gpu",
            "capabilities:free_ram_mb",
            "capabilities:cpu_info:vendor",
            "capabilities:cpu_info:maxphysaddr:bits",
            "capabilities:instances:u1",
            "capabilities:aggregates",
            "capabilities:limits:vcpu",
            "capabilities:service:disabled",
            "capabilities:heartbeat_age",
            "capabilities",
            "capabilities:",
            "::",
            "hw:maxphysaddr_bits",
            "trait:X",
        ]
    ),
    _RULES | st.text(max_size=6),
    max_size=4,
)
_IMAGES = st.none() | st.builds(
    lambda properties: an_image(**properties),
    st.dictionaries(
        st.sampled_from(["hw_architecture", "img_hv_type", "hw_vm_mode"]), NAMES | TEXTS
    ).flatmap(
        lambda names: st.fixed_dictionaries(
            {},
            optional={
                "img_hv_requested_version": st.sampled_from([">=6", "<6.0,!=5", "6", ",", ""]),
                "hw_maxphysaddr_bits": st.sampled_from([40, "46", "x", 0]),
            },
        ).map(lambda more: names | more)
    ),
)
_GROUPS = st.none() | st.builds(
    a_group,
    st.sampled_from(["affinity", "anti-affinity", "soft-affinity", None]),
    members=st.lists(st.sampled_from(UUIDS), max_size=4),
    hosts=st.lists(st.sampled_from([*HOSTS, "gone"]), max_size=3),
    rules=st.just({}) | st.just({"max_server_per_host": 2}),
)
_TRIED = st.builds(
    TriedHost, st.none() | st.sampled_from(HOSTS), st.none() | st.sampled_from(NODES)
)
_RETRIES = st.none() | st.builds(SchedulerRetries, st.integers(0, 3), st.lists(_TRIED, max_size=3))


def requests():
    """Draw requests that some of the hosts above can serve."""
    return st.builds(
        a_request,
        vcpus=st.integers(0, 6),
        memory_mb=st.integers(0, 6),
        root_gb=st.integers(0, 3),
        ephemeral_gb=st.integers(0, 1),
        swap=st.integers(0, 512),
        extra_specs=_EXTRA_SPECS,
        is_bfv=st.booleans(),
        availability_zone=st.none() | st.sampled_from(["", "z1", "z2", "nova"]),
        image=_IMAGES,
        instance_group=_GROUPS,
        retry=_RETRIES,
        instance_uuid=st.none() | st.sampled_from(UUIDS),
    )
