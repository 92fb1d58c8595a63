# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From a row of compute_nodes to a row of the host table.

Source: behaviour reference 1.0. Texts that many hosts share are parsed once: the text is the key
under which the table keeps what it means.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any

from oslo_log import log

from inventory import compute_nodes
from inventory.pci_pools import PciPools
from scheduler.decision.host_table import HostTable
from scheduler.objects.documents import numa_topology_from_json, pci_pools_from_json

LOG = log.getLogger(__name__)
# How the names of metrics end that agents store as shares of 1.
PERCENT = ".percent"


def write_nodes(
    hosts: HostTable, nodes: Mapping[int, Any], consumed: Mapping[int, float]
) -> list[Any]:
    """Write rows of compute_nodes into rows of the table; return those that were not outdated.

    nodes has them by the row. One that has never reported its free disk is not finished and counts
    as outdated. What was consumed of a node at a moment, without a claim in the database, stays
    until the node is written later than that: by its id, in seconds since 1970 on the database's
    clock.
    """
    for name, of in _ALWAYS.items():
        hosts.write([*nodes], name, map(of, nodes.values()))
    current = {
        row: node
        for row, node in nodes.items()
        if node.free_disk_gb is not None and consumed.get(node.id, 0.0) <= written(node)
    }
    rows, found = [*current], [*current.values()]
    for name, of in _RESOURCES.items():
        hosts.write(rows, name, map(of, found))
    for name in _READERS:
        texts = [getattr(node, name) or "" for node in found]
        hosts.share(rows, name, texts, partial(_read, name))
    _write_counts(hosts, current)
    return found


def seconds(moment: datetime | None) -> float:
    """Return a moment of the database, which has no zone, as seconds since 1970."""
    return moment.replace(tzinfo=UTC).timestamp() if moment else 0.0


def written(node: Any) -> float:
    """Return when a row of compute_nodes was written, in seconds since 1970."""
    return seconds(node.updated_at or node.created_at)


def _free_disk_mb(node: Any) -> int:
    least = node.disk_available_least
    free_gb = node.free_disk_gb if least is None else min(node.free_disk_gb, least)
    return _exact(node.free_disk_mb, free_gb)


def _exact(mb: int | None, gb: int) -> int:
    """Return a size in MB; an agent of an older release has written it in GB only."""
    return gb * 1024 if mb is None else mb


def _write_counts(hosts: HostTable, nodes: Mapping[int, Any]) -> None:
    counts = []
    for row, node in nodes.items():
        stats = hosts.get(row, "stats") or {}
        # Each claim is an instance that is being built.
        instances = _count("num_instances", node, stats) + node.claims
        io_ops = _count("io_workload", node, stats) + node.claims
        counts.append((instances, io_ops, _count("failed_builds", node, stats)))
    names = ("num_instances", "num_io_ops", "failed_builds")
    for name, found in zip(names, zip(*counts, strict=True), strict=False):
        hosts.write([*nodes], name, found)


def _read(name: str, text: str) -> Any:
    read = _READERS[name]
    try:
        return read(text)
    # One unreadable row must not keep all other hosts from being read.
    except (ValueError, RecursionError, OverflowError) as error:
        LOG.warning("Column %s of a compute node is unreadable and ignored: %s", name, error)
        return read("")


def _plain(kind: type) -> Callable[[str], Any]:
    """Return a reader of JSON that holds a value of one kind."""

    def read(text: str) -> Any:
        value = json.loads(text) if text else kind()
        if not isinstance(value, kind):
            raise ValueError(f"not a {kind.__name__}")
        return value

    return read


def _metrics(text: str) -> Any:
    """Read metrics; what is a share of 1 in the row is a percentage to those who weigh it."""
    metrics = _plain(list)(text)
    for each in metrics:
        if isinstance(each, dict) and str(each.get("name")).endswith(PERCENT):
            # A whole number in JSON may be larger than any float.
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                each["value"] = 100 * float(each["value"])
    return metrics


def _count(name: str, node: Any, stats: Mapping[str, Any]) -> int:
    with suppress(TypeError, ValueError, OverflowError):
        count = int(stats.get(name) or 0)
        # With the claims as well it fits into a column.
        if count.bit_length() < 63:
            return count
    LOG.warning("Statistic %s of %s is %r, no number; taken as 0", name, node.host, stats[name])
    return 0


# Each takes "" for nothing reported, which counts as well in place of what cannot be read: such a
# host has no devices to give, and no cells for guests that need some.
_READERS: dict[str, Callable[[str], Any]] = {
    "supported_instances": _plain(list),
    "metrics": _metrics,
    "stats": _plain(dict),
    "numa_topology": numa_topology_from_json,
    "pci_stats": lambda text: PciPools(pci_pools_from_json(text)),
}
_FACTS = (
    "generation",
    "uuid",
    "host_ip",
    "hypervisor_type",
    "hypervisor_version",
    "hypervisor_hostname",
    "cpu_info",
)
# What is read of a row.
COLUMNS = (
    *("id", "host", "created_at", "updated_at", "deleted", "claims", *_FACTS),
    *("memory_mb", "free_ram_mb", "vcpus", "vcpus_used", *compute_nodes.RATIOS),
    *("local_gb", "local_gb_used", "free_disk_gb", "disk_available_least"),
    *("disk_mb_used", "free_disk_mb", *_READERS),
)
# How the columns of a table are made of a row: those that do not change with use, and the others.
_ALWAYS: dict[str, Callable[[Any], Any]] = {
    "node_id": attrgetter("id"),
    **{name: attrgetter(name) for name in _FACTS},
}
_RESOURCES: dict[str, Callable[[Any], Any]] = {
    "updated": written,
    "total_usable_ram_mb": attrgetter("memory_mb"),
    "free_ram_mb": attrgetter("free_ram_mb"),
    "total_usable_disk_gb": attrgetter("local_gb"),
    "free_disk_mb": _free_disk_mb,
    "disk_mb_used": lambda node: _exact(node.disk_mb_used, node.local_gb_used),
    "vcpus_total": attrgetter("vcpus"),
    "vcpus_used": attrgetter("vcpus_used"),
    **{name: attrgetter(name) for name in compute_nodes.RATIOS},
}
