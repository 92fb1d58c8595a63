# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A synthetic fleet: hosts as different from each other as those of a cloud in use are.

Figures that audits change (free memory, statistics, metrics) differ from host to host; what is
configured (aggregates, hypervisors, CPU models) comes in a few kinds. The same seed gives the same
fleet.
"""

import json
from random import Random

from inventory.objects.aggregate import Aggregate
from inventory.objects.numa import NUMACell, NUMATopology
from inventory.objects.pci_and_network import PciDevicePool
from inventory.pci_pools import PciPools
from scheduler.hosts.table import HostTable
from scheduler.objects.instance import Instance

AGGREGATE_SETS = 40
TOPOLOGIES = 100
INSTANCES_PER_HOST = 5
RAM_MB, DISK_GB, VCPUS = 262_144, 4_000, 64
FLAVORS = [(1, "m1.small"), (2, "m1.medium"), (3, "m1.large")]
IMAGES = [
    {"os_distro": distro, "os_version": str(version), "hw_machine_type": "q35"}
    for distro in ("debian", "windows")
    for version in range(10)
]
_METADATA = (
    ("availability_zone", ("z1", "z2", "z3")),
    ("filter_tenant_id", ("p1, p2", "p3")),
    ("instance_type", ("m1.small, m1.medium, m1.large", "m1.small")),
    ("ssd", ("true", "false")),
    ("os_type", ("linux", "windows")),
    ("cpu_allocation_ratio", ("4.0", "8.0")),
    ("ram_allocation_ratio", ("1.0", "1.5")),
    ("disk_allocation_ratio", ("1.0", "2.0")),
    ("max_io_ops_per_host", ("8", "16")),
    ("max_instances_per_host", ("50", "100")),
    ("ram_weight_multiplier", ("1.0", "2.0")),
    ("cpu_weight_multiplier", ("0.5", "1.0")),
)


def a_fleet(size: int, seed: int = 1) -> HostTable:
    """Return a table of that many hosts, all of them up and none of them full."""
    chance = Random(seed)
    sets = [_aggregates(number, chance) for number in range(AGGREGATE_SETS)]
    topologies = [_topology(chance) for _ in range(TOPOLOGIES)]
    pools = [_pools(number) for number in range(TOPOLOGIES)]
    hosts = HostTable()
    for number in range(size):
        row = hosts.add(f"compute-{number:05}", f"compute-{number:05}.example.org")
        kind = number % AGGREGATE_SETS
        hosts.set(row, "aggregates", sets[kind])
        hosts.set(row, "numa_topology", topologies[number % TOPOLOGIES])
        hosts.set(row, "pci_stats", pools[number % TOPOLOGIES])
        _write_facts(hosts, row, number)
        _write_usage(hosts, row, number, chance)
    return hosts


def _write_facts(hosts: HostTable, row: int, number: int) -> None:
    address = ".".join(
        str(part) for part in (10, number >> 16 & 255, number >> 8 & 255, number & 255)
    )
    cpu = json.dumps({"vendor": "Intel" if number % 3 else "AMD", "features": ["aes", "avx2"]})
    mode = [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]
    facts = {
        "uuid": f"00000000-0000-0000-0000-{number:012}",
        "cell_uuid": f"cell{number % 2}",
        "host_ip": address,
        "hypervisor_type": "QEMU",
        "hypervisor_version": (6_002_000, 8_000_000, 9_001_000)[number % 3],
        "total_usable_ram_mb": RAM_MB,
        "total_usable_disk_gb": DISK_GB,
        "vcpus_total": VCPUS,
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
        "trust_level": "trusted" if number % 4 else "untrusted",
    }
    for name, value in facts.items():
        hosts.set(row, name, value)
    hosts.set(row, "cpu_info", cpu)
    hosts.share([row], "supported_instances", ["supported"], lambda _: mode)


def _write_usage(hosts: HostTable, row: int, number: int, chance: Random) -> None:
    instances = chance.randrange(30)
    hosts.set(row, "free_ram_mb", RAM_MB - instances * 2048 - number % 997)
    hosts.set(row, "free_disk_mb", DISK_GB * 1024 - instances * 20 * 1024 - number % 991)
    hosts.set(row, "vcpus_used", instances * 2)
    hosts.set(row, "num_instances", instances)
    hosts.set(row, "num_io_ops", instances % 8)
    hosts.set(row, "failed_builds", int(number % 50 == 0))
    stats = {"num_instances": str(instances), "io_workload": str(instances % 8), "gpu": "2"}
    hosts.set(row, "stats", stats | {"number": str(number)})
    metrics = [
        {"name": "cpu.percent", "value": chance.random(), "source": "libvirt"},
        {"name": "cpu.frequency", "value": 2000 + number, "source": "libvirt"},
    ]
    hosts.set(row, "metrics", metrics)
    for each in range(INSTANCES_PER_HOST):
        identity, name = FLAVORS[(number + each) % len(FLAVORS)]
        instance = Instance(
            f"{number}-{each}",
            instance_type_id=identity,
            flavor_name=name,
            image_properties=IMAGES[number % len(IMAGES)],
        )
        hosts.instances.add(row, instance.uuid, instance)


def _aggregates(number: int, chance: Random) -> list[Aggregate]:
    chosen = [pair for pair in _METADATA if chance.random() < 0.6] or [_METADATA[0]]
    metadata = {key: chance.choice(values) for key, values in chosen}
    named = Aggregate(2 * number, f"uuid-{number}", f"set-{number}", metadata=metadata)
    return [
        named,
        Aggregate(2 * number + 1, f"other-{number}", f"rack-{number}", metadata={"r": "1"}),
    ]


def _topology(chance: Random) -> NUMATopology:
    """Return a host of two cells, some of its memory and CPUs in use."""
    cells = []
    for identity in range(2):
        cpus = set(range(identity * 32, identity * 32 + 32))
        siblings = [{cpu, cpu + 1} for cpu in sorted(cpus)[::2]]
        pinned = set(chance.sample(sorted(cpus), chance.randrange(8)))
        usage = chance.randrange(8)
        cells.append(
            NUMACell(
                identity,
                RAM_MB // 2,
                cpuset=cpus,
                pcpuset=cpus,
                cpu_usage=usage,
                memory_usage=usage * 1024,
                pinned_cpus=pinned,
                siblings=siblings,
            )
        )
    return NUMATopology(cells)


def _pools(number: int) -> PciPools:
    return PciPools(
        [
            PciDevicePool("1520", "8086", 1 + number % 16, 0, {"dev_type": "type-VF"}),
            PciDevicePool("1db4", "10de", number % 3, 1, {"dev_type": "type-PCI"}),
        ]
    )
