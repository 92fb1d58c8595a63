# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova does with an answer: it reads its objects, builds, and tries alternates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova import context as nova_context
from nova import exception, objects
from nova.objects import base
from nova.scheduler import utils
from nova.virt import hardware

CONF = nova.conf.CONF


def read(answer: Any) -> Any:
    """Return an answer of either form as JSON, read through Nova's objects where it has some."""
    return [
        [selection(one) for one in each] if isinstance(each, list) else _dictionary(each)
        for each in answer
    ]


def selection(found: objects.Selection) -> dict[str, Any]:
    """Read every field of a Selection by its attribute."""
    if not isinstance(found, objects.Selection):
        raise TypeError(f"{found!r} is no Selection")
    zone = {"availability_zone": found.availability_zone} if "availability_zone" in found else {}
    as_dictionary = json.loads(json.dumps(found.to_dict()))
    return {
        "version": found.VERSION,
        "service_host": found.service_host,
        "nodename": found.nodename,
        "compute_node_uuid": found.compute_node_uuid,
        "cell_uuid": found.cell_uuid,
        "limits": None if found.limits is None else _limits(found.limits),
        "allocation_request": found.allocation_request,
        "allocation_request_version": found.allocation_request_version,
        "to_dict": as_dictionary,
        **zone,
    }


def _limits(found: objects.SchedulerLimits) -> dict[str, Any]:
    read = {name: getattr(found, name) for name in ("vcpu", "memory_mb", "disk_gb")}
    return {**read, "numa_topology": found.numa_topology and _numa_limits(found.numa_topology)}


def _numa_limits(found: objects.NUMATopologyLimits) -> dict[str, float]:
    if not isinstance(found, objects.NUMATopologyLimits):
        raise TypeError(f"{found!r} are no NUMATopologyLimits")
    return {"cpu": found.cpu_allocation_ratio, "ram": found.ram_allocation_ratio}


def _dictionary(found: dict[str, Any]) -> dict[str, Any]:
    limits = dict(found["limits"])
    if "numa_topology" in limits:
        limits["numa_topology"] = _numa_limits(limits["numa_topology"])
    return {**found, "limits": limits}


def fits_numa(spec: objects.RequestSpec, found: Any, topology: str) -> bool:
    """Tell whether a compute host of this topology can pin the guest within the limits it got."""
    limits = found["limits"]["numa_topology"] if isinstance(found, dict) else None
    if isinstance(found, list):
        limits = found[0].limits.numa_topology
    return bool(
        hardware.numa_fit_instance_to_host(
            objects.NUMATopology.obj_from_db_obj(topology),
            spec.numa_topology,
            provider_mapping=None,
            limits=limits,
        )
    )


def build(
    context: nova_context.RequestContext,
    spec: objects.RequestSpec,
    uuid: str,
    selections: Sequence[objects.Selection],
) -> dict[str, Any]:
    """Let every build of an instance fail, as its conductor and its compute hosts see it.

    The hosts are tried in the order of the answer, each time as section 10.3 of the reference has
    it, until none is left or there were too many attempts.
    """
    host, *alternates = selections
    properties = spec.to_legacy_filter_properties_dict()
    utils.populate_retry(properties, uuid)
    tried = [_use(spec, properties, host)]
    while True:
        # The rest travels to the compute host and back, which tries to build and fails.
        sent = base.NovaObjectSerializer().serialize_entity(context, alternates)
        alternates = base.NovaObjectSerializer().deserialize_entity(
            context, json.loads(json.dumps(sent))
        )
        properties["retry"] |= {"exc": ["Traceback"], "exc_reason": "no such bridge"}
        try:
            utils.populate_retry(properties, uuid)
            if not alternates:
                raise exception.MaxRetriesExceeded(reason="no alternate is left")
        except exception.MaxRetriesExceeded as error:
            return {"tried": tried, "retry": properties["retry"]["hosts"], "end": str(error)}
        host = alternates.pop(0)
        tried.append(_use(spec, properties, host))


def _use(
    spec: objects.RequestSpec, properties: dict[str, Any], host: objects.Selection
) -> dict[str, Any]:
    """Take a host for a build; without an allocation request it counts as available."""
    request = json.loads(host.allocation_request) if host.allocation_request else None
    utils.populate_filter_properties(properties, host)
    utils.fill_provider_mapping(spec, host)
    return {
        "host": host.service_host,
        "node": host.nodename,
        "claims_in_placement": bool(request),
        "limits": sorted(properties["limits"]),
        "zone": host.availability_zone if "availability_zone" in host else "(looked up)",
    }
