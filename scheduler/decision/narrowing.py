# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request says about hosts by name: the rules that come before the filters.

Source: behaviour reference 3.4. Host names to ignore or to force match in any letter case, those of
a requested destination and all node names match exactly.
"""

from collections.abc import Iterable

import numpy as np

from scheduler.decision.host_table import HostTable, Mask
from scheduler.decision.outcome import Step
from scheduler.objects.destination import Destination
from scheduler.objects.request_spec import RequestSpec


def narrowed(hosts: HostTable, spec: RequestSpec) -> tuple[Mask, list[Step]]:
    """Return the hosts that the request allows by name, and a step for each rule that was used."""
    mask = hosts.present & ~hosts.unserved
    steps: list[Step] = []

    def apply(name: str, rule: Mask) -> None:
        before = int(np.count_nonzero(mask))
        np.logical_and(mask, rule, out=mask)
        steps.append(Step(name, before, int(np.count_nonzero(mask))))

    destination = spec.requested_destination
    if destination is not None and (destination.host or destination.node):
        apply("requested_destination", _requested(hosts, destination))
    if destination is not None and destination.cell and not destination.allow_cross_cell_move:
        apply("requested_cell", _in_cell(hosts, destination.cell.uuid))
    if spec.ignore_hosts:
        apply("ignore_hosts", ~_named(hosts, spec.ignore_hosts))
    if spec.force_hosts:
        apply("force_hosts", _named(hosts, spec.force_hosts))
    if spec.force_nodes:
        apply("force_nodes", _on_nodes(hosts, spec.force_nodes))
    return mask, steps


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


def _in_cell(hosts: HostTable, cell_uuid: str) -> Mask:
    """Return the hosts of a cell; a host whose cell nobody configured may be in any."""
    codes = hosts.codes("cell_uuid")
    cells = hosts.distinct("cell_uuid")
    allowed = np.array([cell is None or cell == cell_uuid for cell in cells], np.bool_)
    return np.asarray(allowed[codes], np.bool_)


def _named(hosts: HostTable, names: Iterable[str]) -> Mask:
    rows = (row for name in names for row in hosts.rows_of_host(name, any_case=True))
    return _rows(hosts, rows)


def _on_nodes(hosts: HostTable, nodenames: Iterable[str]) -> Mask:
    codes = hosts.codes("nodename")
    names = hosts.distinct("nodename")
    wanted = set(nodenames)
    return np.isin(codes, [code for code, name in enumerate(names) if name in wanted])


def _rows(hosts: HostTable, rows: Iterable[int]) -> Mask:
    mask = np.zeros(hosts.size, np.bool_)
    mask[list(rows)] = True
    return mask
