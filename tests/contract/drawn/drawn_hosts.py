# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts as hypothesis draws them: many ordinary, many odd, many alike."""

import json

from hypothesis import strategies as st

from inventory.objects.aggregate import Aggregate
from inventory.objects.numa import NUMACell, NUMAPagesTopology, NUMATopology
from inventory.objects.pci_and_network import NetworkMetadata
from scheduler.hosts.flavor_mix import make_mix
from scheduler.objects.instance import Instance
from tests.builders import a_flavor
from tests.devices import a_pool, devices
from tests.hosts import a_host
from tests.numa_drawn import rooms

HOSTS = ["h1", "H1", "h2", "h3", "h4"]
NODES = ["n1", "n2"]
UUIDS = ["u1", "u2", "u3", "u4"]
CELLS = ["c1", "c2"]
METRICS = ["idle", "kernel", "membw"]
KEYS = [
    "availability_zone",
    "ram_weight_multiplier",
    "cpu_weight_multiplier",
    "disk_weight_multiplier",
    "io_ops_weight_multiplier",
    "num_instances_weight_multiplier",
    "build_failure_weight_multiplier",
    "cross_cell_move_weight_multiplier",
    "hypervisor_version_weight_multiplier",
    "image_props_weight_multiplier",
    "metrics_weight_multiplier",
    "pci_weight_multiplier",
    "soft_affinity_weight_multiplier",
    "soft_anti_affinity_weight_multiplier",
    "alignment_weight_multiplier",
    "flavor_mix_weight_multiplier",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
    "max_io_ops_per_host",
    "max_instances_per_host",
    "filter_tenant_id",
    "filter_tenant_id2",
    "instance_type",
    "ssd",
    "a:b",
    "os_type",
    "hw_qemu_guest_agent",
    "trait:X",
]
FLAVORS = [a_flavor(id=1, name="m1"), a_flavor(id=2, name="m2"), a_flavor(id=None, name="m1")]
SMALL = st.integers(-4, 12)
NUMERIC_TEXTS = ["1", "2.5", "-3", "nan", "inf", "1e400", "1e308", "-1e308"]
ZONE_TEXTS = ["z1", "z1, z2", "nova", "p1, p2"]
OTHER_TEXTS = ["", "x", "m1", "true", "windows, linux", "abc,8", "required"]
TEXTS = st.sampled_from([*NUMERIC_TEXTS, *ZONE_TEXTS, *OTHER_TEXTS])
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
IMAGE_NAMES = st.sampled_from(["hw_architecture", "img_hv_type", "hw_vm_mode"])
# What agents and Nova's monitors report, and what else a column of JSON may hold.
METRIC = st.fixed_dictionaries(
    {"name": st.sampled_from(METRICS) | st.none()},
    optional={
        "value": SMALL | st.floats(-1e9, 1e9) | TEXTS | st.sampled_from([None, [], 10**400]),
        "numa_membw_values": st.just({"0": 5}),
    },
)
REPORTED = st.one_of(
    st.none(),
    st.just([{"name": name, "value": 7 * index} for index, name in enumerate(METRICS)]),
    st.lists(METRIC, max_size=4),
    st.sampled_from(["nonsense", {"name": "idle"}, [None, "idle", ["idle"]]]),
)
VERSIONS = st.sampled_from([None, 0, 10, 5000, 6002000, -1, "odd"])
INSTANCES = st.lists(
    st.builds(
        Instance,
        uuid=st.sampled_from(UUIDS),
        image_properties=st.none() | st.dictionaries(IMAGE_NAMES, NAMES | TEXTS),
        instance_type_id=st.none() | st.sampled_from([1, 2]),
        flavor_name=st.none() | st.sampled_from(["m1", "m2"]),
        flavor=st.none() | st.sampled_from(FLAVORS),
    ),
    max_size=3,
).map(lambda found: {each.uuid: each for each in found})
ADDRESSES = st.sampled_from(
    [None, "", "bogus", "192.0.2.1", "192.0.2.130", "2001:db8::1", "fe80::1%eth0"]
)
TAGS = st.fixed_dictionaries(
    {},
    optional={
        "product_id": st.sampled_from(["1520", "1521"]),
        "dev_type": st.sampled_from(["type-PF", "type-VF", "vdpa"]),
        "remote_managed": st.sampled_from(["true", "false"]),
        "physical_network": st.none() | TEXTS,
    },
)
POOLS = st.lists(
    st.tuples(st.integers(0, 120), st.none() | st.integers(0, 1), TAGS).map(
        lambda drawn: a_pool(drawn[0], drawn[1], **drawn[2])
    ),
    max_size=3,
).map(lambda pools: devices(*pools))
PAGES = st.builds(
    NUMAPagesTopology, st.sampled_from([4, 2048]), st.integers(0, 2000), st.integers(0, 1000)
)


@st.composite
def cells(draw, identity):
    """Draw one cell of a host, with threads or without, partly in use."""
    cpus = set(range(identity * 8, identity * 8 + draw(st.integers(0, 8))))
    threads = draw(st.integers(1, 2))
    cores = [{cpu for cpu in cpus if cpu // threads == core} for core in range(16)]
    return NUMACell(
        identity,
        draw(st.integers(0, 4096)),
        cpuset=cpus,
        pcpuset=draw(st.sampled_from([cpus, set(sorted(cpus)[:2])])),
        cpu_usage=draw(SMALL),
        memory_usage=draw(st.integers(-1, 4096)),
        pinned_cpus=draw(st.sampled_from([set(), set(sorted(cpus)[:1]), {99}])),
        siblings=[core for core in cores if core],
        mempages=draw(st.lists(PAGES, max_size=2)),
        network_metadata=draw(st.none() | st.just(NetworkMetadata({"net1"}))),
        socket=draw(st.none() | st.just(0)),
    )


TOPOLOGIES = st.integers(0, 2).flatmap(
    lambda count: st.tuples(*(cells(identity) for identity in range(count))).map(
        lambda found: NUMATopology(list(found))
    )
)
ENTRIES = st.lists(st.lists(NAMES, min_size=3, max_size=3), max_size=2)

SIZES = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4096))
MIXES = st.dictionaries(SIZES, st.floats(0.01, 100), max_size=4).map(make_mix)

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
        "failed_builds": SMALL,
        "cell_uuid": st.none() | st.sampled_from(CELLS),
        "metrics": REPORTED,
        "cpu_allocation_ratio": st.none() | st.floats(0, 8),
        "ram_allocation_ratio": st.none() | st.floats(0, 8),
        "disk_allocation_ratio": st.none() | st.floats(0, 8),
        "heartbeat_age": st.none() | st.floats(allow_nan=False),
        "service_disabled": st.booleans(),
        "forced_down": st.booleans(),
        "hypervisor_version": VERSIONS,
        "supported_instances": st.none() | ENTRIES,
        "cpu_info": CPU_INFO,
        "stats": st.none() | STATS,
        "aggregates": st.none() | AGGREGATES,
        "instances": INSTANCES,
        "host_ip": ADDRESSES,
        "trust_level": st.none() | st.sampled_from(["trusted", "untrusted", "unknown"]),
        "hypervisor_type": st.none() | st.sampled_from(["", "QEMU", "ironic"]),
        "disabled_reason": st.none() | st.just("work"),
        "pci_stats": st.none() | POOLS,
        # Odd ones, and such as guests often fit.
        "numa_topology": st.none() | TOPOLOGIES | rooms().map(lambda room: room.topology),
    }
)


@st.composite
def hosts(draw, least=1):
    """Draw hosts of different names; some have the very attributes of another one."""
    places = st.tuples(st.sampled_from(HOSTS), st.sampled_from(NODES))
    places = draw(st.lists(places, min_size=least, max_size=6, unique=True))
    kinds = draw(st.lists(_ATTRIBUTES, min_size=1, max_size=3))
    found = [a_host(*place, **draw(st.sampled_from(kinds))) for place in places]
    mix = draw(MIXES)
    for each in found:
        each.table.set_flavor_mix(mix)
    return found
