# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Requests as hypothesis draws them: some of the drawn hosts can serve some of them."""

import json

from hypothesis import strategies as st

from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import NetworkMetadata
from scheduler.objects.request_spec import CellMapping, Destination, SchedulerRetries, TriedHost
from tests.builders import a_flavor, a_group, a_request, an_image
from tests.contract.drawn.drawn_hosts import (
    CELLS,
    HOSTS,
    IMAGE_NAMES,
    NAMES,
    NODES,
    TAGS,
    TEXTS,
    UUIDS,
)
from tests.devices import all_of, wanted
from tests.numa_drawn import guests

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
            "ssd",
            "aggregate_instance_extra_specs:ssd",
            "aggregate_instance_extra_specs:a:b",
            "trust:trusted_host",
            "hw:cpu_policy",
            "hw:cpu_thread_policy",
        ]
    ),
    _RULES
    | st.sampled_from(["trusted", "unknown", "dedicated", "require", "required", "true"])
    | st.text(max_size=6),
    max_size=4,
)
_IMAGES = st.none() | st.builds(
    lambda properties: an_image(**properties),
    st.dictionaries(IMAGE_NAMES, NAMES | TEXTS).flatmap(
        lambda names: st.fixed_dictionaries(
            {},
            optional={
                "img_hv_requested_version": st.sampled_from([">=6", "<6.0,!=5", "6", ",", ""]),
                "hw_maxphysaddr_bits": st.sampled_from([40, "46", "x", 0]),
                "os_type": st.sampled_from(["windows", "linux", "", 0, False]),
                "hw_qemu_guest_agent": st.booleans(),
                "hw_cpu_policy": st.just("dedicated"),
                "hw_cpu_thread_policy": st.just("require"),
            },
        ).map(lambda more: names | more)
    ),
)
_GROUPS = st.none() | st.builds(
    a_group,
    st.sampled_from(["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", None]),
    members=st.lists(st.sampled_from(UUIDS), max_size=4),
    hosts=st.lists(st.sampled_from([*HOSTS, "gone"]), max_size=3),
    rules=st.just({}) | st.just({"max_server_per_host": 2}),
)
_TRIED = st.builds(
    TriedHost, st.none() | st.sampled_from(HOSTS), st.none() | st.sampled_from(NODES)
)
_RETRIES = st.none() | st.builds(SchedulerRetries, st.integers(0, 3), st.lists(_TRIED, max_size=3))
_DESTINATIONS = st.none() | st.builds(
    Destination,
    host=st.none() | st.sampled_from(HOSTS),
    cell=st.none() | st.sampled_from(CELLS).map(CellMapping),
    allow_cross_cell_move=st.booleans(),
)


_UUIDS_HINT = st.lists(st.sampled_from([*UUIDS, "", '["u1","u2"]', "[", "[1]"]), max_size=2)
_QUERIES = st.sampled_from(
    [
        [">=", "$free_ram_mb", 2],
        ["and", ["<", "$vcpus_used", 3], ["not", "$service.disabled"]],
        ["or", ["=", "$stats.gpu", "1"], ["in", "$host", "h1", "h2"]],
        ["not", ["=", "$unknown", 1]],
        ["=", "$hypervisor_type", "$host"],
        ["!=", 1, 2],
        [],
    ]
).map(json.dumps)
_HINTS = st.fixed_dictionaries(
    {},
    optional={
        "same_host": _UUIDS_HINT,
        "different_host": _UUIDS_HINT,
        "build_near_host_ip": st.lists(
            st.sampled_from(["192.0.2.9", "2001:db8::9", "bogus", ""]), max_size=2
        ),
        "cidr": st.lists(st.sampled_from(["/24", "25", "/99", ""]), max_size=2),
        "query": st.lists(_QUERIES | st.text(max_size=6), max_size=2),
    },
)
_DEVICES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(TAGS | st.dictionaries(st.text(max_size=4), TEXTS, max_size=2), max_size=2),
        st.sampled_from([None, "required", "socket", "legacy", "preferred", "odd"]),
    ).map(lambda drawn: wanted(drawn[0], *drawn[1], policy=drawn[2])),
    max_size=2,
).map(lambda found: all_of(*found))


@st.composite
def _guest_cells(draw, identity):
    cpus = set(range(identity * 4, identity * 4 + draw(st.integers(0, 4))))
    policy = draw(st.sampled_from([None, "shared", "dedicated", "mixed"]))
    pinned = {"dedicated": cpus, "mixed": set(sorted(cpus)[:1])}.get(policy, set())
    return InstanceNUMACell(
        identity,
        draw(st.sampled_from([0, 1, 512, 1024, 4096])),
        cpuset=cpus - pinned,
        pcpuset=pinned,
        pagesize=draw(st.sampled_from([None, -1, -2, -3, 4, 2048, 1048576])),
        cpu_policy=policy,
        cpu_thread_policy=draw(st.sampled_from([None, "prefer", "require", "isolate"])),
    )


_GUESTS = st.integers(1, 2).flatmap(
    lambda count: st.builds(
        InstanceNUMATopology,
        st.tuples(*(_guest_cells(identity) for identity in range(count))).map(list),
        emulator_threads_policy=st.sampled_from([None, "share", "isolate"]),
    )
)


def requests():
    """Draw requests that some of the hosts above can serve."""
    flavors = st.builds(
        a_flavor,
        vcpus=st.integers(0, 6),
        memory_mb=st.integers(0, 6),
        root_gb=st.integers(0, 3),
        ephemeral_gb=st.integers(0, 1),
        swap=st.integers(0, 512),
        extra_specs=_EXTRA_SPECS,
        id=st.sampled_from([1, 2, None]),
        name=st.sampled_from(["m1", "m2", None]),
    )
    return st.fixed_dictionaries(
        {"flavor": flavors, "instance_uuid": st.none() | st.sampled_from(UUIDS)},
        optional={
            "is_bfv": st.booleans(),
            "availability_zone": st.sampled_from(["", "z1", "z2", "nova"]),
            "project_id": st.none() | st.sampled_from(["p1", "p2", "p3"]),
            "image": _IMAGES,
            "instance_group": _GROUPS,
            "requested_destination": _DESTINATIONS,
            "retry": _RETRIES,
            "scheduler_hints": _HINTS,
            "pci_requests": _DEVICES,
            "numa_topology": _GUESTS | guests().map(lambda needs: needs.topology),
            "network_metadata": st.none() | st.just(NetworkMetadata({"net1"})),
        },
    ).map(lambda drawn: a_request(**drawn))
