# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which nodes a request names, and what of them only Placement can judge."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.decision.prefilter import rules
from scheduler.drivers import BaseDriver
from scheduler.filters.compute import ComputeFilter
from scheduler.host_cache.cache import HostCache
from scheduler.objects.request_spec import RequestSpec

# The rules of the prefilter that name hosts or nodes to go to.
_NAMING = ("requested_destination", "force_hosts", "force_nodes")
# Hints for which Nova, too, asks without a limit: the hosts that they leave may be few.
_UNLIMITED = frozenset({"group", "same_host", "different_host"})


@dataclass(frozen=True, slots=True)
class PlacementScope:
    """About which nodes Placement is asked.

    nodes are the uuids of those that the request names, none if it may go to any. Unless it
    refuses_disabled, no filter keeps the request from disabled hosts, so Placement has to.
    """

    nodes: Sequence[str] = ()
    is_unlimited: bool = False
    refuses_disabled: bool = True

    @property
    def in_tree(self) -> str | None:
        """The only node that is asked about."""
        return self.nodes[0] if len(self.nodes) == 1 else None


def scope_of(spec: RequestSpec, driver: BaseDriver, host_cache: HostCache) -> PlacementScope:
    """Return the scope of a request; raises DatabaseUnavailable."""
    nodes = _named(spec, driver, host_cache)
    # None judges a forced host.
    filters = () if spec.has_forced_target else driver.plan.filters
    return PlacementScope(
        nodes,
        is_unlimited=bool(nodes or _UNLIMITED & spec.scheduler_hints.keys()),
        refuses_disabled=any(isinstance(each, ComputeFilter) for each in filters),
    )


def _named(spec: RequestSpec, driver: BaseDriver, host_cache: HostCache) -> list[str]:
    destination = spec.requested_destination
    names_one = destination is not None and (destination.host or destination.node)
    if not (spec.has_forced_target or names_one):
        return []
    with host_cache.current(driver.view_max_age) as hosts:
        masks = [rule for name, rule in rules(hosts, spec) if name in _NAMING]
        rows = np.flatnonzero(np.logical_and.reduce(masks)).tolist()
        return [hosts.get(row, "uuid") for row in rows]
