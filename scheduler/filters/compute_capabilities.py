# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the extra specs of a flavor that the attributes of hosts have to meet."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.filters.extra_specs_ops import all_matching, matches
from scheduler.hosts.columns import ELEMENTS, NUMBERS, OBJECTS

SCOPE = "capabilities"
# Attributes of a host that are made for each host, other than the columns of the table.
UNCOLUMNED = frozenset({"instances", "limits", "service"})
# Nova's hosts lack these: a scoped key can only mean a statistic of that name, and an unscoped key
# is for other filters.
_NOT_IN_NOVA = frozenset(
    (
        *("disabled_reason", "forced_down", "heartbeat_age", "last_seen", "service_disabled"),
        *("generation", "held_alternates", "node_id", "trust_level", "unserved"),
    )
)
ATTRIBUTES = (UNCOLUMNED | NUMBERS | frozenset(OBJECTS)) - _NOT_IN_NOVA
_ADDRESS_BITS = "hw:maxphysaddr_bits"
_OVERRIDDEN = "capabilities:cpu_info:maxphysaddr:bits"


@dataclass(frozen=True, slots=True)
class Capability:
    """A value required of an attribute of the host or, where that is None, of a statistic.

    path are the names below it. An optional one is a statistic that hosts may lack.
    """

    key: str
    first: str
    path: tuple[str, ...]
    requirement: str
    optional: bool = False

    @property
    def is_attribute(self) -> bool:
        """Whether it is an attribute of hosts."""
        return self.first in ATTRIBUTES and not self.optional

    def is_met_by(self, value: Any) -> bool:
        """Return whether a value of the attribute meets the requirement."""
        return matches(self.text(value), self.requirement)

    def is_met_in(self, stats: Any) -> bool:
        """Return whether the statistics meet the requirement."""
        if self.optional and self.first not in _mapping(stats):
            return True
        return self.is_met_by(_mapping(stats).get(self.first))

    def is_met_on(self, host: HostState) -> bool:
        """Return whether a host meets the requirement."""
        value = self._attribute(host)
        return self.is_met_in(host.stats) if value is None else self.is_met_by(value)

    def found_on(self, host: HostState) -> str | None:
        """Return the value of a host as text, None without one."""
        value = self._attribute(host)
        return self.text(_mapping(host.stats).get(self.first) if value is None else value)

    def text(self, value: Any) -> str | None:
        """Return the text at the end of the path that begins at a value, None without one."""
        try:
            for name in self.path:
                found = json.loads(value) if isinstance(value, str) else value
                value = _mapping(found).get(name)
            return None if value is None else str(value)
        # Also what was parsed may be nested too deeply to be shown.
        except (ValueError, RecursionError):
            return None

    def _attribute(self, host: HostState) -> Any:
        if not self.is_attribute:
            return None
        value = getattr(host, self.first)
        # Nova finds none of its parts, so only the text of the whole can be required.
        return str(value) if self.first == "service" else value


def capabilities(spec: RequestSpec) -> Iterator[Capability]:
    """Yield the capabilities that the extra specs of the flavor require."""
    extra_specs = spec.flavor.extra_specs or {}
    for key, value in extra_specs.items():
        first, *path = key.split(":")
        requirement = str(value)
        if not path:
            yield Capability(key, first, (), requirement, optional=first not in ATTRIBUTES)
        elif first == SCOPE and not (key == _OVERRIDDEN and _ADDRESS_BITS in extra_specs):
            yield Capability(key, path[0], tuple(path[1:]), requirement)
        elif key == _ADDRESS_BITS:
            yield Capability(key, "cpu_info", ("maxphysaddr", "bits"), f">= {requirement}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Keep the hosts whose attributes and statistics meet the extra specs of the flavor.

    Keys of the scope 'capabilities' (capabilities:cpu_info:vendor) count, and unscoped keys that
    name an attribute of Nova's hosts or a statistic; other scopes are for other filters.
    """

    run_filter_once_per_request = True
    row_local = True

    def applies(self, spec: RequestSpec) -> bool:
        return any(capabilities(spec))

    def columns_read(self, spec: RequestSpec) -> tuple[str, ...] | None:
        firsts = {each.first for each in capabilities(spec) if each.is_attribute}
        return None if firsts & UNCOLUMNED else ("stats", *sorted(firsts))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        requested = list(capabilities(spec))
        if any(each.first in UNCOLUMNED for each in requested):
            return super().mask(hosts, spec)
        mask = np.ones(hosts.size, np.bool_)
        for each in requested:
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

    def _met(self, hosts: HostTable, capability: Capability) -> Mask:
        def memo(column: str, kind: str, is_met: Callable[[Any], bool]) -> Mask:
            return hosts.memo(column, (self.name, kind, capability), is_met, bool)

        first = capability.first
        if not capability.is_attribute:
            return memo("stats", "statistic", capability.is_met_in)
        if first not in NUMBERS:
            unset = hosts.memo(first, "unset", lambda value: value is None, bool)
            met = memo(first, "attribute", capability.is_met_by)
        else:
            column = getattr(hosts, first).astype(ELEMENTS[first])
            unset = column != column
            met = np.zeros(hosts.size, np.bool_)
            if not capability.path:
                met = all_matching(column, capability.requirement)
        if not unset.any():
            return met
        return np.where(unset, memo("stats", "statistic", capability.is_met_in), met)
