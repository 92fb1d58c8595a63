# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for what a flavor's extra specs ask of a host."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.decision.host_state import HostState
from scheduler.decision.host_table import NUMBERS, OBJECTS
from scheduler.filters import BaseHostFilter
from scheduler.filters.extra_specs_ops import matches
from scheduler.objects.request_spec import RequestSpec

SCOPE = "capabilities"
_ATTRIBUTES = frozenset({*NUMBERS, *OBJECTS, "instances", "limits", "service"})


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Keep the hosts whose attributes and statistics meet the extra specs of the flavor.

    Read are keys of the scope 'capabilities' (capabilities:cpu_info:vendor) and unscoped keys that
    are an attribute of the host or one of its statistics; other scopes are somebody else's.
    """

    run_filter_once_per_request = True

    def applies(self, spec: RequestSpec) -> bool:
        return any(self._paths(spec))

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        # What an attribute does not have is looked for in the statistics.
        names = {path[0] for path, _, _ in self._paths(spec)} & _ATTRIBUTES
        return None if names & {"limits", "service"} else tuple(sorted(names | {"stats"}))

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return not any(self._unmet(host_state, spec_obj))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return "; ".join(
            f"{key} must be {requirement!r} and is {value!r}"
            for key, requirement, value in self._unmet(host_state, spec_obj)
        )

    def _paths(self, spec: RequestSpec) -> Iterator[tuple[list[str], str, str]]:
        """Yield (path of names, key, requirement) of the extra specs that may concern us."""
        for key, requirement in (spec.flavor.extra_specs or {}).items():
            parts = key.split(":")
            if len(parts) == 1:
                yield parts, key, str(requirement)
            elif parts[0] == SCOPE:
                yield parts[1:], key, str(requirement)
            elif key == "hw:maxphysaddr_bits":
                yield ["cpu_info", "maxphysaddr", "bits"], key, f">= {requirement}"

    def _unmet(self, host: HostState, spec: RequestSpec) -> Iterator[tuple[str, str, str | None]]:
        for path, key, requirement in self._paths(spec):
            if path == [key] and key not in _ATTRIBUTES and key not in (host.stats or {}):
                continue
            value = _look_up(host, path)
            text = None if value is None else str(value)
            if not matches(text, requirement):
                yield key, requirement, text


def _look_up(host: HostState, path: list[str]) -> Any:
    """Follow a path of names from the host on; None where it leads nowhere."""
    first, *rest = path
    value = getattr(host, first) if first in _ATTRIBUTES else None
    if value is None:
        value = (host.stats or {}).get(first)
    for name in rest:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
