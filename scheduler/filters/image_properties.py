# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A filter for the properties of an image that the hypervisor has to meet."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from inventory.objects.canonical_names import ARCHITECTURES, HYPERVISORS, MODES, canonical
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
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
    row_local = True
    default_architecture: str | None = None
    options = (
        ("default_architecture", "filter_scheduler", "image_properties_default_architecture"),
    )

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        names, requested, bits = self._requirements(spec)
        mask = hosts.present.copy()
        if names:
            mask &= hosts.memo(
                "supported_instances", (self.name, names), lambda each: _offers(each, names), bool
            )
        if requested:
            mask &= hosts.memo(
                "hypervisor_version", (self.name, requested), lambda v: _meets(v, requested), bool
            )
        if bits:
            mask &= hosts.memo(
                "cpu_info", (self.name, bits), lambda info: not _is_narrower(info, bits), bool
            )
        return mask

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
        if names and not _offers(host.supported_instances, names):
            supported = _entries(host.supported_instances)
            offers = ", ".join("/".join(map(str, entry)) for entry in supported) or "nothing"
            unmet.append(f"needs {'/'.join(names)}, the host supports {offers}")
        if requested and not _meets(host.hypervisor_version, requested):
            unmet.append(_version_mismatch(requested, _whole(host.hypervisor_version)))
        if bits and _is_narrower(host.cpu_info, bits):
            offered = _address_bits(host.cpu_info)
            unmet.append(f"needs {bits} bits of physical addresses, the host has {offered}")
        return unmet


def _entries(supported: Any) -> list[Any]:
    """Return the entries of supported_instances; anything but a list of lists is left out."""
    entries = supported if isinstance(supported, list) else []
    return [each for each in entries if isinstance(each, list)]


def _offers(supported: Any, names: Sequence[str]) -> bool:
    """Return whether one entry of supported_instances has all these names."""
    return any(all(name in entry for name in names) for entry in _entries(supported))


def _meets(version: Any, requested: str) -> bool:
    """Return whether a version meets a predicate; a host without a version is not refused."""
    known = _whole(version)
    return not known or holds(requested, known)


def _is_narrower(cpu_info: Any, bits: int) -> bool:
    """Return whether a host is known to have fewer bits of physical addresses."""
    offered = _address_bits(cpu_info)
    return bool(offered) and offered < bits


def _version_mismatch(requested: str, version: int) -> str:
    if not is_valid(requested):
        return f"needs hypervisor version {requested!r}, which is not a condition such as '>=6.0'"
    found = dotted(version)
    return f"needs hypervisor version {requested}, the host has {found}"


def _address_bits(cpu_info: Any) -> int:
    try:
        return _whole(json.loads(cpu_info)["maxphysaddr"]["bits"])
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
