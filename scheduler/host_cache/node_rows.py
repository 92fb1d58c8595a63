# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Write rows of compute_nodes into the host table.

Texts that many hosts share are parsed once: the text is the key of its value in the table.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any

from oslo_log import log

from inventory import compute_nodes, stored_documents
from inventory.claims.types import NodeChange
from inventory.objects.amounts import known_ratio
from inventory.objects.node_json import numa_topology_from_json, pci_pools_from_json
from inventory.pci_pools import PciPools
from scheduler.hosts.table import HostTable

LOG = log.getLogger(__name__)
# Metrics whose names end so are stored as shares of 1.
PERCENT = ".percent"


def write_nodes(
    hosts: HostTable, nodes: Mapping[int, Any], consumed: Mapping[int, float]
) -> list[Any]:
    """Write nodes, by their rows in the table; return those whose resources were written.

    Those of a node that never reported its free disk are not. consumed says when resources of a
    node were consumed without a claim, by its id, in seconds since 1970 on the database's clock:
    the table keeps them until the node is written later than that.
    """
    for name, value_of in _ALWAYS.items():
        hosts.write([*nodes], name, map(value_of, nodes.values()))
    current = {
        row: node
        for row, node in nodes.items()
        if node.free_disk_gb is not None and consumed.get(node.id, 0.0) <= written_at(node)
    }
    rows, found = [*current], [*current.values()]
    for name, value_of in _RESOURCES.items():
        hosts.write(rows, name, map(value_of, found))
    for name in _PARSERS:
        texts = [getattr(node, name) or "" for node in found]
        hosts.share(rows, name, texts, partial(_parse, hosts, name, rows, texts))
    _write_counts(hosts, current)
    return found


def write_usage(hosts: HostTable, changes: Mapping[int, NodeChange], now: float) -> None:
    """Write what claims have changed, by rows in the table whose nodes were written before.

    now is in seconds since 1970 on the database's clock.
    """
    rows, found = [*changes], [*changes.values()]
    for name in ("vcpus_used", "free_ram_mb", "free_disk_mb", "disk_mb_used"):
        hosts.write(rows, name, [getattr(each, name) for each in found])
    hosts.write(rows, "generation", [each.after for each in found])
    hosts.write(rows, "updated", [now] * len(rows))
    _write_counts(hosts, changes)


def write_documents(hosts: HostTable, row: int, documents: Mapping[str, str | None]) -> None:
    """Write columns with JSON."""
    for name, text in documents.items():
        hosts.share([row], name, [text or ""], partial(_parse, hosts, name, [row], [text or ""]))


def epoch_seconds(time: datetime | None) -> float:
    """Return a time of the database, which has no zone, as seconds since 1970."""
    return time.replace(tzinfo=UTC).timestamp() if time else 0.0


def written_at(node: Any) -> float:
    """Return when a row of compute_nodes was written, in seconds since 1970."""
    return epoch_seconds(node.updated_at or node.created_at)


def _free_disk_mb(node: Any) -> int:
    least = node.disk_available_least
    free_gb = node.free_disk_gb if least is None else min(node.free_disk_gb, least)
    return _in_mb(node.free_disk_mb, free_gb)


def _ratio(name: str, node: Any) -> float | None:
    return known_ratio(getattr(node, name))


def _in_mb(mb: int | None, gb: int) -> int:
    """Return a size in MB, which agents of older releases have written in GB only."""
    return gb * 1024 if mb is None else mb


def _write_counts(hosts: HostTable, nodes: Mapping[int, Any]) -> None:
    counts = []
    for row, node in nodes.items():
        stats = hosts.get(row, "stats") or {}
        # Each claim is an instance that is being built.
        host = hosts.get(row, "host")
        instances, io_ops, failed = (_count(name, host, stats) for name in _COUNTS)
        counts.append((instances + node.claims, io_ops + node.claims, failed))
    names = ("num_instances", "num_io_ops", "failed_builds")
    for name, found in zip(names, zip(*counts, strict=True), strict=False):
        hosts.write([*nodes], name, found)


def _parse(hosts: HostTable, name: str, rows: Sequence[int], texts: list[str], text: str) -> Any:
    """Return the value of a text of the column that these rows have, in their order."""
    parse = _PARSERS[name]
    try:
        return parse(text)
    # One unreadable row must not keep all other hosts from being read.
    except stored_documents.UNREADABLE as error:
        host = hosts.get(rows[texts.index(text)], "host")
        noun = f"Column {name} of the compute node of host {host}"
        cure = "the column counts as empty until the agent of the host writes it again"
        stored_documents.warn(noun, str(error), cure)
        return parse("")


def _json_of(kind: type) -> Callable[[str], Any]:
    """Return a parser of JSON whose value is of one type."""

    def parse(text: str) -> Any:
        value = json.loads(text) if text else kind()
        if not isinstance(value, kind):
            raise ValueError(f"not a {kind.__name__}")
        return value

    return parse


def _metrics(text: str) -> Any:
    """Parse metrics; shares of 1 become the percentages that MetricsWeigher expects."""
    metrics = _json_of(list)(text)
    for each in metrics:
        if isinstance(each, dict) and str(each.get("name")).endswith(PERCENT):
            # A whole number in JSON may be larger than any float.
            with suppress(KeyError, TypeError, ValueError, OverflowError):
                each["value"] = 100 * float(each["value"])
    return metrics


def _count(name: str, host: str, stats: Mapping[str, Any]) -> int:
    with suppress(TypeError, ValueError, OverflowError):
        count = int(stats.get(name) or 0)
        # With the claims added a column has to hold it exactly.
        if count.bit_length() < 53:
            return count
    LOG.warning("Statistic %s of host %s is %r, not a number: 0 is used", name, host, stats[name])
    return 0


# Each takes "" if nothing was reported, or it is unreadable: such a host has no devices and no NUMA
# cells.
_PARSERS: dict[str, Callable[[str], Any]] = {
    "supported_instances": _json_of(list),
    "metrics": _metrics,
    "stats": _json_of(dict),
    "numa_topology": numa_topology_from_json,
    "pci_stats": lambda text: PciPools(pci_pools_from_json(text)),
}
# Statistics that are columns of the table.
_COUNTS = ("num_instances", "io_workload", "failed_builds")
_FACTS = (
    *("generation", "uuid", "host_ip", "cpu_info"),
    *("hypervisor_type", "hypervisor_version", "hypervisor_hostname"),
)
# What is read of a row.
COLUMNS = (
    *("id", "host", "created_at", "updated_at", "deleted", "claims", *_FACTS),
    *("memory_mb", "free_ram_mb", "vcpus", "vcpus_used", *compute_nodes.RATIOS),
    *("local_gb", "local_gb_used", "free_disk_gb", "disk_available_least"),
    *("disk_mb_used", "free_disk_mb", *_PARSERS),
)
# Columns of the table as functions of a row: those that do not change with use, and the others.
_ALWAYS: dict[str, Callable[[Any], Any]] = {
    "node_id": attrgetter("id"),
    **{name: attrgetter(name) for name in _FACTS},
}
_RESOURCES: dict[str, Callable[[Any], Any]] = {
    "updated": written_at,
    "total_usable_ram_mb": attrgetter("memory_mb"),
    "free_ram_mb": attrgetter("free_ram_mb"),
    "total_usable_disk_gb": attrgetter("local_gb"),
    "free_disk_mb": _free_disk_mb,
    "disk_mb_used": lambda node: _in_mb(node.disk_mb_used, node.local_gb_used),
    "vcpus_total": attrgetter("vcpus"),
    "vcpus_used": attrgetter("vcpus_used"),
    **{name: partial(_ratio, name) for name in compute_nodes.RATIOS},
}
