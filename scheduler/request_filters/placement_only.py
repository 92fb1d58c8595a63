# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The request filter for what only Placement can judge."""

import re
from collections.abc import Iterator

import numpy as np

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import HostTable, Mask
from scheduler.filters import BaseHostFilter
from scheduler.objects.kinds import shown
from scheduler.objects.request_spec import RequestSpec
from scheduler.request_filters import traits

_ACCELERATORS = "accel:device_profile"
# A group of resources has a number or a name behind these words.
_ASKED = re.compile("(resources|trait)([^:]*):(.+)", re.DOTALL)
# What request filters of Nova add themselves: hosts here are computes, and ComputeFilter sees to it
# that they are not disabled.
_ALL_HAVE, _NONE_HAS = frozenset({"COMPUTE_NODE"}), frozenset({"COMPUTE_STATUS_DISABLED"})
# How many are named in a reason.
_MOST = 5


class PlacementOnly(BaseHostFilter):
    """Keep no host for a request of resources or traits that nobody here can judge.

    What a flavor restates is no matter: resources:VCPU of as many vCPUs as it has, and the like.
    Traits that aggregates are to have, where these isolate hosts, are left to IsolateAggregates.
    """

    isolates = False
    options = (("isolates", "scheduler", "enable_isolated_aggregate_filtering"),)

    def applies(self, spec: RequestSpec) -> bool:
        return any(self._unjudged(spec))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return np.full(hosts.size, not self.applies(spec))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return self.refusal(spec_obj) or ""

    def refusal(self, spec: RequestSpec) -> str | None:
        found = list(self._unjudged(spec))
        if not found:
            return None
        more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
        return f"Only placement can judge what is requested: {', '.join(found[:_MOST])}{more}."

    def _unjudged(self, spec: RequestSpec) -> Iterator[str]:
        """Yield in words what nobody here can judge."""
        for key, value in spec.flavor.extra_specs.items():
            found = _ASKED.fullmatch(key)
            if key == _ACCELERATORS or (found and not self._is_known(spec, found, value)):
                yield f"{shown(key)} = {shown(value)} of the flavor"
        if not self.isolates:
            for name in traits.of_image(spec):
                yield f"{shown(f'trait:{name}')} = 'required' of the image"
        params = spec.request_level_params
        for name in sorted(params.root_required - _ALL_HAVE):
            yield f"{shown(name)} in root_required"
        for name in sorted(params.root_forbidden - _NONE_HAS):
            yield f"{shown(name)} in root_forbidden"

    def _is_known(self, spec: RequestSpec, asked: re.Match[str], value: str) -> bool:
        kind, group, name = asked.groups()
        if group:
            return False
        if kind == "trait":
            return self.isolates and value == traits.REQUIRED
        return str(_amounts(spec).get(name)) == value.strip()


def _amounts(spec: RequestSpec) -> dict[str, int]:
    """Return what a request takes of the classes of resources that every host has."""
    return {
        "VCPU": spec.vcpus,
        "MEMORY_MB": spec.memory_mb,
        "DISK_GB": -(-spec.disk_mb // 1024),
    }
