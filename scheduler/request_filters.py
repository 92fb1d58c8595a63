# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Request filters judge a request as a whole, once and before the filters, also forced hosts.

These are Nova's request filters about aggregates, and one that refuses what only Placement can
judge. Source: behaviour reference 3.3.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from inventory.fits import whole_gb
from inventory.objects.aggregate import PROJECT_KEY, Aggregate
from inventory.objects.field_types import shown
from scheduler.filters import BaseHostFilter, HostState, HostTable, Mask, RequestSpec
from scheduler.filters.availability_zone import AvailabilityZoneFilter
from scheduler.hosts import aggregate_metadata

REQUIRED = "required"
_NAME = re.compile("[A-Z0-9_]+")


def required_of(texts: Mapping[str, str], key: re.Pattern[str]) -> Iterator[str]:
    """Yield the traits that keys of this form name and values require."""
    for name, value in texts.items():
        found = key.fullmatch(name)
        if found and value == REQUIRED:
            yield found[1]


def of_image(spec: RequestSpec) -> list[str]:
    """Return the traits that the image requires; of existing instances the list may be a text."""
    listed = spec.image.properties.traits_required if spec.image else None
    return _NAME.findall(listed) if isinstance(listed, str) else list(listed or ())


class MapAzToPlacementAggregate(AvailabilityZoneFilter):
    """Keep the hosts of the requested availability zone, whatever filters are enabled.

    A forced host need not be in the default zone, since ``nova:HOST`` has to name some zone.
    """

    enabled = True
    options = (
        *AvailabilityZoneFilter.options,
        ("enabled", "scheduler", "query_placement_for_availability_zone"),
    )

    def applies(self, spec: RequestSpec) -> bool:
        if spec.has_forced_target and spec.availability_zone == self.default_zone:
            return False
        return self.enabled and super().applies(spec)


class RequireTenantAggregate(BaseHostFilter):
    """Keep the hosts of the aggregates that are for the project of the request.

    A project without aggregates may go anywhere, or nowhere where an aggregate is required.
    """

    enabled = False
    required = False
    options = (
        ("enabled", "scheduler", "limit_tenants_to_placement_aggregate"),
        ("required", "scheduler", "placement_aggregate_required_for_tenants"),
    )

    def applies(self, spec: RequestSpec) -> bool:
        return self.enabled

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        mask = hosts.rows_where("aggregates", lambda found: _for_project(found, spec.project_id))
        # Whether the project has aggregates: hosts that are no candidates count as well.
        return mask if mask.any() else np.full(hosts.size, not self.required)

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        names = ", ".join(str(each.name) for each in host_state.aggregates or ()) or "none"
        project = spec_obj.project_id
        if project is None:
            return "needs an aggregate for the project of the request, which names none"
        return f"no aggregate of the host ({names}) is for project {project}"


def _for_project(aggregates: Iterable[Aggregate] | None, project_id: str | None) -> bool:
    keys = aggregate_metadata.keys(aggregates, PROJECT_KEY)
    return any(project_id in aggregate_metadata.values(aggregates, key) for key in keys)


# Traits of the host itself, also in the metadata of aggregates.
_OF_HOST = re.compile("trait:(.+)")
# A flavor may require a trait of a group of resources.
_OF_FLAVOR = re.compile("trait[^:]*:(.+)")


class IsolateAggregates(BaseHostFilter):
    """Keep the hosts that aggregates isolate for just the traits which the request requires.

    Other hosts are for requests without traits. Only the metadata of aggregates name traits here.
    """

    enabled = False
    options = (("enabled", "scheduler", "enable_isolated_aggregate_filtering"),)

    def applies(self, spec: RequestSpec) -> bool:
        return self.enabled

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        required, of_host = _required(spec, _OF_FLAVOR), _required(spec, _OF_HOST)
        return hosts.rows_where(
            "aggregates",
            lambda found: not any(_missing(found, required)) and not _lacking(found, of_host),
        )

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        aggregates = host_state.aggregates
        kept = (
            f"aggregate {each.name} is kept for instances that require trait {trait}"
            for each, trait in _missing(aggregates, _required(spec_obj, _OF_FLAVOR))
        )
        lacking = (
            f"no aggregate of the host says trait:{trait} = required"
            for trait in sorted(_lacking(aggregates, _required(spec_obj, _OF_HOST)))
        )
        return "; ".join((*kept, *lacking))


def _missing(
    aggregates: Iterable[Aggregate] | None, required: set[str]
) -> Iterator[tuple[Aggregate, str]]:
    """Yield the aggregates with each trait that they isolate and that is not required."""
    for each in aggregates or ():
        for trait in sorted({*required_of(each.metadata, _OF_HOST)} - required):
            yield each, trait


def _lacking(aggregates: Iterable[Aggregate] | None, of_host: set[str]) -> set[str]:
    """Return the traits of these that no aggregate isolates."""
    return of_host.difference(*(required_of(each.metadata, _OF_HOST) for each in aggregates or ()))


def _required(spec: RequestSpec, key: re.Pattern[str]) -> set[str]:
    """Return the traits that the image requires, and the flavor by keys of this form."""
    return {*of_image(spec), *required_of(spec.flavor.extra_specs, key)}


_ACCELERATORS = "accel:device_profile"
# A group of resources has a number or a name behind these words.
_PATTERN = re.compile("(resources|trait)([^:]*):(.+)", re.DOTALL)
# Added by Nova's own request filters: all hosts here are computes, and ComputeFilter refuses
# disabled ones.
_ALL_HAVE, _NONE_HAS = frozenset({"COMPUTE_NODE"}), frozenset({"COMPUTE_STATUS_DISABLED"})
# How many are named in a reason.
_MAX_NAMED = 5


class PlacementOnly(BaseHostFilter):
    """Keep no host for a request of resources or traits that only Placement can judge.

    Where Placement has said which nodes it offers, it has judged. Resources that repeat the flavor,
    such as resources:VCPU of its vCPUs, are allowed. Traits of aggregates are left to
    IsolateAggregates if that is enabled.
    """

    isolates = False
    options = (("isolates", "scheduler", "enable_isolated_aggregate_filtering"),)

    def applies(self, spec: RequestSpec) -> bool:
        return spec.offered_nodes is None and any(unjudged(spec, self.isolates))

    def mask(self, hosts: HostTable, spec: RequestSpec) -> Mask:
        return np.full(hosts.size, not self.applies(spec))

    def reason(self, host_state: HostState, spec_obj: RequestSpec) -> str:
        return self.refusal(spec_obj) or ""

    def refusal(self, spec: RequestSpec) -> str | None:
        found = list(unjudged(spec, self.isolates))
        if not found or not self.applies(spec):
            return None
        more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        return f"Only placement can judge what is requested: {', '.join(found[:_MAX_NAMED])}{more}."


def unjudged(spec: RequestSpec, isolates: bool = False) -> Iterator[str]:
    """Yield in words what only Placement can judge; with isolates traits are left to aggregates."""
    for key, value in spec.flavor.extra_specs.items():
        found = _PATTERN.fullmatch(key)
        if key == _ACCELERATORS or (found and not _is_known(spec, found, value, isolates)):
            yield f"{shown(key)} = {shown(value)} of the flavor"
    if not isolates:
        for name in of_image(spec):
            yield f"{shown(f'trait:{name}')} = 'required' of the image"
    params = spec.request_level_params
    for name in sorted(params.root_required - _ALL_HAVE):
        yield f"{shown(name)} in root_required"
    for name in sorted(params.root_forbidden - _NONE_HAS):
        yield f"{shown(name)} in root_forbidden"


def _is_known(spec: RequestSpec, match: re.Match[str], value: str, isolates: bool) -> bool:
    kind, group, name = match.groups()
    if group:
        return False
    if kind == "trait":
        return isolates and value == REQUIRED
    return str(_amounts(spec).get(name)) == value.strip()


def _amounts(spec: RequestSpec) -> dict[str, int]:
    """Return what the flavor has by the resource classes that every host has."""
    vcpus, memory_mb, disk_mb = spec.flavor_size
    return {"VCPU": vcpus, "MEMORY_MB": memory_mb, "DISK_GB": whole_gb(disk_mb)}


REQUEST_FILTERS: tuple[type[BaseHostFilter], ...] = (
    PlacementOnly,
    RequireTenantAggregate,
    MapAzToPlacementAggregate,
    IsolateAggregates,
)
