# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From a row of compute_nodes to a row of the host table.

Source: behaviour reference 1.0. Texts that many hosts share are parsed once: the text is the key
under which the table keeps what it means.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from oslo_log import log

from inventory import compute_nodes
from inventory.pci_pools import PciPools
from scheduler.decision.host_table import HostTable
from scheduler.objects.documents import numa_topology_from_json, pci_pools_from_json

LOG = log.getLogger(__name__)
# How the names of metrics end that agents store as shares of 1.
PERCENT = ".percent"

_SAME = (
    "uuid",
    "host_ip",
    "hypervisor_type",
    "hypervisor_version",
    "hypervisor_hostname",
    "cpu_info",
)


def write_node(hosts: HostTable, row: int, node: Any, consumed: float = 0.0) -> bool:
    """Write what a row of compute_nodes says into a row of the table; False if it is outdated.

    A node that has never reported its free disk is not finished and counts as outdated. What was
    consumed here at a moment, without a claim in the database, stays until the node is written
    later than that: in seconds since 1970 on the database's clock.
    """
    hosts.set(row, "node_id", node.id)
    hosts.set(row, "generation", node.generation)
    for name in _SAME:
        hosts.set(row, name, getattr(node, name))
    at = written(node)
    if node.free_disk_gb is None or consumed > at:
        return False
    hosts.set(row, "updated", at)
    _write_resources(hosts, row, node)
    return True


def seconds(moment: datetime | None) -> float:
    """Return a moment of the database, which has no zone, as seconds since 1970."""
    return moment.replace(tzinfo=UTC).timestamp() if moment else 0.0


def written(node: Any) -> float:
    """Return when a row of compute_nodes was written, in seconds since 1970."""
    return seconds(node.updated_at or node.created_at)


def _write_resources(hosts: HostTable, row: int, node: Any) -> None:
    hosts.set(row, "total_usable_ram_mb", node.memory_mb)
    hosts.set(row, "free_ram_mb", node.free_ram_mb)
    hosts.set(row, "total_usable_disk_gb", node.local_gb)
    hosts.set(row, "free_disk_mb", _free_disk_mb(node))
    hosts.set(row, "disk_mb_used", _exact(node.disk_mb_used, node.local_gb_used))
    hosts.set(row, "vcpus_total", node.vcpus)
    hosts.set(row, "vcpus_used", node.vcpus_used)
    for name in compute_nodes.RATIOS:
        hosts.set(row, name, getattr(node, name))
    for name in _READERS:
        _write_parsed(hosts, row, name, getattr(node, name) or "")
    stats = hosts.get(row, "stats") or {}
    # Each claim is an instance that is being built.
    hosts.set(row, "num_instances", _count(stats, "num_instances", node) + node.claims)
    hosts.set(row, "num_io_ops", _count(stats, "io_workload", node) + node.claims)
    hosts.set(row, "failed_builds", _count(stats, "failed_builds", node))


def _free_disk_mb(node: Any) -> int:
    least = node.disk_available_least
    free_gb = node.free_disk_gb if least is None else min(node.free_disk_gb, least)
    return _exact(node.free_disk_mb, free_gb)


def _exact(mb: int | None, gb: int) -> int:
    """Return a size in MB; an agent of an older release has written it in GB only."""
    return gb * 1024 if mb is None else mb


def _write_parsed(hosts: HostTable, row: int, name: str, text: str) -> None:
    if hosts.share(row, name, text):
        return
    read = _READERS[name]
    try:
        value = read(text)
    # One unreadable row must not keep all other hosts from being read.
    except (ValueError, RecursionError, OverflowError) as error:
        LOG.warning("Column %s of a compute node is unreadable and ignored: %s", name, error)
        value = read("")
    hosts.set(row, name, value, text)


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


# Each takes "" for nothing reported, which counts as well in place of what cannot be read: such a
# host has no devices to give, and no cells for guests that need some.
_READERS: dict[str, Callable[[str], Any]] = {
    "supported_instances": _plain(list),
    "metrics": _metrics,
    "stats": _plain(dict),
    "numa_topology": numa_topology_from_json,
    "pci_stats": lambda text: PciPools(pci_pools_from_json(text)),
}


def _count(stats: dict[str, Any], name: str, node: Any) -> int:
    with suppress(TypeError, ValueError, OverflowError):
        count = int(stats.get(name) or 0)
        # With the claims as well it fits into a column.
        if count.bit_length() < 63:
            return count
    LOG.warning("Statistic %s of %s is %r, no number; taken as 0", name, node.host, stats[name])
    return 0
