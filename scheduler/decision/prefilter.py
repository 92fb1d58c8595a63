# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of a request about hosts by name, which come before the filters.

Source: behaviour reference 3.4. Host names to ignore or to force match in any letter case, those of
a requested destination, all node names and the uuids of aggregates match exactly.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from inventory.errors import alternatives, joined
from inventory.objects.aggregate import Aggregate
from scheduler.decision.types import Step
from scheduler.hosts.columns import Mask
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import Destination, RequestSpec

# The rule of all requests that a host needs a compute service.
COMPUTE_SERVICE = "compute_service"
_ANYWHERE = Destination()


def prefilter(hosts: HostTable, spec: RequestSpec) -> tuple[Mask, list[Step]]:
    """Return the hosts that the request allows by name, and a step for each rule in use."""
    mask = hosts.served
    steps: list[Step] = []
    for name, rule in rules(hosts, spec):
        before = int(np.count_nonzero(mask))
        np.logical_and(mask, rule, out=mask)
        steps.append(Step(name, before, int(np.count_nonzero(mask))))
    return mask, steps


def rules(hosts: HostTable, spec: RequestSpec) -> Iterator[tuple[str, Mask]]:
    """Yield the name of each rule that a request uses, and the hosts that the rule allows."""
    destination = spec.requested_destination or _ANYWHERE
    if destination.host or destination.node:
        yield "requested_destination", _requested(hosts, destination)
    if destination.cell and not destination.allow_cross_cell_move:
        wanted = destination.cell.uuid
        # A host whose cell is not configured may be in any.
        yield "requested_cell", hosts.rows_where("cell_uuid", lambda cell: cell in (None, wanted))
    # A rebuilt instance stays, whatever aggregates its host has joined since.
    if destination.aggregates and not spec.is_rebuild:
        masks = [_in_any(hosts, _alternatives(each)) for each in destination.aggregates]
        yield "requested_aggregates", np.logical_and.reduce(masks)
    if destination.forbidden_aggregates and not spec.is_rebuild:
        yield "forbidden_aggregates", ~_in_any(hosts, destination.forbidden_aggregates)
    if spec.ignore_hosts:
        yield "ignore_hosts", ~_named(hosts, spec.ignore_hosts)
    if spec.force_hosts:
        yield "force_hosts", _named(hosts, spec.force_hosts)
    if spec.force_nodes:
        yield "force_nodes", _on_nodes(hosts, spec.force_nodes)
    if spec.offered_nodes is not None or spec.refused_nodes:
        yield "placement", hosts.rows_where("uuid", lambda uuid: _is_offered(spec, uuid))


def why_not(hosts: HostTable, spec: RequestSpec, rule: str, row: int) -> str:
    """Return in words why a rule does not allow a host. Called only for such hosts."""
    destination = spec.requested_destination or _ANYWHERE
    match rule:
        case "requested_destination":
            return f"is not the requested destination {_destination_name(destination)}"
        case "requested_cell":
            cell = destination.cell.uuid if destination.cell else None
            return f"is in cell {hosts.get(row, 'cell_uuid')}, requested is {cell}"
        case "requested_aggregates":
            own = _aggregates_of(hosts, row)
            lists = [_alternatives(each) for each in destination.aggregates or ()]
            unmet = (alternatives(sorted(each)) for each in lists if not each & own)
            return f"is in none of the requested aggregates {joined(unmet)}"
        case "forbidden_aggregates":
            forbidden = {*(destination.forbidden_aggregates or ())} & _aggregates_of(hosts, row)
            return f"is in the forbidden aggregates {', '.join(sorted(forbidden))}"
        case "ignore_hosts":
            return "is among the hosts to be ignored"
        case "force_hosts":
            return f"is not among the forced hosts {', '.join(spec.force_hosts or ())}"
        case "force_nodes":
            return f"is not among the forced nodes {', '.join(spec.force_nodes or ())}"
        case "placement":
            return "has no allocation candidate in Placement"
        case _:
            return "has no compute service"


def no_such_host(hosts: HostTable, spec: RequestSpec) -> str | None:
    """Return the reason to give when the requested destination does not exist at all."""
    destination = spec.requested_destination
    if destination is None or not destination.host or _requested(hosts, destination).any():
        return None
    return f"No such host - host: {destination.host} node: {destination.node or ''} "


def _requested(hosts: HostTable, destination: Destination) -> Mask:
    mask = np.ones(hosts.size, np.bool_)
    if destination.host:
        mask &= _rows(hosts, hosts.rows_of_host(destination.host))
    if destination.node:
        mask &= _on_nodes(hosts, [destination.node])
    return mask


def _destination_name(destination: Destination) -> str:
    host, node = destination.host, destination.node
    return f"{host} ({node})" if host and node and host != node else host or node or ""


def _alternatives(listed: str) -> set[str]:
    return {uuid.strip() for uuid in listed.split(",")}


def _aggregates_of(hosts: HostTable, row: int) -> set[str]:
    aggregates: list[Aggregate] = hosts.get(row, "aggregates") or []
    return {each.uuid for each in aggregates if each.uuid}


def _in_any(hosts: HostTable, uuids: Iterable[str]) -> Mask:
    wanted = {*uuids}

    def is_in(aggregates: list[Aggregate] | None) -> bool:
        return any(each.uuid in wanted for each in aggregates or ())

    return hosts.rows_where("aggregates", is_in)


def _is_offered(spec: RequestSpec, uuid: str | None) -> bool:
    offered = spec.offered_nodes is None or uuid in spec.offered_nodes
    return offered and uuid not in spec.refused_nodes


def _named(hosts: HostTable, names: Iterable[str]) -> Mask:
    return _rows(hosts, (row for name in names for row in hosts.rows_of_host(name, any_case=True)))


def _on_nodes(hosts: HostTable, nodenames: Iterable[str]) -> Mask:
    return hosts.rows_where("nodename", {*nodenames}.__contains__)


def _rows(hosts: HostTable, rows: Iterable[int]) -> Mask:
    mask = np.zeros(hosts.size, np.bool_)
    mask[list(rows)] = True
    return mask
