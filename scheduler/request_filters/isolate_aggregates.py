# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The request filter for hosts that are set aside for instances with certain traits."""

import re
from collections.abc import Iterable, Iterator, Mapping

from scheduler.decision.by_value import rows_where
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.request_spec import RequestSpec

_OF_AGGREGATE = re.compile("trait:(.+)")
# A flavor may name a group of resources of which it requires the trait.
_OF_FLAVOR = re.compile("trait[^:]*:(.+)")


class IsolateAggregates(BaseHostFilter):
    """Keep the hosts that no aggregate sets aside for traits which the request does not require."""

    enabled = False
    options = (("enabled", "scheduler", "enable_isolated_aggregate_filtering"),)

    def applies(self, spec: RequestSpec) -> bool:
        return self.enabled

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        required = _required(spec)
        return rows_where(hosts, "aggregates", lambda found: not any(_missing(found, required)))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        missing = _missing(host_state.aggregates, _required(spec_obj))
        return "; ".join(
            f"aggregate {each.name} is kept for instances that require trait {trait}"
            for each, trait in missing
        )


def _missing(
    aggregates: Iterable[Aggregate] | None, required: set[str]
) -> Iterator[tuple[Aggregate, str]]:
    """Yield the aggregates with each trait that they are kept for and that is not required."""
    for each in aggregates or ():
        for trait in sorted({*_traits(each.metadata, _OF_AGGREGATE)} - required):
            yield each, trait


def _required(spec: RequestSpec) -> set[str]:
    """Return what flavor and image require."""
    image = spec.image.properties.traits_required if spec.image else None
    return {*(image or ()), *_traits(spec.flavor.extra_specs, _OF_FLAVOR)}


def _traits(texts: Mapping[str, str], key: re.Pattern[str]) -> Iterator[str]:
    """Yield the traits that keys of this form name and values require."""
    for name, value in texts.items():
        found = key.fullmatch(name)
        if found and value == "required":
            yield found[1]
