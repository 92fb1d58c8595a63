# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Who chooses hosts for instances: we and Nova, each with its own loop and configured as told."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from oslo_config import cfg

from benchmarks.nova import Peer
from benchmarks.packing.fleets import Size
from conf import loading
from inventory.objects.standby import Protection
from scheduler import plugins
from scheduler.decision.pipeline import Request
from scheduler.decision.types import Placement
from scheduler.hosts.flavor_mix import make_mix
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec

# Values of options by their group and name.
Settings = Mapping[tuple[str, str], Any]
# The others have nothing to say of such hosts and requests, and cost most of the time.
CONCERNED: Settings = {
    ("filter_scheduler", "enabled_filters"): ["RamFilter", "CoreFilter", "DiskFilter"],
    ("filter_scheduler", "weight_classes"): [
        "AlignmentWeigher",
        "CPUWeigher",
        "DiskWeigher",
        "FlavorMixWeigher",
        "RAMWeigher",
    ],
}


class Placer(Protocol):
    """Chooses hosts, and keeps account of them in its own way."""

    def begin(self, hosts: Sequence[Size], flavors: Mapping[Size, float]) -> None:
        """Know these empty hosts, by their numbers, and no others, and what will be asked for."""

    def choose(self, size: Size, roomy: Sequence[int]) -> int | None:
        """Place an instance and return the host, None if it is refused; roomy have room for it."""

    def leave(self, host: int, size: Size) -> None:
        """Take note that an instance has left."""


def columns(number: int, has: Size) -> dict[str, Any]:
    """Return an empty host in the words that we and Nova have in common."""
    return {
        "host": f"compute-{number:03}",
        "vcpus_total": has.vcpus,
        "vcpus_used": 0,
        "total_usable_ram_mb": 1024 * has.ram_gb,
        "free_ram_mb": 1024 * has.ram_gb,
        "total_usable_disk_gb": has.disk_gb,
        "free_disk_mb": 1024 * has.disk_gb,
        "num_instances": 0,
        "num_io_ops": 0,
        "failed_builds": 0,
        "hypervisor_version": 8_000_000,
        "cpu_allocation_ratio": 1.0,
        "ram_allocation_ratio": 1.0,
        "disk_allocation_ratio": 1.0,
    }


class Ours:
    """We, with our filters and weighers."""

    def __init__(self, settings: Settings) -> None:
        conf = cfg.ConfigOpts()
        loading.read(conf, "berthmaster-scheduler", [], "")
        for (group, name), value in settings.items():
            conf.set_override(name, value, group)
        self._driver = plugins.load_driver(conf)
        self._hosts = HostTable()

    def begin(self, hosts: Sequence[Size], flavors: Mapping[Size, float]) -> None:
        self._hosts = HostTable()
        weights = {
            (each.vcpus, 1024 * each.ram_gb, 1024 * each.disk_gb): weight
            for each, weight in flavors.items()
        }
        self._hosts.set_flavor_mix(make_mix(weights))
        for number, has in enumerate(hosts):
            words = columns(number, has)
            row = self._hosts.add(words["host"], words["host"])
            for name, value in words.items():
                self._hosts.set(row, name, value)
        self._hosts.fill("heartbeat_age", np.zeros(len(hosts)))

    def choose(self, size: Size, roomy: Sequence[int]) -> int | None:
        placement = self.place(size)
        return None if placement is None else placement.chosen.row

    def place(self, size: Size, protection: Protection | None = None) -> Placement | None:
        """Place an instance, None if it is refused; protected as told."""
        request = replace(_request(size), protection=protection)
        placements = self._driver.decide(self._hosts, request).placements
        if not placements:
            return None
        # It is built before the next one is asked for.
        self._hosts.set(placements[0].chosen.row, "num_io_ops", 0)
        return placements[0]

    def leave(self, host: int, size: Size) -> None:
        for name, change in (
            ("vcpus_used", -size.vcpus),
            ("free_ram_mb", 1024 * size.ram_gb),
            ("free_disk_mb", 1024 * size.disk_gb),
            ("num_instances", -1),
        ):
            self._hosts.set(host, name, self._hosts.get(host, name) + change)


@cache
def _request(size: Size) -> Request:
    flavor = Flavor(size.vcpus, 1024 * size.ram_gb, size.disk_gb)
    return Request(RequestSpec(flavor, project_id="p"), [None])


class Novas:
    """Nova, with its own filters and weighers, among the hosts that have room."""

    def __init__(self, peer: Peer, settings: Settings) -> None:
        self._peer = peer
        peer.ask("settings", [[*name, value] for name, value in settings.items()])

    def begin(self, hosts: Sequence[Size], flavors: Mapping[Size, float]) -> None:
        self._peer.ask("fleet", [columns(*each) for each in enumerate(hosts)])

    def choose(self, size: Size, roomy: Sequence[int]) -> int | None:
        found: int | None = self._peer.ask("place", *size, roomy) if roomy else None
        return found

    def leave(self, host: int, size: Size) -> None:
        self._peer.ask("leave", *size, host)
