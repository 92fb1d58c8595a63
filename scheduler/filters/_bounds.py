# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that bound how full a host may be.

Of vCPUs, memory and disk the limit is total x allocation ratio, of counts an allowed number.
Source: behaviour reference 1.4.
"""

import math
from typing import Any, ClassVar

import numpy as np

from inventory.errors import counted
from inventory.fits import fits_under, limit
from scheduler.base_plugin import ResourceShortfall
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.columns import Rows, Weights


class OvercommitFilter(BaseHostFilter):
    """Keep the hosts with enough of one resource, over-commit included."""

    # The attribute of a request that names the amount, the unit of one and of several, and the
    # ratio of hosts.
    resource: ClassVar[str]
    unit: ClassVar[tuple[str, str]]
    ratio: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]

    def amounts(self, hosts: HostTable | HostState) -> tuple[Any, Any]:
        """Return total and usage in the unit of the request: columns, or numbers of one host."""
        raise NotImplementedError

    def ratios(self, hosts: HostTable) -> Weights:
        """Return the factor of each row for the total, NaN where it is unknown."""
        return np.asarray(getattr(hosts, self.ratio))

    def room(self, hosts: HostTable, spec: RequestSpec) -> tuple[Mask, Weights]:
        """Return where the request fits, and the limit of each host."""
        (total, used), ratios = self.amounts(hosts), self.ratios(hosts)
        most = limit(total, ratios)
        return fits_under(most, total, used, getattr(spec, self.resource)), most

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total, used, ratio = self._figures(host_state)
        needs = f"needs {counted(getattr(spec_obj, self.resource), *self.unit)}"
        if getattr(spec_obj, self.resource) > total:
            return f"{needs}, the host has only {total}"
        if math.isnan(ratio):
            return f"{needs}, no allocation ratio of the host is known"
        return f"{needs}, {limit(total, ratio) - used:.15g} left of {total} x {ratio}"

    def summary(self, hosts: HostTable, rows: Rows, spec: RequestSpec) -> str:
        (total, used), ratios = self.amounts(hosts), self.ratios(hosts)
        free = np.fmin(limit(total, ratios) - used, total)[rows]
        known = free[np.isfinite(free)]
        if not len(known):
            return ""
        # Of the unit, "MB" is enough beside the name of the filter.
        units = (unit.partition(" ")[0] for unit in self.unit)
        most = math.floor(known.max())
        return f"needs {counted(getattr(spec, self.resource), *units)}, most free {most}"

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> ResourceShortfall | None:
        total, used, ratio = self._figures(host_state)
        left = limit(total, ratio) - used
        # NaN, the limit of an unknown ratio, would pass through min().
        most = left if math.isnan(left) else min(float(total), left)
        if not math.isfinite(most):
            return None
        requested = getattr(spec_obj, self.resource)
        return ResourceShortfall(self.resource, requested - math.floor(most))

    def _figures(self, host: HostState) -> tuple[int, int, float]:
        return *self.amounts(host), float(self.ratios(host.table)[host.row])


class LoadFilter(BaseHostFilter):
    """Keep the hosts on which the count that reads names is below the allowed number."""

    most: int
    # The name of the count in ResourceShortfall, what it counts, for one and for several, and a
    # reason with it and the allowed number.
    resource: ClassVar[str]
    noun: ClassVar[tuple[str, str]]
    refusal_text: ClassVar[str] = "{}, {} allowed"
    reads: ClassVar[tuple[str, ...]]

    def allowed(self, hosts: HostTable) -> Weights:
        """Return the allowed number of each row."""
        return np.full(hosts.size, self.most, np.float64)

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return np.asarray(getattr(hosts, self.reads[0]) < self.allowed(hosts), np.bool_)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        allowed = self.allowed(host_state.table)[host_state.row]
        count = counted(getattr(host_state, self.reads[0]), *self.noun)
        return self.refusal_text.format(count, int(allowed))

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> ResourceShortfall | None:
        count = getattr(host_state, self.reads[0])
        fewer = count - math.ceil(self.allowed(host_state.table)[host_state.row]) + 1
        # A host cannot have fewer than none.
        return ResourceShortfall(self.resource, fewer) if fewer <= count else None
