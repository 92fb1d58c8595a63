# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for aggregates whose metadata meet the extra specs of a flavor."""

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from inventory.objects.aggregate import Aggregate
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.filters.extra_specs_ops import matches
from scheduler.hosts.aggregate_metadata import quoted, split_values

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(BaseHostFilter):
    """Keep the hosts whose aggregates have metadata that meet the extra specs of the flavor.

    Unscoped keys and those of the scope 'aggregate_instance_extra_specs' count. For each the host
    needs one value, from any of its aggregates, that meets the requirement.
    """

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return any(_requirements(spec))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = np.ones(hosts.size, np.bool_)
        for key, requirement in _requirements(spec):
            met = partial(_meets, key=key, requirement=requirement)
            mask &= hosts.memo("aggregates", (self.name, key, requirement), met, bool)
        return mask

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return "; ".join(
            f"{key} must be {requirement!r}, the aggregates of the host have {quoted(found)}"
            for key, requirement in _requirements(spec_obj)
            for found in [split_values(host_state.aggregates, key)]
            if not _meets(host_state.aggregates, key, requirement)
        )


def _requirements(spec: RequestSpec) -> Iterator[tuple[str, str]]:
    """Yield (metadata key, requirement) of the extra specs that concern aggregates."""
    for name, requirement in (spec.flavor.extra_specs or {}).items():
        scope, colon, rest = name.partition(":")
        if not colon or scope == SCOPE:
            yield (rest if colon else name), str(requirement)


def _meets(aggregates: Iterable[Aggregate] | None, key: str, requirement: str) -> bool:
    return any(matches(text, requirement) for text in split_values(aggregates, key))
