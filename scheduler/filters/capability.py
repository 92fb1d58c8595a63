# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What an extra spec asks of a host: a path of names, and what must be found there.

Source: behaviour reference 1.7.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.decision.columns import NUMBERS, OBJECTS
from scheduler.decision.host_state import HostState
from scheduler.filters.extra_specs_ops import matches
from scheduler.objects.request_spec import RequestSpec

SCOPE = "capabilities"
# Attributes of a host that are made for each host, other than the columns of the table.
UNCOLUMNED = frozenset({"instances", "limits", "service"})
# Nova's hosts have none of these: with the scope only a statistic of that name can meet them, and
# without it such a key is somebody else's.
_NOT_IN_NOVA = frozenset(
    {
        "disabled_reason",
        "forced_down",
        "generation",
        "heartbeat_age",
        "held_alternates",
        "last_seen",
        "node_id",
        "service_disabled",
        "trust_level",
        "unserved",
    }
)
ATTRIBUTES = (UNCOLUMNED | NUMBERS | frozenset(OBJECTS)) - _NOT_IN_NOVA
_ADDRESS_BITS = "hw:maxphysaddr_bits"
_OVERRIDDEN = "capabilities:cpu_info:maxphysaddr:bits"


@dataclass(frozen=True, slots=True)
class Capability:
    """What to find under an attribute of the host or, where it is None, one of its statistics.

    path are the names from there on. An optional one is a statistic, which need not be there.
    """

    key: str
    first: str
    path: tuple[str, ...]
    requirement: str
    optional: bool = False

    @property
    def is_attribute(self) -> bool:
        """Whether hosts have an attribute to look under."""
        return self.first in ATTRIBUTES and not self.optional

    def is_met_by(self, value: Any) -> bool:
        """Return whether an attribute has what is required."""
        return matches(self.text(value), self.requirement)

    def is_met_in(self, stats: Any) -> bool:
        """Return whether the statistics have what is required."""
        if self.optional and self.first not in _mapping(stats):
            return True
        return self.is_met_by(_mapping(stats).get(self.first))

    def is_met_on(self, host: HostState) -> bool:
        """Return whether a host has what is required."""
        value = self._attribute(host)
        return self.is_met_in(host.stats) if value is None else self.is_met_by(value)

    def found_on(self, host: HostState) -> str | None:
        """Return what a host has, None for nothing."""
        value = self._attribute(host)
        return self.text(_mapping(host.stats).get(self.first) if value is None else value)

    def text(self, value: Any) -> str | None:
        """Follow the path from a value on and return what is there as text."""
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
        # Nova finds none of its parts, so only the text of the whole may be asked for.
        return str(value) if self.first == "service" else value


def capabilities(spec: RequestSpec) -> Iterator[Capability]:
    """Yield what the extra specs of the flavor may ask of hosts; other scopes do not."""
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
