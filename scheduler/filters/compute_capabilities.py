# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for what a flavor's extra specs ask of a host."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from scheduler.decision.columns import NUMBERS
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.filters.capability import UNCOLUMNED, Capability, capabilities
from scheduler.filters.extra_specs_ops import all_matching
from scheduler.objects.request_spec import RequestSpec


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Keep the hosts whose attributes and statistics meet the extra specs of the flavor.

    Read are keys of the scope 'capabilities' (capabilities:cpu_info:vendor) and unscoped keys that
    are an attribute of Nova's hosts or one of the statistics; other scopes are somebody else's.
    """

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return any(capabilities(spec))

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        firsts = {each.first for each in capabilities(spec) if each.is_attribute}
        return None if firsts & UNCOLUMNED else ("stats", *sorted(firsts))

    def question(self, spec: RequestSpec) -> Hashable | None:
        return tuple(capabilities(spec))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        asked = list(capabilities(spec))
        if any(each.first in UNCOLUMNED for each in asked):
            return super().mask(hosts, spec)
        mask = np.ones(hosts.size, np.bool_)
        for each in asked:
            mask &= self._met(hosts, each)
        return mask

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return all(each.is_met_on(host_state) for each in capabilities(spec_obj))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return "; ".join(
            f"{each.key} must be {each.requirement!r} and is {each.found_on(host_state)!r}"
            for each in capabilities(spec_obj)
            if not each.is_met_on(host_state)
        )

    def _met(self, hosts: HostTable, asked: Capability) -> Mask:
        def derived(name: str, question: str, answer: Callable[[Any], bool]) -> Mask:
            return hosts.derived(name, (self.name, question, asked), answer, bool)

        if not asked.is_attribute:
            return derived("stats", "statistic", asked.is_met_in)
        if asked.first in NUMBERS:
            column = getattr(hosts, asked.first)
            unset = column != column
            met = (
                np.zeros(hosts.size, np.bool_)
                if asked.path
                else all_matching(column, asked.requirement)
            )
        else:
            unset = hosts.derived(asked.first, "unset", lambda value: value is None, bool)
            met = derived(asked.first, "attribute", asked.is_met_by)
        if not unset.any():
            return met
        return np.where(unset, derived("stats", "statistic", asked.is_met_in), met)
