# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What Nova's API and conductor make of a stored request spec before they move an instance.

Each function prepares the spec for one operation as section 12.1 of the reference lists it, with
the methods of Nova's objects where there are some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.virt import hardware

from tests.peer import specs
from tests.peer.specs import Words

STORED_ID = 7


def stored(context: nova_context.RequestContext, spec: objects.RequestSpec) -> objects.RequestSpec:
    """Return a spec as it comes back from the API's database: without what is not stored."""
    # Groups are read anew from the database, which is none here.
    group, spec.instance_group = spec.instance_group, None
    row = {**spec._get_update_primitives(), "id": STORED_ID}
    found = objects.RequestSpec._from_db_object(context, objects.RequestSpec(), row)
    found.instance_group = group
    return found


def prepare(
    context: nova_context.RequestContext, spec: objects.RequestSpec, words: Words
) -> objects.RequestSpec:
    """Return the spec with which an operation asks; words say which, and what of."""
    left = dict(words)
    found = stored(context, spec)
    OPERATIONS[left.pop("operation")](found, left)
    found.requested_resources = []
    found.network_metadata = objects.NetworkMetadata(physnets={"physnet1"}, tunneled=True)
    found.requested_networks = objects.NetworkRequestList(objects=[])
    specs.refuse_left(left)
    return found


def cold_migrate(spec: objects.RequestSpec, left: dict[str, Any]) -> None:
    """Cold migration, or resize where there is a new flavor."""
    source, same_host = left.pop("source"), left.pop("same_host", False)
    spec.ignore_hosts = [] if same_host else [source]
    if "flavor" in left:
        spec.flavor = specs.a_flavor(left.pop("flavor"))
        spec.numa_topology = hardware.numa_get_constraints(spec.flavor, spec.image)
        spec.pci_requests = specs.pci_requests(spec.flavor, spec.instance_uuid)
    cross_cell = left.pop("cross_cell", False)
    target = {name: left.pop(name) for name in ("host", "node") if name in left}
    cell = specs.a_cell(left.pop("cell"))
    spec.requested_destination = objects.Destination(allow_cross_cell_move=cross_cell, **target)
    spec.requested_destination.cell = None if target and cross_cell else cell
    spec.retry = None
    spec.request_level_params = objects.RequestLevelParams()
    spec.reset_forced_destinations()


def live_migrate(spec: objects.RequestSpec, left: dict[str, Any]) -> None:
    """Live migration; tried are the hosts that have failed its checks."""
    spec.reset_forced_destinations()
    spec.ignore_hosts = [left.pop("source"), *left.pop("tried", ())]
    spec.request_level_params = objects.RequestLevelParams()
    _keep_in_cell(spec, left)


def evacuate(spec: objects.RequestSpec, left: dict[str, Any]) -> None:
    """Rebuild of an instance whose host has died."""
    spec.ignore_hosts = [left.pop("source")]
    spec.reset_forced_destinations()
    spec.request_level_params = objects.RequestLevelParams()
    _keep_in_cell(spec, left)


def rebuild(spec: objects.RequestSpec, left: dict[str, Any]) -> None:
    """Rebuild where it is, with another image."""
    host = left.pop("source")
    spec.image = specs.an_image(left.pop("image", {}))
    del spec.id
    spec.scheduler_hints["_nova_check_type"] = ["rebuild"]
    spec.force_hosts, spec.force_nodes = [host], [host]
    _keep_in_cell(spec, left)


def unshelve(spec: objects.RequestSpec, left: dict[str, Any]) -> None:
    """Unshelving of an instance that was offloaded; its zone may be another one now."""
    spec.availability_zone = left.pop("availability_zone", spec.availability_zone)
    spec.reset_forced_destinations()
    spec.request_level_params = objects.RequestLevelParams()
    _keep_in_cell(spec, left)


OPERATIONS: dict[str, Callable[[objects.RequestSpec, dict[str, Any]], None]] = {
    each.__name__: each for each in (cold_migrate, live_migrate, evacuate, rebuild, unshelve)
}


def _keep_in_cell(spec: objects.RequestSpec, left: dict[str, Any]) -> None:
    target = {name: left.pop(name) for name in ("host", "node") if name in left}
    spec.requested_destination = objects.Destination(cell=specs.a_cell(left.pop("cell")), **target)
