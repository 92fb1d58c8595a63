# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""From the words of a scenario file to rows of the database and to request specs.

A key that is not known is an error, so that no scenario passes since something was misspelt.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from inventory import aggregates, instances, services, tables
from inventory.engine import Database
from inventory.objects import node_json
from inventory.objects.instance_group import InstanceGroup
from inventory.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from inventory.objects.pci_and_network import (
    InstancePCIRequest,
    InstancePCIRequests,
    NetworkMetadata,
    PciDevicePool,
)
from scheduler.objects.flavor_and_image import ImageMeta, ImageMetaProps
from scheduler.objects.request_spec import (
    CellMapping,
    Destination,
    RequestSpec,
    SchedulerRetries,
    TriedHost,
)
from tests.builders import a_flavor
from tests.databases import a_node, a_uuid, an_instance, save, serve

Words = Mapping[str, Any]
# The hints whose values are instances, which scenarios call by short names.
_OF_INSTANCES = {"same_host", "different_host"}
_PLAIN = {"project_id", "availability_zone", "ignore_hosts", "force_hosts", "force_nodes", "is_bfv"}


def build_fleet(database: Database, scenario: Words) -> None:
    """Write the hosts, their instances and the aggregates of a scenario."""
    for host, words in scenario["hosts"].items():
        _build_host(database, host, dict(words or {}))
    for words in scenario.get("aggregates", ()):
        name, hosts, metadata = words["name"], words["hosts"], words["metadata"]
        database.write(
            lambda connection, name=name, hosts=hosts, metadata=metadata: aggregates.create(
                connection, name, hosts, metadata
            )
        )


def _build_host(database: Database, host: str, words: dict[str, Any]) -> None:
    service, here = words.pop("service", {}), words.pop("instances", {})
    cells, pools = words.pop("numa", None), words.pop("pci", [])
    words |= {
        name: json.dumps(words[name])
        for name in ("stats", "metrics", "cpu_info", "supported_instances")
        if name in words
    }
    words["pci_stats"] = node_json.pci_pools_to_json([_pool(**pool) for pool in pools])
    if cells is not None:
        topology = NUMATopology([_host_cell(**{"id": i, **cell}) for i, cell in enumerate(cells)])
        words["numa_topology"] = node_json.numa_topology_to_json(topology)
    if unknown := words.keys() - set(tables.compute_nodes.columns.keys()):
        raise KeyError(f"host {host}: {unknown}")
    if {"memory_mb"} <= words.keys() and "free_ram_mb" not in words:
        words["free_ram_mb"] = words["memory_mb"]
    ratios = {f"{name}_allocation_ratio": 1.0 for name in ("cpu", "ram", "disk")}
    save(database, a_node(host, **ratios | words))
    (identity,) = serve(database, host)
    guests = [an_instance(a_uuid(name), **facts or {}) for name, facts in here.items()]
    database.write(lambda connection: instances.replace(connection, host, host, guests))
    if service.get("disabled"):
        reason = service["disabled"]
        database.write(
            lambda connection: services.disable_automatically(connection, [identity], reason)
        )


def build_spec(words: Words, uuids: list[str]) -> RequestSpec:
    """Return the request spec that a conductor would send."""
    left = dict(words)
    spec = RequestSpec(
        flavor=a_flavor(**left.pop("flavor")),
        instance_uuid=uuids[0],
        num_instances=len(uuids),
        image=_image(**left.pop("image")) if "image" in left else None,
        scheduler_hints={
            name: [a_uuid(each) for each in values] if name in _OF_INSTANCES else values
            for name, values in left.pop("hints", {}).items()
        },
        instance_group=_group(**left.pop("group")) if "group" in left else None,
        requested_destination=_destination(**left.pop("destination"))
        if "destination" in left
        else None,
        retry=_retries(left.pop("retry")) if "retry" in left else None,
        numa_topology=_instance_topology(left.pop("numa")) if "numa" in left else None,
        pci_requests=_pci_requests(left.pop("pci")) if "pci" in left else None,
        network_metadata=NetworkMetadata(set(left.pop("physnets"))) if "physnets" in left else None,
        **{name: left.pop(name) for name in _PLAIN & left.keys()},
    )
    if left:
        raise KeyError(f"request: {set(left)}")
    return spec


def _image(id: str | None = None, **properties: Any) -> ImageMeta:
    return ImageMeta(id=id and a_uuid(id), properties=ImageMetaProps(properties))


def _group(policy: str, members: Iterable[str] = (), **others: Any) -> InstanceGroup:
    return InstanceGroup(
        a_uuid("group"), policy, [a_uuid(each) for each in members], name="group", **others
    )


def _destination(cell: str | None = None, **others: Any) -> Destination:
    return Destination(cell=CellMapping(a_uuid(cell)) if cell else None, **others)


def _retries(tried: Iterable[tuple[str, str]]) -> SchedulerRetries:
    hosts = [TriedHost(host, node) for host, node in tried]
    return SchedulerRetries(len(hosts) + 1, hosts)


def _instance_topology(cells: list[Words]) -> InstanceNUMATopology:
    return InstanceNUMATopology([_instance_cell(i, **cell) for i, cell in enumerate(cells)])


def _instance_cell(id: int, cpus: int, memory: int, **others: Any) -> InstanceNUMACell:
    numbers = set(range(id * cpus, (id + 1) * cpus))
    dedicated = others.get("cpu_policy") == "dedicated"
    return InstanceNUMACell(
        id,
        memory,
        cpuset=set() if dedicated else numbers,
        pcpuset=numbers if dedicated else set(),
        **others,
    )


def _host_cell(
    id: int, cpus: int, memory: int, threads: int = 1, pages: Words | None = None, **others: Any
) -> NUMACell:
    numbers = list(range(id * cpus, (id + 1) * cpus))
    cores = [set(numbers[i : i + threads]) for i in range(0, cpus, threads)]
    return NUMACell(
        id,
        memory,
        cpuset=set(numbers),
        pcpuset=set(numbers),
        siblings=cores,
        mempages=[
            NUMAPagesTopology(size_kb, **({"total": each} if isinstance(each, int) else each))
            for size_kb, each in (pages or {}).items()
        ],
        **others,
    )


def _pci_requests(requests: list[Words]) -> InstancePCIRequests:
    return InstancePCIRequests(requests=[InstancePCIRequest(**each) for each in requests])


def _pool(vendor_id: str, product_id: str, count: int, **others: Any) -> PciDevicePool:
    return PciDevicePool(product_id, vendor_id, count, **others)
