# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The request filter for hosts that are set aside for instances with certain traits."""

import re
from collections.abc import Iterable, Iterator

from scheduler.decision.by_value import rows_where
from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.aggregate import Aggregate
from scheduler.objects.request_spec import RequestSpec
from scheduler.request_filters import traits

# The host's own, which an aggregate may say that it has.
_OF_HOST = re.compile("trait:(.+)")
# A flavor may name a group of resources of which it requires the trait.
_OF_FLAVOR = re.compile("trait[^:]*:(.+)")


class IsolateAggregates(BaseHostFilter):
    """Keep the hosts that aggregates set aside for just the traits which the request requires.

    So a host of no such aggregate is for requests without traits. The metadata of aggregates are
    all that is known here of the traits of a host.
    """

    enabled = False
    options = (("enabled", "scheduler", "enable_isolated_aggregate_filtering"),)

    def applies(self, spec: RequestSpec) -> bool:
        return self.enabled

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        required, of_host = _required(spec), _of_host(spec)
        return rows_where(
            hosts,
            "aggregates",
            lambda found: not any(_missing(found, required)) and not _lacking(found, of_host),
        )

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        aggregates = host_state.aggregates
        kept = (
            f"aggregate {each.name} is kept for instances that require trait {trait}"
            for each, trait in _missing(aggregates, _required(spec_obj))
        )
        lacking = (
            f"no aggregate of the host says trait:{trait} = required"
            for trait in sorted(_lacking(aggregates, _of_host(spec_obj)))
        )
        return "; ".join((*kept, *lacking))


def _missing(
    aggregates: Iterable[Aggregate] | None, required: set[str]
) -> Iterator[tuple[Aggregate, str]]:
    """Yield the aggregates with each trait that they are kept for and that is not required."""
    for each in aggregates or ():
        for trait in sorted({*traits.required(each.metadata, _OF_HOST)} - required):
            yield each, trait


def _lacking(aggregates: Iterable[Aggregate] | None, of_host: set[str]) -> set[str]:
    """Return the traits of these for which no aggregate sets hosts aside."""
    return of_host.difference(
        *(traits.required(each.metadata, _OF_HOST) for each in aggregates or ())
    )


def _required(spec: RequestSpec) -> set[str]:
    """Return what flavor and image require, of the host or of groups of resources."""
    return {*traits.of_image(spec), *traits.required(spec.flavor.extra_specs, _OF_FLAVOR)}


def _of_host(spec: RequestSpec) -> set[str]:
    """Return what they require of the host itself."""
    return {*traits.of_image(spec), *traits.required(spec.flavor.extra_specs, _OF_HOST)}
