# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""NUMA cells from the extra specs of a flavor, which Nova's API works out for its schedulers.

The usual extra specs are understood; all others that change the cells are refused.
"""

from collections.abc import Mapping

from inventory.errors import Malformed, counted
from inventory.objects.numa import InstanceNUMACell, InstanceNUMATopology
from scheduler.objects.flavor_and_image import Flavor

NODES, POLICY, THREADS = "hw:numa_nodes", "hw:cpu_policy", "hw:cpu_thread_policy"
PAGES, EMULATOR = "hw:mem_page_size", "hw:emulator_threads_policy"
_POLICIES = {POLICY: ("shared", "dedicated"), THREADS: ("prefer", "isolate", "require")}
_SIZES = {"small": -1, "large": -2, "any": -3}
# In KB, as cells have it.
_UNITS = {"": 1, "kb": 1, "mb": 1024, "gb": 1024**2}
_UNSUPPORTED = ("hw:numa_cpus.", "hw:numa_mem.", "hw:cpu_dedicated_mask", "hw:cpu_realtime")


def numa_topology(flavor: Flavor) -> InstanceNUMATopology | None:
    """Return the cells that a flavor asks for, with vCPUs and memory divided evenly among them.

    Return None for a flavor without cells. Raise Malformed for unsupported extra specs.
    """
    specs = flavor.extra_specs
    for name in specs:
        if name.startswith(_UNSUPPORTED):
            raise Malformed(name, "is not supported here")
    pagesize, policy = _page_size(specs.get(PAGES)), _choice(specs, POLICY)
    if NODES not in specs and pagesize is None and policy != "dedicated":
        return None
    count = _count(flavor)
    vcpus, is_pinned = flavor.vcpus // count, policy == "dedicated"
    cpus = [{*range(number * vcpus, (number + 1) * vcpus)} for number in range(count)]
    cells = [
        InstanceNUMACell(
            number,
            flavor.memory_mb // count,
            cpuset=set() if is_pinned else cpus[number],
            pcpuset=cpus[number] if is_pinned else set(),
            pagesize=pagesize,
            cpu_policy=policy,
            cpu_thread_policy=_choice(specs, THREADS),
        )
        for number in range(count)
    ]
    return InstanceNUMATopology(cells, emulator_threads_policy=specs.get(EMULATOR))


def _count(flavor: Flavor) -> int:
    """Return the number of cells that a flavor asks for, by default one."""
    text = flavor.extra_specs.get(NODES, "1")
    if not text.isdecimal() or not 0 < int(text) <= 64:
        raise Malformed(NODES, f"{text!r} is not a number of cells")
    count = int(text)
    if flavor.vcpus % count or flavor.memory_mb % count:
        size = f"{counted(flavor.vcpus, 'vCPU')} and {flavor.memory_mb} MB"
        raise Malformed(NODES, f"{size} cannot be divided evenly by {count}")
    return count


def _choice(specs: Mapping[str, str], name: str) -> str | None:
    found = specs.get(name)
    if found is not None and found not in _POLICIES[name]:
        raise Malformed(name, f"{found!r} is not one of {', '.join(_POLICIES[name])}")
    return found


def _page_size(text: str | None) -> int | None:
    if text is None or text in _SIZES:
        return None if text is None else _SIZES[text]
    digits = text.rstrip("KMGBkmgb")
    unit = text[len(digits) :].lower()
    if not digits.isdecimal() or unit not in _UNITS:
        raise Malformed(PAGES, f"{text!r} is neither a size, such as 2MB, nor small, large or any")
    return int(digits) * _UNITS[unit]
