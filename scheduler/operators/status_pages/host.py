# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One host: its nodes, cells, devices, instances and claims, and why it was refused lately."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from inventory import aggregates, audit_log, compute_nodes, daemon_facts, instances, services
from inventory.audit_log import EntryFilter, in_words
from inventory.errors import NotFound
from inventory.objects.amounts import allocatable, known_ratio
from inventory.objects.field_types import Malformed
from inventory.objects.node_json import numa_topology_from_json, pci_pools_from_json
from inventory.queries import claim_search, host_queries, promised
from inventory.queries.decision_search import Wanted, search
from inventory.queries.fleet import read_fleet, state_of, used_share
from inventory.rows import time_text
from scheduler.filters.image_properties import dotted
from scheduler.history.saved_decision import DecisionIncomplete
from scheduler.operators.status_pages.errors import TooLate, Unknown, unknown
from scheduler.operators.status_pages.explaining import Question
from scheduler.operators.status_pages.source import Source
from scheduler.operators.status_pages.view import Asked, View, host_link

# Of long lists.
_LISTED = 200
# Entries of the audit log, and failure domains with standbys: without racks each host is one.
_CHANGES, _DOMAINS = 10, 20
# Refused decisions that are explained, and the seconds for that.
_REFUSED, _SECONDS = 5, 4.0
_INSTANCE = ("uuid", "display_name", "project_id", "flavor_name", "vcpus", "memory_mb")
_DISK = ("root_gb", "ephemeral_gb")
# The columns of total, used and ratio; and MB of a unit.
_RESOURCES = {
    "vCPUs": (*compute_nodes.RESOURCES["vcpus"], None),
    "memory": (*compute_nodes.RESOURCES["memory"], 1),
    "disk": (*compute_nodes.RESOURCES["disk"], 1024),
}


def view(source: Source, asked: Asked) -> View:
    """Return the page of a host, in whatever letter case it is named."""
    try:
        host = source.read(host_queries.spelled_host, asked.item)
    except NotFound:
        nodes = source.read(read_fleet, source.liveness_limit, source.default_zone)
        raise unknown("host", asked.item, (each.host for each in nodes), host_link) from None
    facts = source.read(_facts, host, source)
    refused = source.read(search, Wanted(outcome="refused"), _REFUSED)
    until = min(asked.until - 1.0, time.monotonic() + _SECONDS)
    looked_at = [*_refusals(source, host, refused, until)]
    facts["looked_at"] = len(looked_at)
    facts["refused"] = [each for each in looked_at if each["reasons"]]
    shown = {"recent": len(refused), "in_words": in_words, "most_domains": _DOMAINS}
    return View(f"Host {host}", "host.html", facts, shown)


def _facts(connection: sa.Connection, host: str, source: Source) -> dict[str, Any]:
    records = aggregates.everything(connection)
    service = services.find(connection, host, services.COMPUTE[0])
    guests = instances.of_hosts(connection, [host], (*_INSTANCE, *_DISK, "node", "vm_state"))
    claimed = claim_search.ClaimFilter(host=host, confirmed=True)
    return {
        "host": host,
        "state": state_of(service, source.liveness_limit),
        "service": _service(connection, service) if service else None,
        "zones": sorted(aggregates.zones_by_host(records).get(host) or (source.default_zone,)),
        "aggregates": sorted(each.name for each in records if host in each.hosts),
        "nodes": [
            {**_node(row._asdict()), "room": promised.room_of(connection, row._asdict())}
            for row in compute_nodes.of_hosts(connection, [host])
        ],
        "number_of_instances": len(guests),
        "instances": [_instance(each._asdict()) for each in guests[:_LISTED]],
        "claims": claim_search.search(connection, claimed, 0, _LISTED),
        "changes": audit_log.search(connection, EntryFilter(host=host), _CHANGES),
    }


def _service(connection: sa.Connection, row: Any) -> dict[str, Any]:
    is_off, reason = services.switched_off(row)
    return {
        "switched_off": is_off,
        "reason": reason,
        "is_automatic": row.maintenance is None and services.is_automatic(row),
        "forced_down": bool(row.forced_down),
        **host_queries.switched_by(connection, [row])[row.host],
        "last_seen_up": time_text(row.last_seen_up),
        "heartbeat_age": round(services.heartbeat_age(row), 1),
        **daemon_facts.of_row(row),
    }


def _instance(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"disk_gb": sum(row[name] or 0 for name in _DISK)}


def _node(row: Mapping[str, Any]) -> dict[str, Any]:
    cells, devices = list[Any](), list[Any]()
    problems = []
    try:
        topology = numa_topology_from_json(row["numa_topology"])
        cells = [*_cells(topology.cells)] if topology else []
    except Malformed as error:
        problems.append(_problem("numa_topology", error))
    try:
        devices = [*_devices(pci_pools_from_json(row["pci_stats"]))]
    except Malformed as error:
        problems.append(_problem("pci_stats", error))
    return {
        "node": row["hypervisor_hostname"],
        "uuid": row["uuid"],
        "hypervisor": f"{row['hypervisor_type']} {dotted(row['hypervisor_version'])}",
        "address": row["host_ip"],
        "written_at": str(row["updated_at"] or row["created_at"] or ""),
        "running": row["running_vms"],
        "claims": row["claims"],
        "resources": {name: _resource(row, *each) for name, each in _RESOURCES.items()},
        "cells": cells,
        "devices": devices,
        "problems": problems,
    }


def _problem(column: str, error: Malformed) -> str:
    text = f"Column {column} of this compute node cannot be read: {error}. It counts as empty,"
    return f"{text} until its agent writes it again."


def _resource(
    row: Mapping[str, Any], total: str, used: str, ratio: str, unit: int | None
) -> dict[str, Any]:
    """Return the figures of a resource; those in megabytes where there is a unit."""
    return {
        "total": row[total] * (unit or 1),
        "ratio": known_ratio(row[ratio]),
        "limit": allocatable(row[total], row[ratio]) * (unit or 1),
        "used": row[used] * (unit or 1),
        "share": used_share(row[total], row[used], row[ratio]),
        "in_mb": unit is not None,
    }


def _cells(cells: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for each in cells:
        yield {
            "cell": each.id,
            "cpus": len(each.cpuset | each.pcpuset),
            "cpus_used": each.cpu_usage,
            "dedicated": len(each.pcpuset),
            "pinned": len(each.pinned_cpus),
            "memory_mb": each.memory,
            "memory_mb_used": each.memory_usage,
            "pages": [
                {"size_kb": page.size_kb, "total": page.total, "free": page.free}
                for page in each.mempages
            ],
        }


def _devices(pools: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for each in pools:
        tags = {name: value for name, value in each.tags.items() if value}
        yield {
            "device": f"{each.vendor_id}:{each.product_id}",
            "cell": each.numa_node,
            "free": each.count,
            "total": each.total,
            "tags": tags,
        }


def _refusals(
    source: Source, host: str, rows: Iterable[Any], until: float
) -> Iterator[dict[str, Any]]:
    """Yield the last refused decisions with the reasons against a host, as time allows."""
    for row in rows:
        try:
            found = source.explain(row, Question(row.id, host=host), until)
            verdicts = found.explanation["verdicts"] if found.explanation else ()
        except TooLate:
            return
        # The host came later, or the decision was deleted.
        except (Unknown, DecisionIncomplete):
            verdicts = ()
        reasons = [one for each in verdicts if each["host"] == host for one in each["refusals"]]
        at = row.decided_at.isoformat(sep=" ", timespec="seconds")
        yield {"id": row.id, "decided_at": at, "project_id": row.project_id, "reasons": reasons}
