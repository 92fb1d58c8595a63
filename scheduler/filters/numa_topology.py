# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the NUMA cells of an instance."""

import numpy as np

from inventory.numa.fit import fits, refusal
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.numa_pci import limit_of, needs_of, room_of, where_cells_fit

# Where fewer than 1 in N hosts are candidates, it costs less to look at these alone than to look at
# all hosts, for later requests as well.
_FEW = 100


class NUMATopologyFilter(BaseHostFilter):
    """Keep the hosts whose NUMA cells have room for those of the instance.

    Each of them needs a host cell: CPUs, memory, pages, near devices and networks. An instance with
    pinned CPUs on sibling threads is refused by hosts without threads even if it has no cells.
    """

    reads = ("numa_topology", "cpu_allocation_ratio", "ram_allocation_ratio", "pci_stats")

    def applies(self, spec: RequestSpec) -> bool:
        needs = needs_of(spec)
        return bool(needs.cells) or needs.threads

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...]:
        return self.reads if needs_of(spec).devices else self.reads[:-1]

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        needs, candidates = needs_of(spec), hosts.candidates
        few = _FEW * np.count_nonzero(candidates) < hosts.size
        fit = None if few else where_cells_fit(hosts, needs)
        mask = candidates if fit is None else fit
        rows = np.flatnonzero(mask)
        if len(rows) and (fit is None or needs.devices):
            mask = self._call_by_value(hosts, spec, rows, self.columns_read(spec))
        if needs.cells:
            hosts.limits.make("numa_topology", mask, lambda row: limit_of(hosts, row, spec))
        return mask

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        table, row, needs = host_state.table, host_state.row, needs_of(spec_obj)
        passes = fits(room_of(table, row), needs)
        if passes and needs.cells:
            host_state.limits["numa_topology"] = limit_of(table, row, spec_obj)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        room = room_of(host_state.table, host_state.row)
        return refusal(room, needs_of(spec_obj)) or super().reason(host_state, spec_obj)
