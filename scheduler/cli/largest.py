# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How large one instance more can be, in several ways."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from scheduler.cli import wanted
from scheduler.decision.capacity import Means
from scheduler.decision.host_table import HostTable
from scheduler.decision.largest import largest
from scheduler.decision.outcome import Candidate
from scheduler.decision.pipeline import Request
from scheduler.objects.flavor import Flavor
from scheduler.objects.request_spec import RequestSpec

UNITS = {"vcpus": "vCPUs", "memory_mb": "MB of memory", "root_gb": "GB of disk"}


def largest_of(hosts: HostTable, spec: RequestSpec, means: Means) -> list[dict[str, Any]]:
    """Return the most of each resource with the others as they are, and the largest multiple."""
    flavor = spec.flavor
    # What is shared out among cells comes in so many pieces.
    cells = len(spec.numa_topology) if spec.numa_topology else 1

    def find(sized: Flavor) -> Candidate | None:
        one = wanted.of_flavor(spec, sized)
        decision = means.decide(hosts.working_copy(), Request(one, ["new instance"]))
        return decision.placements[0].chosen if decision.placements else None

    def of_vcpus(count: int) -> Flavor:
        return replace(flavor, vcpus=count * cells)

    def of_memory(count: int) -> Flavor:
        return replace(flavor, memory_mb=count * cells)

    def of_disk(count: int) -> Flavor:
        return replace(flavor, root_gb=count)

    def times(count: int) -> Flavor:
        vcpus, memory_mb, root_gb = (count * getattr(flavor, name) for name in UNITS)
        return replace(flavor, vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb)

    return [
        _one("vcpus", of_vcpus, find, flavor.vcpus // cells),
        _one("memory_mb", of_memory, find, flavor.memory_mb // cells),
        _one("root_gb", of_disk, find, flavor.root_gb),
        _one("times", times, find, 1),
    ]


def _one(
    name: str,
    grown: Callable[[int], Flavor],
    find: Callable[[Flavor], Candidate | None],
    start: int,
) -> dict[str, Any]:
    """Return the largest flavor of those that grown() returns for a number."""
    best = largest(lambda count: find(grown(count)), start)
    size = best.size if name == "times" else getattr(grown(best.size), name)
    found = best.host is not None and best.is_bounded
    return {
        "of": name,
        "most": size,
        "flavor": wanted.sized(grown(best.size)) if found else None,
        "host": best.host.host if best.host else None,
        "bounded": best.is_bounded,
    }


def told(found: Mapping[str, Any]) -> str:
    """Return in words what largest_of() has found."""
    what = UNITS.get(found["of"])
    if found["host"] is None:
        return f"No host for the least {what}" if what else "No host for a single one"
    if not found["bounded"]:
        return f"Most {what or 'at once'}: no filter bounds it"
    size = f"{found['most']} {what}" if what else f"{found['most']} of them as one"
    return f"Most: {size}, {found['flavor']} on {found['host']}"
