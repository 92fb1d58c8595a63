# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a request asks of Placement: its groups of resources and traits, as Nova's scheduler asks.

Source: the queries of Nova 34 for the same flavor, image and ports. The reference page "What is
asked of Placement" lists each of Nova's request filters, and what is left to filters of ours.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from inventory.fits import whole_gb
from inventory.nova.candidates import RequestGroup, RequestGroups
from inventory.objects.amounts import resource_amount
from inventory.objects.field_types import shown
from scheduler.claims.implied_traits import (
    image_traits,
    image_type_trait,
    property_of,
    provider_resources,
    provider_traits,
    root_traits,
    tpm_secret_trait,
)
from scheduler.objects.request_spec import RequestGroup as RequestedResources
from scheduler.objects.request_spec import RequestSpec
from scheduler.request_filters import REQUIRED, of_image, unjudged

FORBIDDEN = "forbidden"
VCPU, PCPU, MEMORY_MB, DISK_GB = "VCPU", "PCPU", "MEMORY_MB", "DISK_GB"
OWNER_NOVA, DISABLED = "OWNER_NOVA", "COMPUTE_STATUS_DISABLED"
_HYPERTHREADING = "HW_CPU_HYPERTHREADING"
# What the host table knows of each host, so that filters of ours judge it.
_KNOWN_RESOURCES = {VCPU, PCPU, MEMORY_MB, DISK_GB}
# All hosts of ours are computes of Nova, and ComputeFilter refuses disabled ones.
_KNOWN_TRAITS = {"COMPUTE_NODE", OWNER_NOVA, f"!{DISABLED}"}
# Resources or a trait of a flavor, perhaps of a group.
_KEY = re.compile("(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.+)", re.DOTALL)
_GROUP_POLICIES = ("none", "isolate")


@dataclass(frozen=True, slots=True)
class TraitOptions:
    """Which traits are asked for beside those that flavor, image and ports name.

    image_type_support and image_metadata are the options query_placement_for_image_type_support
    and image_metadata_prefilter. With owner_nova providers are to be Nova's own; all computes have
    to report that (service version 73). With tpm_secret_security computes have to report how they
    keep the secrets of TPMs, as those of Nova 34 do.
    """

    image_type_support: bool = False
    image_metadata: bool = False
    owner_nova: bool = False
    tpm_secret_security: bool = True


@dataclass(slots=True)
class _Group:
    """A group while it is put together; amounts of 0 keep the figures of the flavor out."""

    resources: dict[str, int] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)


def resource_request(
    spec: RequestSpec, options: TraitOptions | None = None, pins_cpus: bool = True
) -> RequestGroups:
    """Return what a request asks of Placement.

    Without pins_cpus VCPU is asked for in place of PCPU: what Nova asks as well, for hosts that
    report no PCPU. Raises ValueError, naming the property, for what a flavor cannot mean.
    """
    options = options or TraitOptions()
    groups = _of_flavor(spec)
    from_flavor = sum(bool(suffix) for suffix in groups)
    main = groups[""]
    main.required.update(of_image(spec))
    if pins_cpus:
        _add_pinned_cpus(main, spec)
    outside = list(_of_ports(spec, options))
    given = {name for each in groups.values() for name in each.resources}
    given |= {name for each in outside for name in each.resources}
    _add_sizes(main, spec, given)
    main.required.update(provider_traits(spec))
    main.resources.update(provider_resources(spec))
    found = [_frozen(suffix, each, spec) for suffix, each in groups.items()]
    found = [each for each in map(_without_zeros, (*found, *outside)) if not _is_empty(each)]
    suffixes = [each.suffix for each in found if each.suffix]
    if len(suffixes) > len({*suffixes}):
        raise ValueError(f"two groups of resources have the name {shown(_repeated(suffixes))}")
    policy = spec.flavor.extra_specs.get("group_policy")
    if policy not in _GROUP_POLICIES:
        # Placement refuses several groups without one, and of ports the flavor cannot know.
        policy = "none" if len(suffixes) > 1 and from_flavor <= 1 else None
    return RequestGroups(
        found,
        policy=policy,
        same_subtree=[sorted(each) for each in spec.request_level_params.same_subtree],
        root_required=_of_root(spec, options),
    )


def pins_all_cpus(spec: RequestSpec) -> bool:
    """Return whether all vCPUs get CPUs of their own, which hosts may report as VCPU or as PCPU."""
    return property_of(spec, "hw:cpu_policy") == "dedicated"


def needs_placement_first(groups: RequestGroups) -> bool:
    """Return whether only Placement can say where a request may go at all.

    That is so for groups of their own, traits, and resources that the host table does not have.
    """
    return bool({*groups.root_required} - _KNOWN_TRAITS) or any(
        each.suffix or each.required or each.forbidden or each.resources.keys() - _KNOWN_RESOURCES
        for each in groups.groups
    )


def is_for_placement(spec: RequestSpec, groups: RequestGroups) -> bool:
    """Return whether Placement alone can judge a request, which PlacementOnly refuses without it.

    Besides what needs_placement_first() these are amounts in place of the flavor's.
    """
    return needs_placement_first(groups) or any(unjudged(spec))


def is_plain(groups: RequestGroups) -> bool:
    """Return whether each host would serve a request from its own provider, room or not."""
    if needs_placement_first(groups) or len(groups.groups) != 1 or groups.same_subtree:
        return False
    (group,) = groups.groups
    return not (PCPU in group.resources or group.member_of or group.forbidden_aggregates)


def _of_flavor(spec: RequestSpec) -> defaultdict[str, _Group]:
    groups: defaultdict[str, _Group] = defaultdict(_Group, {"": _Group()})
    for key, value in spec.flavor.extra_specs.items():
        if (found := _KEY.fullmatch(key)) is None:
            continue
        kind, suffix, name = found.groups(default="")
        group = groups[suffix]
        if kind == "resources":
            group.resources[name] = _amount(key, value)
        elif value in (REQUIRED, FORBIDDEN):
            (group.required if value == REQUIRED else group.forbidden).add(name)
        else:
            raise _malformed(key, value, f"neither {REQUIRED} nor {FORBIDDEN}")
    return groups


def _amount(key: str, text: str) -> int:
    amount = resource_amount(text)
    if amount is None:
        raise _malformed(key, text, "not a whole number of 0 or more")
    return amount


def _malformed(key: str, value: str, why: str) -> ValueError:
    return ValueError(f"{shown(key)} = {shown(value)} of the flavor is {why}")


def _add_pinned_cpus(group: _Group, spec: RequestSpec) -> None:
    """Ask for CPUs of their own for the vCPUs that have a policy for it."""
    policy = property_of(spec, "hw:cpu_policy")
    pinned = None
    if pins_all_cpus(spec):
        pinned = spec.flavor.vcpus
    elif policy == "mixed":
        # The API has worked out from the masks which ones they are.
        cells = spec.numa_topology.cells if spec.numa_topology else []
        pinned = sum(len(each.pcpuset) for each in cells)
        group.resources[VCPU] = spec.flavor.vcpus - pinned
    if pinned is not None:
        emulator = spec.flavor.extra_specs.get("hw:emulator_threads_policy")
        group.resources[PCPU] = pinned + (emulator == "isolate")
    match property_of(spec, "hw:cpu_thread_policy"):
        case "require":
            group.required.add(_HYPERTHREADING)
        case "isolate":
            group.forbidden.add(_HYPERTHREADING)


def _add_sizes(group: _Group, spec: RequestSpec, given: set[str]) -> None:
    """Ask for what the flavor itself has, but for the classes that are given otherwise."""
    if not given & {VCPU, PCPU}:
        group.resources[VCPU] = spec.flavor.vcpus
    if MEMORY_MB not in given:
        group.resources[MEMORY_MB] = spec.flavor.memory_mb
    if DISK_GB not in given:
        group.resources[DISK_GB] = whole_gb(spec.flavor_size[2])


def _of_ports(spec: RequestSpec, options: TraitOptions) -> Iterator[RequestGroup]:
    """Yield the groups of ports, PCI devices and accelerators."""
    devices = {each.request_id for each in spec.devices if each.request_id}
    for each in spec.requested_resources or ():
        if not each.requester_id:
            raise ValueError("a group of requested_resources has no requester_id")
        # The id of a device's group is that of its request, and a number.
        is_device = each.requester_id.rpartition("-")[0] in devices
        owner = {OWNER_NOVA} if is_device and options.owner_nova else set()
        yield _of_port(each, owner)


def _of_port(requested: RequestedResources, more: set[str]) -> RequestGroup:
    return RequestGroup(
        resources=requested.resources,
        suffix=requested.requester_id or "",
        required=sorted(requested.required_traits | more),
        forbidden=sorted(requested.forbidden_traits),
        member_of=requested.aggregates,
        forbidden_aggregates=sorted(requested.forbidden_aggregates),
    )


def _frozen(suffix: str, group: _Group, spec: RequestSpec) -> RequestGroup:
    """Return the group; that without a suffix has the aggregates of the destination."""
    destination = None if suffix else spec.requested_destination
    return RequestGroup(
        resources=group.resources,
        suffix=suffix,
        required=sorted(group.required),
        forbidden=sorted(group.forbidden),
        member_of=[each.split(",") for each in (destination and destination.aggregates) or ()],
        forbidden_aggregates=sorted((destination and destination.forbidden_aggregates) or ()),
    )


def _without_zeros(group: RequestGroup) -> RequestGroup:
    return replace(group, resources={name: each for name, each in group.resources.items() if each})


def _is_empty(group: RequestGroup) -> bool:
    return not (
        group.resources
        or group.required
        or group.forbidden
        or group.member_of
        or group.forbidden_aggregates
    )


def _repeated(names: list[str]) -> str:
    return next(each for each in names if names.count(each) > 1)


def _of_root(spec: RequestSpec, options: TraitOptions) -> list[str]:
    """Return the traits of the host itself, those that are forbidden after a !."""
    params = spec.request_level_params
    required = {*params.root_required, *root_traits(spec)}
    if options.tpm_secret_security:
        required.update(tpm_secret_trait(spec))
    if options.image_type_support:
        required.update(image_type_trait(spec))
    if options.image_metadata:
        required.update(image_traits(spec))
    if options.owner_nova:
        required.add(OWNER_NOVA)
    return [*sorted(required), *(f"!{each}" for each in sorted({*params.root_forbidden, DISABLED}))]
