# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for what an image needs of the hypervisor."""

import json
from collections.abc import Hashable
from typing import Any

from scheduler.decision.host_state import HostState
from scheduler.filters import BaseHostFilter, version_predicate
from scheduler.objects.canonical_names import ARCHITECTURES, HYPERVISORS, MODES, canonical
from scheduler.objects.image_meta import ImageMetaProps
from scheduler.objects.request_spec import RequestSpec

_PROPERTIES = (
    ("hw_architecture", ARCHITECTURES),
    ("img_hv_type", HYPERVISORS),
    ("hw_vm_mode", MODES),
)


class ImagePropertiesFilter(BaseHostFilter):
    """Keep the hosts that can run the image: architecture, hypervisor and its version, mode.

    One entry of what the host supports must have all that the image names. The version and the
    width of physical addresses are checked also where the image names nothing else.
    """

    run_filter_once_per_request = True
    RUN_ON_REBUILD = True
    reads = ("supported_instances", "hypervisor_version", "cpu_info")
    default_architecture: str | None = None
    options = (
        ("default_architecture", "filter_scheduler", "image_properties_default_architecture"),
    )

    def applies(self, spec: RequestSpec) -> bool:
        return bool(self._wanted(spec) or _version(spec) or _address_bits(spec))

    def question(self, spec: RequestSpec) -> Hashable | None:
        return tuple(self._wanted(spec)), _version(spec), _address_bits(spec)

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return not self._unmet(host_state, spec_obj)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return "; ".join(self._unmet(host_state, spec_obj))

    def _wanted(self, spec: RequestSpec) -> list[str]:
        """Return the canonical names that one supported entry must all have."""
        properties = spec.image.properties if spec.image else ImageMetaProps()
        wanted = []
        for name, aliases in _PROPERTIES:
            value = properties.get(name)
            if not value and name == "hw_architecture":
                value = self.default_architecture
            if value:
                wanted.append(canonical(str(value), aliases))
        return wanted

    def _unmet(self, host: HostState, spec: RequestSpec) -> list[str]:
        unmet = []
        wanted = self._wanted(spec)
        supported = _supported(host)
        if wanted and not any(all(name in entry for name in wanted) for entry in supported):
            offers = ", ".join("/".join(map(str, entry)) for entry in supported) or "nothing"
            unmet.append(f"needs {'/'.join(wanted)}, the host supports {offers}")
        asked, version = _version(spec), _whole(host.hypervisor_version)
        if version and asked and not version_predicate.holds(asked, version):
            unmet.append(_other_version(asked, version))
        needed = _address_bits(spec)
        offered = _host_address_bits(host) if needed else 0
        if offered and offered < needed:
            unmet.append(f"needs {needed} bits of physical addresses, the host has {offered}")
        return unmet


def _supported(host: HostState) -> list[Any]:
    """Return the entries of what a host supports; what is no list of lists says nothing."""
    reported = host.supported_instances
    entries = reported if isinstance(reported, list) else []
    return [each for each in entries if isinstance(each, list)]


def _version(spec: RequestSpec) -> str:
    return str((spec.image and spec.image.properties.get("img_hv_requested_version")) or "")


def _other_version(asked: str, version: int) -> str:
    if not version_predicate.is_valid(asked):
        return f"needs hypervisor version {asked!r}, which is no condition such as '>=6.0'"
    return f"needs hypervisor version {asked}, the host has {version_predicate.dotted(version)}"


def _address_bits(spec: RequestSpec) -> int:
    bits = spec.image and spec.image.properties.get("hw_maxphysaddr_bits")
    return _whole(bits)


def _host_address_bits(host: HostState) -> int:
    try:
        return _whole(json.loads(host.cpu_info)["maxphysaddr"]["bits"])
    except (KeyError, TypeError, ValueError, RecursionError):
        # Not every driver reports it; a host that says nothing is not refused.
        return 0


def _whole(value: Any) -> int:
    try:
        return int(value)
    # JSON knows infinity.
    except (TypeError, ValueError, OverflowError):
        return 0
