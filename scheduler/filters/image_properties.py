# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the properties of an image that the hypervisor has to meet."""

import json
import operator
import re
from collections.abc import Callable, Hashable
from typing import Any

from inventory.objects.canonical_names import ARCHITECTURES, HYPERVISORS, MODES, canonical
from scheduler.filters import BaseHostFilter, HostState, RequestSpec
from scheduler.objects.flavor_and_image import ImageMetaProps

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
        return any(self._requirements(spec))

    def question(self, spec: RequestSpec) -> Hashable | None:
        return self._requirements(spec)

    def host_passes(self, host_state: HostState, spec_obj: RequestSpec) -> bool:
        return not self._unmet(host_state, spec_obj)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return "; ".join(self._unmet(host_state, spec_obj))

    def _requirements(self, spec: RequestSpec) -> tuple[tuple[str, ...], str, int]:
        """Return the canonical names that one supported entry must have, version and bits."""
        properties = spec.image.properties if spec.image else ImageMetaProps()
        names = []
        for name, aliases in _PROPERTIES:
            value = properties.get(name)
            if not value and name == "hw_architecture":
                value = self.default_architecture
            if value:
                names.append(canonical(str(value), aliases))
        version = str(properties.get("img_hv_requested_version") or "")
        return tuple(names), version, _whole(properties.get("hw_maxphysaddr_bits"))

    def _unmet(self, host: HostState, spec: RequestSpec) -> list[str]:
        unmet = []
        names, requested, bits = self._requirements(spec)
        supported = _supported(host)
        if names and not any(all(name in entry for name in names) for entry in supported):
            offers = ", ".join("/".join(map(str, entry)) for entry in supported) or "nothing"
            unmet.append(f"needs {'/'.join(names)}, the host supports {offers}")
        version = _whole(host.hypervisor_version)
        if version and requested and not holds(requested, version):
            unmet.append(_version_mismatch(requested, version))
        offered = _host_address_bits(host) if bits else 0
        if offered and offered < bits:
            unmet.append(f"needs {bits} bits of physical addresses, the host has {offered}")
        return unmet


def _supported(host: HostState) -> list[Any]:
    """Return the entries of supported_instances; anything but a list of lists is left out."""
    reported = host.supported_instances
    entries = reported if isinstance(reported, list) else []
    return [each for each in entries if isinstance(each, list)]


def _version_mismatch(requested: str, version: int) -> str:
    if not is_valid(requested):
        return f"needs hypervisor version {requested!r}, which is no condition such as '>=6.0'"
    found = dotted(version)
    return f"needs hypervisor version {requested}, the host has {found}"


def _host_address_bits(host: HostState) -> int:
    try:
        return _whole(json.loads(host.cpu_info)["maxphysaddr"]["bits"])
    except (KeyError, TypeError, ValueError, RecursionError):
        # Not every driver reports it; a host without the figure is not refused.
        return 0


def _whole(value: Any) -> int:
    try:
        return int(value)
    # JSON knows infinity.
    except (TypeError, ValueError, OverflowError):
        return 0


_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
# No part of a version is longer; int() refuses numbers of thousands of digits.
_CONDITION = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d{1,9}(?:\.\d{1,9})*)\s*")


def holds(predicate: str, version: int) -> bool:
    """Return whether a version, coded as 6002000 for 6.2.0, meets all conditions of a predicate.

    No version meets a predicate that is not a list of conditions.
    """
    found = _numbers(dotted(version))
    for condition in predicate.split(","):
        match = _CONDITION.fullmatch(condition)
        if not match or not _OPERATORS[match[1]](found, _numbers(match[2])):
            return False
    return True


def is_valid(predicate: str) -> bool:
    """Return whether a predicate is a list of conditions."""
    return all(map(_CONDITION.fullmatch, predicate.split(",")))


def dotted(version: int) -> str:
    """Return a coded version as text: 6002000 as 6.2.0, 5000 as 5.0."""
    parts = []
    while version >= 1000:
        version, part = divmod(version, 1000)
        parts.append(part)
    parts.append(version)
    return ".".join(str(part) for part in reversed(parts))


def _numbers(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(".")]
    # 6.2 and 6.2.0 are the same version.
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
