# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request says about hosts by name: the rules that come before the filters.

Source: behaviour reference 3.4. Host names to ignore or to force match in any letter case, those of
a requested destination, all node names and the uuids of aggregates match exactly.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from scheduler.decision.by_value import rows_where
from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Step
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.destination import Destination
from scheduler.objects.request_spec import RequestSpec

# The rule that somebody must be there to build an instance, which holds for all requests.
COMPUTE_SERVICE = "compute_service"
_ANYWHERE = Destination()


def narrowed(hosts: HostTable, spec: RequestSpec) -> tuple[Mask, list[Step]]:
    """Return the hosts that the request allows by name, and a step for each rule that was used."""
    mask = hosts.served
    steps: list[Step] = []
    for name, rule in rules(hosts, spec):
        before = int(np.count_nonzero(mask))
        np.logical_and(mask, rule, out=mask)
        steps.append(Step(name, before, int(np.count_nonzero(mask))))
    return mask, steps


def rules(hosts: HostTable, spec: RequestSpec) -> Iterator[tuple[str, Mask]]:
    """Yield the rules that a request makes use of, and for each row whether it allows the host."""
    destination = spec.requested_destination or _ANYWHERE
    if destination.host or destination.node:
        yield "requested_destination", _requested(hosts, destination)
    if destination.cell and not destination.allow_cross_cell_move:
        yield "requested_cell", _in_cell(hosts, destination.cell.uuid)
    # An instance that is rebuilt stays, whatever aggregates its host has come into since.
    if destination.aggregates and not spec.is_rebuild:
        yield "requested_aggregates", _in_aggregates(hosts, destination.aggregates)
    if destination.forbidden_aggregates and not spec.is_rebuild:
        yield "forbidden_aggregates", ~_in_any(hosts, destination.forbidden_aggregates)
    if spec.ignore_hosts:
        yield "ignore_hosts", ~_named(hosts, spec.ignore_hosts)
    if spec.force_hosts:
        yield "force_hosts", _named(hosts, spec.force_hosts)
    if spec.force_nodes:
        yield "force_nodes", _on_nodes(hosts, spec.force_nodes)


def why_not(hosts: HostTable, spec: RequestSpec, rule: str, row: int) -> str:
    """Return in words why a rule does not allow a host. Asked only of those."""
    destination = spec.requested_destination or _ANYWHERE
    match rule:
        case "requested_destination":
            return f"is not the requested destination {_called(destination)}"
        case "requested_cell":
            cell = destination.cell.uuid if destination.cell else None
            return f"is in cell {hosts.get(row, 'cell_uuid')}, requested is {cell}"
        case "requested_aggregates":
            wanted = " and ".join(_unmet(hosts, destination.aggregates or (), row))
            return f"is in none of the requested aggregates {wanted}"
        case "forbidden_aggregates":
            forbidden = {*(destination.forbidden_aggregates or ())} & _aggregates_of(hosts, row)
            return f"is in the forbidden aggregates {', '.join(sorted(forbidden))}"
        case "ignore_hosts":
            return "is among the hosts to be ignored"
        case "force_hosts":
            return f"is not among the forced hosts {', '.join(spec.force_hosts or ())}"
        case "force_nodes":
            return f"is not among the forced nodes {', '.join(spec.force_nodes or ())}"
        case _:
            return "has no compute service"


def no_such_host(hosts: HostTable, spec: RequestSpec) -> str | None:
    """Return the reason to give when the requested destination does not exist at all."""
    destination = spec.requested_destination
    if destination is None or not destination.host:
        return None
    if _requested(hosts, destination).any():
        return None
    return f"No such host - host: {destination.host} node: {destination.node or ''} "


def _requested(hosts: HostTable, destination: Destination) -> Mask:
    mask = np.ones(hosts.size, np.bool_)
    if destination.host:
        mask &= _rows(hosts, hosts.rows_of_host(destination.host))
    if destination.node:
        mask &= _on_nodes(hosts, [destination.node])
    return mask


def _called(destination: Destination) -> str:
    host, node = destination.host, destination.node
    return f"{host} ({node})" if host and node and host != node else host or node or ""


def _in_cell(hosts: HostTable, cell_uuid: str) -> Mask:
    """Return the hosts of a cell; a host whose cell nobody configured may be in any."""
    return rows_where(hosts, "cell_uuid", lambda cell: cell is None or cell == cell_uuid)


def _in_aggregates(hosts: HostTable, wanted: Iterable[str]) -> Mask:
    """Return the hosts that are, for each of these texts, in one of the aggregates it lists."""
    mask = np.ones(hosts.size, np.bool_)
    for alternatives in wanted:
        mask &= _in_any(hosts, _listed(alternatives))
    return mask


def _listed(alternatives: str) -> set[str]:
    return {uuid.strip() for uuid in alternatives.split(",")}


def _unmet(hosts: HostTable, wanted: Iterable[str], row: int) -> Iterator[str]:
    """Yield the texts that list no aggregate in which a host is."""
    there = _aggregates_of(hosts, row)
    return (" or ".join(sorted(_listed(each))) for each in wanted if not _listed(each) & there)


def _aggregates_of(hosts: HostTable, row: int) -> set[str]:
    aggregates: list[Aggregate] = hosts.get(row, "aggregates") or []
    return {each.uuid for each in aggregates if each.uuid}


def _in_any(hosts: HostTable, uuids: Iterable[str]) -> Mask:
    wanted = {*uuids}

    def is_in(aggregates: list[Aggregate] | None) -> bool:
        return any(each.uuid in wanted for each in aggregates or ())

    return rows_where(hosts, "aggregates", is_in)


def _named(hosts: HostTable, names: Iterable[str]) -> Mask:
    rows = (row for name in names for row in hosts.rows_of_host(name, any_case=True))
    return _rows(hosts, rows)


def _on_nodes(hosts: HostTable, nodenames: Iterable[str]) -> Mask:
    wanted = {*nodenames}
    return rows_where(hosts, "nodename", lambda name: name in wanted)


def _rows(hosts: HostTable, rows: Iterable[int]) -> Mask:
    mask = np.zeros(hosts.size, np.bool_)
    mask[list(rows)] = True
    return mask
