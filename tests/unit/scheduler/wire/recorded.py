# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The requests and the callers that were recorded, in our own values, written by hand."""

from dataclasses import replace

from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from inventory.objects.pci_and_network import (
    InstancePCIRequest,
    InstancePCIRequests,
    NetworkMetadata,
    NetworkRequest,
)
from scheduler.objects.flavor_and_image import Flavor, ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
    SchedulerRetries,
    TriedHost,
)
from scheduler.objects.selection import NUMATopologyLimits, SchedulerLimits
from scheduler.wire.context import RequestContext
from tests.builders import GROUP, IMAGE, INSTANCE

OTHER = "00000000-0000-0000-1111-000000000002"
NETWORK = NetworkMetadata({"physnet1"})
FLAVOR = Flavor(2, 2048, 20, id=1, name="m1.small", flavorid="f1", vcpu_weight=0)
NEWTON_IMAGE = ImageMeta(
    id=IMAGE,
    name="cirros",
    status="active",
    checksum="d41d8cd98f00b204e9800998ecf8427e",
    owner="project1",
    size=16300544,
    container_format="bare",
    disk_format="qcow2",
    created_at="2026-01-01T00:00:00Z",
    updated_at="2026-01-01T00:00:00Z",
    min_ram=512,
    min_disk=1,
    properties=ImageMetaProps({"hw_architecture": "x86_64", "hw_vm_mode": "hvm"}),
)
IMAGE_34 = replace(NEWTON_IMAGE, visibility="public", protected=False, virtual_size=117440512)
CELLS = [
    InstanceNUMACell(0, 1024, set(), {0, 1}, None, 2048, None, "dedicated", "prefer"),
    InstanceNUMACell(1, 1024, set(), {2, 3}, None, 2048, None, "dedicated", "prefer"),
]
DEVICE = InstancePCIRequest(
    1,
    [{"vendor_id": "8086", "product_id": "154d"}],
    alias_name="a1",
    request_id="00000000-0000-0000-4444-000000000001",
)
ANTI_AFFINITY = InstanceGroup(
    uuid=GROUP,
    policy="anti-affinity",
    members=[INSTANCE, OTHER],
    hosts=["compute1"],
    id=1,
    name="g1",
    project_id="project1",
    user_id="user1",
)
DIFFERENT_HOST = [f"00000000-0000-0000-1111-00000000000{n}" for n in (8, 9)]
TRIED_ONE = SchedulerRetries(2, [TriedHost("compute1", "compute1")])

MINIMAL = RequestSpec(
    FLAVOR,
    INSTANCE,
    project_id="project1",
    user_id="user1",
    image=IMAGE_34,
    pci_requests=InstancePCIRequests(INSTANCE),
)
FULL = RequestSpec(
    replace(
        FLAVOR,
        extra_specs={
            "hw:numa_nodes": "2",
            "hw:cpu_policy": "dedicated",
            "hw:mem_page_size": "large",
            "pci_passthrough:alias": "a1:1",
        },
    ),
    INSTANCE,
    num_instances=2,
    project_id="project1",
    user_id="user1",
    availability_zone="az1",
    image=replace(
        IMAGE_34,
        properties=ImageMetaProps(
            {
                "hw_architecture": "x86_64",
                "hw_numa_nodes": 2,
                "hw_numa_cpus": [{0, 1}, {2, 3}],
                "hw_numa_mem": [1024, 1024],
                "hw_vm_mode": "hvm",
                "img_hv_type": "qemu",
                "traits_required": ["HW_CPU_X86_AVX2"],
            }
        ),
    ),
    ignore_hosts=["compute9"],
    force_hosts=["compute3"],
    force_nodes=["compute3"],
    requested_destination=Destination(
        "compute3",
        "compute3",
        CellMapping("00000000-0000-0000-0000-0000000000c1", "cell1"),
        ["00000000-0000-0000-2222-000000000001"],
        forbidden_aggregates={"00000000-0000-0000-2222-000000000009"},
    ),
    instance_group=replace(ANTI_AFFINITY, rules={"max_server_per_host": 2}),
    scheduler_hints={
        "group": [GROUP],
        "different_host": DIFFERENT_HOST,
        "query": ['[">=","$free_ram_mb",1024]'],
    },
    retry=TRIED_ONE,
    limits=SchedulerLimits(128, 12288, 100, NUMATopologyLimits(16.0, 1.5, NETWORK)),
    numa_topology=InstanceNUMATopology(CELLS),
    pci_requests=InstancePCIRequests(INSTANCE, [replace(DEVICE, numa_policy="legacy")]),
    network_metadata=NETWORK,
    requested_networks=[NetworkRequest("00000000-0000-0000-7777-000000000001")],
    requested_resources=[
        RequestGroup(
            resources={"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
            required_traits={"CUSTOM_PHYSNET_PHYSNET1"},
            aggregates=[["00000000-0000-0000-2222-000000000001"]],
            requester_id="00000000-0000-0000-6666-000000000001",
        )
    ],
    request_level_params=RequestLevelParams(
        {"COMPUTE_NODE"}, {"COMPUTE_STATUS_DISABLED"}, [["_a", "_b"]]
    ),
    id=7,
)
PLAIN_OF_NEWTON = RequestSpec(
    FLAVOR,
    INSTANCE,
    project_id="project1",
    availability_zone="nova",
    image=NEWTON_IMAGE,
    retry=SchedulerRetries(1),
    pci_requests=InstancePCIRequests(INSTANCE),
)
FULL_OF_NEWTON = replace(
    PLAIN_OF_NEWTON,
    retry=TRIED_ONE,
    limits=SchedulerLimits(32, 12288, 100),
    instance_group=ANTI_AFFINITY,
    numa_topology=InstanceNUMATopology(CELLS),
    ignore_hosts=["compute9"],
    scheduler_hints={"group": [GROUP], "different_host": DIFFERENT_HOST},
)
BUILT_BY_NEWTON = replace(
    FULL_OF_NEWTON,
    user_id="user1",
    retry=SchedulerRetries(1),
    limits=SchedulerLimits(memory_mb=12288),
    scheduler_hints={"group": [GROUP]},
    numa_topology=InstanceNUMATopology(CELLS, instance_uuid=INSTANCE),
    pci_requests=InstancePCIRequests(INSTANCE, [DEVICE]),
)
BUILT_BY_34 = replace(
    MINIMAL,
    availability_zone="az1",
    ignore_hosts=["compute9"],
    retry=SchedulerRetries(1),
    scheduler_hints={"group": [GROUP]},
    instance_group=replace(ANTI_AFFINITY, members=[INSTANCE]),
)
BUILT_PLAINLY_BY_34 = replace(MINIMAL, availability_zone="az1")

ALICE = RequestContext(
    "req-00000000-0000-0000-0000-000000000001",
    user_id="user1",
    project_id="project1",
    user_name="alice",
    project_name="demo",
    is_admin=True,
    roles=("member",),
)
ALICE_TODAY = replace(
    ALICE,
    global_request_id="req-00000000-0000-0000-0000-0000000000ff",
    user_domain_id="default",
    project_domain_id="default",
    roles=("member", "reader"),
    client_timeout=60,
)
