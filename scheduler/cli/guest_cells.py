# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From the extra specs of a flavor to NUMA cells, which callers of a scheduler work out themselves.

Nova's API does so for its schedulers. Understood is what most flavors say; the rest is refused.
"""

from collections.abc import Mapping

from inventory.refusals import Malformed
from scheduler.objects.flavor import Flavor
from scheduler.objects.numa import InstanceNUMACell, InstanceNUMATopology

NODES, POLICY, THREADS = "hw:numa_nodes", "hw:cpu_policy", "hw:cpu_thread_policy"
PAGES, EMULATOR = "hw:mem_page_size", "hw:emulator_threads_policy"
_POLICIES = {POLICY: ("shared", "dedicated"), THREADS: ("prefer", "isolate", "require")}
_SIZES = {"small": -1, "large": -2, "any": -3}
# In KB, as cells have it.
_UNITS = {"": 1, "kb": 1, "mb": 1024, "gb": 1024**2}
# What would change the cells and is not understood.
_OTHERS = ("hw:numa_cpus.", "hw:numa_mem.", "hw:cpu_dedicated_mask", "hw:cpu_realtime")


def cells_of(flavor: Flavor) -> InstanceNUMATopology | None:
    """Return the cells that a flavor asks for, None without any.

    vCPUs and memory are shared out evenly. Raises Malformed for what is not understood.
    """
    specs = flavor.extra_specs
    for name in specs:
        if name.startswith(_OTHERS):
            raise Malformed(name, "is not understood here")
    pagesize, policy = _page_size(specs.get(PAGES)), _one_of(specs, POLICY)
    if NODES not in specs and pagesize is None and policy != "dedicated":
        return None
    nodes = _count(specs)
    if flavor.vcpus % nodes or flavor.memory_mb % nodes:
        raise Malformed(
            NODES,
            f"{flavor.vcpus} vCPUs and {flavor.memory_mb} MB cannot be shared out among {nodes}",
        )
    cells = [_cell(number, flavor, nodes, pagesize, policy) for number in range(nodes)]
    return InstanceNUMATopology(cells, emulator_threads_policy=specs.get(EMULATOR))


def _cell(
    number: int, flavor: Flavor, nodes: int, pagesize: int | None, policy: str | None
) -> InstanceNUMACell:
    """Return one of so many cells."""
    each, is_pinned = flavor.vcpus // nodes, policy == "dedicated"
    cpus = set(range(number * each, number * each + each))
    return InstanceNUMACell(
        number,
        flavor.memory_mb // nodes,
        cpuset=set() if is_pinned else cpus,
        pcpuset=cpus if is_pinned else set(),
        pagesize=pagesize,
        cpu_policy=policy,
        cpu_thread_policy=_one_of(flavor.extra_specs, THREADS),
    )


def _count(specs: Mapping[str, str]) -> int:
    """Return how many cells are asked for; one, where nobody says."""
    text = specs.get(NODES, "1")
    if not text.isdecimal() or not 0 < int(text) <= 64:
        raise Malformed(NODES, f"{text!r} is no number of cells")
    return int(text)


def _one_of(specs: Mapping[str, str], name: str) -> str | None:
    found = specs.get(name)
    if found is not None and found not in _POLICIES[name]:
        raise Malformed(name, f"{found!r} is none of {', '.join(_POLICIES[name])}")
    return found


def _page_size(text: str | None) -> int | None:
    if text is None or text in _SIZES:
        return None if text is None else _SIZES[text]
    digits = text.rstrip("KMGBkmgb")
    unit = text[len(digits) :].lower()
    if not digits.isdecimal() or unit not in _UNITS:
        raise Malformed(PAGES, f"{text!r} is no size, such as 2MB, nor small, large or any")
    return int(digits) * _UNITS[unit]
