# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that bound how full a host may be.

Of vCPUs, memory and disk the limit is total x allocation ratio, of counts an allowed number.
Source: behaviour reference 1.4.
"""

import math
from typing import ClassVar

import numpy as np

from inventory.errors import counted
from inventory.fits import fits_under, limit
from scheduler.base_plugin import ResourceShortfall
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.hosts.columns import Rows, Weights
from scheduler.hosts.resources import ResourceKind


class OvercommitFilter(BaseHostFilter):
    """Keep the hosts with enough of one resource, over-commit included."""

    kind: ClassVar[ResourceKind]
    reads: ClassVar[tuple[str, ...]]

    def ratios(self, hosts: HostTable) -> Weights:
        """Return the factor of each row for the total, NaN where it is unknown."""
        return np.asarray(getattr(hosts, self.kind.ratio))

    def room(self, hosts: HostTable, spec: RequestSpec) -> tuple[Mask, Weights]:
        """Return where the request fits, and the limit of each host."""
        total, used = self.kind.amounts(hosts)
        most = limit(total, self.ratios(hosts))
        return fits_under(most, total, used, getattr(spec, self.kind.name)), most

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        passes, most = self.room(hosts, spec)
        most[~passes] = np.nan
        if self.kind.unit != 1:
            most /= self.kind.unit
        setattr(hosts.limits, self.kind.limit, most)
        return passes

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        total, used, ratio = self._figures(host_state)
        requested = getattr(spec_obj, self.kind.name)
        needs = f"needs {counted(requested, *self.kind.words)}"
        if requested > total:
            return f"{needs}, the host has only {total}"
        if math.isnan(ratio):
            return f"{needs}, but the allocation ratio of the host is not known"
        return f"{needs}, {limit(total, ratio) - used:.15g} left of {total} x {ratio}"

    def summary(self, hosts: HostTable, rows: Rows, spec: RequestSpec) -> str:
        total, used = self.kind.amounts(hosts)
        free = np.fmin(limit(total, self.ratios(hosts)) - used, total)[rows]
        known = free[np.isfinite(free)]
        if not len(known):
            return ""
        # Of the unit, "MB" is enough beside the name of the filter.
        units = (unit.partition(" ")[0] for unit in self.kind.words)
        most = math.floor(known.max())
        return f"needs {counted(getattr(spec, self.kind.name), *units)}, most free {most}"

    def lack(self, host_state: HostState, spec_obj: RequestSpec) -> ResourceShortfall | None:
        total, used, ratio = self._figures(host_state)
        left = limit(total, ratio) - used
        # NaN, the limit of an unknown ratio, would pass through min().
        most = left if math.isnan(left) else min(float(total), left)
        if not math.isfinite(most):
            return None
        requested = getattr(spec_obj, self.kind.name)
        return ResourceShortfall(self.kind.name, requested - math.floor(most))

    def _figures(self, host: HostState) -> tuple[int, int, float]:
        return *self.kind.amounts(host), float(self.ratios(host.table)[host.row])


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
