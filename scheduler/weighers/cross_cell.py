# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A weigher for the cell of an instance that moves."""

import numpy as np

from scheduler.objects.request_spec import CellMapping
from scheduler.weighers import BaseHostWeigher, HostTable, RequestSpec, Weights


class CrossCellWeigher(BaseHostWeigher):
    """Prefer the hosts of the instance's present cell, where it may move to another cell."""

    multiplier = 1000000.0
    aggregate_key = "cross_cell_move_weight_multiplier"
    options = (("multiplier", "filter_scheduler", "cross_cell_move_weight_multiplier"),)
    reads = ("cell_uuid",)
    row_local = True

    def applies(self, spec: RequestSpec) -> bool:
        return _preferred(spec) is not None

    def weigh(self, hosts: HostTable, spec: RequestSpec) -> Weights:
        cell = _preferred(spec)
        if cell is None:
            return np.zeros(hosts.size)
        return np.where(hosts.rows_where("cell_uuid", lambda uuid: uuid == cell.uuid), 1.0, -1.0)


def _preferred(spec: RequestSpec) -> CellMapping | None:
    destination = spec.requested_destination
    if destination is None or not destination.allow_cross_cell_move:
        return None
    return destination.cell
