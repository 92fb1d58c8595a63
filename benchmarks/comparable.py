# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A fleet that we and Nova can both decide on: plain values, the same for the same seed."""

from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from scheduler.decision.host_table import HostTable
from scheduler.objects.flavor import Flavor
from scheduler.objects.image_meta import ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import RequestSpec

VCPUS, RAM_MB, DISK_GB = 64, 262_144, 4_000
FLAVOR = {"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 0, "swap": 0}
IMAGE = {"hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "hvm"}
SUPPORTED = [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]


def a_fleet(size: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return so many hosts, each with up to thirty instances and room for more."""
    chance = Random(seed)
    return [_a_host(number, chance.randrange(30)) for number in range(size)]


def _a_host(number: int, instances: int) -> dict[str, Any]:
    return {
        "host": f"compute-{number:06}",
        "total_usable_ram_mb": RAM_MB,
        "free_ram_mb": RAM_MB - 2048 * instances - number % 997,
        "total_usable_disk_gb": DISK_GB,
        "free_disk_mb": 1024 * (DISK_GB - 20 * instances) - number % 991,
        "vcpus_total": VCPUS,
        "vcpus_used": 2 * instances,
        "num_instances": instances,
        "num_io_ops": instances % 8,
        "failed_builds": int(number % 50 == 0),
        "hypervisor_version": (6_002_000, 8_000_000, 9_001_000)[number % 3],
        "cpu_allocation_ratio": 4.0,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
    }


def a_table(fleet: Iterable[dict[str, Any]]) -> HostTable:
    """Return the fleet as we decide on it."""
    hosts = HostTable()
    for each in fleet:
        row = hosts.add(each["host"], each["host"])
        for name, value in each.items():
            hosts.set(row, name, value)
        hosts.set(row, "supported_instances", SUPPORTED, "supported")
    hosts.fill("heartbeat_age", np.zeros(hosts.size))
    return hosts


def a_request() -> RequestSpec:
    """Return the request that is decided."""
    image = ImageMeta(id="image", properties=ImageMetaProps(IMAGE))
    return RequestSpec(Flavor(id=1, name="m1.small", **FLAVOR), project_id="p", image=image)
