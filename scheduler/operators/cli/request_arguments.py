# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments that describe instances, and the requests that they make."""

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inventory.errors import nearest
from inventory.objects.field_types import read_under
from inventory.objects.instance_group import ANTI_AFFINITY, POLICIES, InstanceGroup
from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.flavor_and_image import Flavor, ImageMeta
from scheduler.objects.numa_extra_specs import numa_topology
from scheduler.objects.request_spec import Destination, RequestSpec
from scheduler.operators.capacity import LARGEST_SIZE
from scheduler.operators.cli.arguments import (
    add_named,
    add_repeatable,
    check_combination,
    complete,
    key_value,
    not_empty,
    not_negative,
    positive,
)
from scheduler.wire.image_properties import IMAGE_PROPERTIES, NAMES, is_known

if TYPE_CHECKING:
    from inventory.aggregates import AggregateRecord

_FLAVOR = "[NAME=]VCPUS,RAM_MB,DISK_GB"
# Of a flavor that is not given as one: type, default, unit and words of each option.
_SIZES: dict[str, tuple[Any, int, str, str]] = {
    "--vcpus": (positive, 1, "N", "Number of virtual CPUs"),
    "--memory-mb": (positive, 512, "MB", "Memory in MB"),
    "--disk-gb": (not_negative, 0, "GB", "Root disk in GB"),
}
# What of an image makes cells and what of a flavor makes devices is read by nova-api alone.
_OF_CELLS = ("hw_numa_", "hw_cpu_policy", "hw_cpu_thread_policy", "hw_mem_page_size")
_ALIAS = "pci_passthrough:alias"


def extra_spec(text: str) -> tuple[str, str]:
    """Return (key, value) of an extra spec that this command can follow, for argparse."""
    key, value = key_value(text)
    if key == _ALIAS:
        raise argparse.ArgumentTypeError(
            f"{key} names an alias of nova-api's configuration: give --pci-device instead"
        )
    return key, value


def image_property(text: str) -> tuple[str, str]:
    """Return (name, value) of an image property that has a meaning, for argparse."""
    name, value = key_value(text)
    if not is_known(name):
        hint = nearest(name, NAMES, "leave it out")
        raise argparse.ArgumentTypeError(
            f"{name!r} is no image property that Nova knows, so no scheduler gets it; {hint}"
        )
    if name.startswith(_OF_CELLS):
        raise argparse.ArgumentTypeError(
            f"{name} is not read of images here: give --extra-spec, such as"
            f" {name.replace('_', ':', 1)}=..."
        )
    if name.startswith("trait:") and value != "required":
        raise argparse.ArgumentTypeError(
            f"{text!r}: the value of a trait of an image is 'required'"
        )
    return name, value


_PAIRS: dict[str, tuple[Callable[[str], tuple[str, str]], str]] = {
    "--extra-spec": (
        extra_spec,
        "Extra spec of the flavor, such as hw:numa_nodes=2 or hw:cpu_policy=dedicated",
    ),
    "--image-property": (
        image_property,
        "Property of the image that Nova knows; NUMA cells come from extra specs only",
    ),
    "--hint": (key_value, "Scheduler hint, such as group=NAME"),
}


def flavor(text: str) -> Flavor:
    """Return a flavor of the form [NAME=]VCPUS,RAM_MB,DISK_GB, for argparse."""
    name, equals, figures = text.rpartition("=")
    if equals and not name:
        raise argparse.ArgumentTypeError(f"{text!r} has no name before the '='; {_FLAVOR} is meant")
    try:
        vcpus, memory_mb, root_gb = map(int, figures.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {_FLAVOR}") from None
    if not all(0 <= each <= LARGEST_SIZE for each in (vcpus, memory_mb, root_gb)):
        raise argparse.ArgumentTypeError(f"{text!r}: a size is below 0 or above {LARGEST_SIZE}")
    if vcpus == memory_mb == root_gb == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} uses nothing of a host, so any number of instances fits"
        )
    return Flavor(vcpus, memory_mb, root_gb, name=name or None)


def format_flavor(found: Flavor) -> str:
    """Return a flavor in the form in which it is given."""
    prefix = f"{found.name}=" if found.name else ""
    return f"{prefix}{found.vcpus},{found.memory_mb},{found.root_gb}"


def device(text: str) -> InstancePCIRequest:
    """Return devices of the form VENDOR:PRODUCT[:COUNT], for argparse."""
    vendor, _, rest = text.partition(":")
    product, colon, count = rest.partition(":")
    count = count if colon else "1"
    if not vendor or not product or not count.isdecimal() or count == "0":
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form VENDOR:PRODUCT[:COUNT]")
    return InstancePCIRequest(int(count), [{"vendor_id": vendor, "product_id": product}])


def add_flavors(parser: Any) -> None:
    """Add the arguments for instances of several flavors, and for the hosts that they may use."""
    where = add_request(parser)
    what = "Policy of a new server group, of which all instances are assumed to be members."
    where.add_argument("--group-policy", choices=POLICIES, help=what)
    what = (
        f"Maximum number of members on one host, with --group-policy {ANTI_AFFINITY} (default: 1)."
    )
    where.add_argument("--max-per-host", type=positive, metavar="N", help=what)
    check_combination(parser, _wrong_group)


def add_request(parser: Any) -> Any:
    """Add the arguments that say a request, the same for all commands; return their last group.

    args.flavor has all flavors, also one that is given as --vcpus, --memory-mb and --disk-gb.
    """
    what = parser.add_argument_group("requirements of the instances")
    about = "Flavor of the instances, with a name if filters or weighers use the names of flavors"
    add_repeatable(what, "--flavor", type=flavor, metavar=_FLAVOR, what=about)
    for option, (number, default, metavar, about) in _SIZES.items():
        help_text = f"{about}, in place of --flavor (default: {default})."
        what.add_argument(option, type=number, metavar=metavar, help=help_text)
    _add_requirements(what)
    where = parser.add_argument_group("hosts that the instances may use")
    about = "Name, id or uuid of an aggregate that the hosts must be in"
    complete(add_repeatable(where, "--aggregate", metavar="NAME", what=about), "aggregates")
    help_text = "Availability zone of the instances (default: any)."
    add_named(where, "--availability-zone", "zones", help_text, metavar="ZONE")
    check_combination(parser, _repeated_key)
    check_combination(parser, _read_size)
    return where


def _add_requirements(group: Any) -> None:
    for option, (pair, what) in _PAIRS.items():
        added = add_repeatable(group, option, type=pair, metavar="K=V", what=what)
        if option == "--hint":
            complete(added, "hints")
    what, metavar = "PCI devices of each instance", "VENDOR:PRODUCT[:COUNT]"
    add_repeatable(group, "--pci-device", type=device, metavar=metavar, what=what)
    about = "Project of the instances."
    add_named(group, "--project", "projects", about, type=not_empty, metavar="ID")


def _repeated_key(args: argparse.Namespace) -> str | None:
    for option in ("--extra-spec", "--image-property"):
        named = Counter(key for key, _ in getattr(args, _attribute(option)))
        for key, count in named.items():
            if count > 1:
                return (
                    f"argument {option}: {key} is given {count} times, but can have one value only"
                )
    return None


def _read_size(args: argparse.Namespace) -> str | None:
    """Make a flavor of the options for its sizes; return what is wrong with them."""
    given = [option for option in _SIZES if getattr(args, _attribute(option)) is not None]
    if not given:
        return None
    if args.flavor:
        return f"argument {given[0]}: cannot be used with --flavor, which it replaces"
    args.flavor = [
        usual_flavor(**{_attribute(option): getattr(args, _attribute(option)) for option in given})
    ]
    return None


def usual_flavor(vcpus: int = 1, memory_mb: int = 512, disk_gb: int = 0) -> Flavor:
    """Return a flavor of these sizes, by default a small one."""
    return Flavor(vcpus, memory_mb, disk_gb)


def _attribute(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _wrong_group(args: argparse.Namespace) -> str | None:
    if args.max_per_host is not None and args.group_policy != ANTI_AFFINITY:
        return f"argument --max-per-host: is for --group-policy {ANTI_AFFINITY} only"
    if args.group_policy and any(key == "group" for key, _ in args.hint):
        return (
            "argument --group-policy: is for a new group, but the scheduler hint names an"
            " existing group"
        )
    return None


def request_specs(args: Any, aggregates: "list[AggregateRecord]") -> list[RequestSpec]:
    """Return a request for each flavor, all of them with the same new server group.

    Raise NotFound and Malformed.
    """
    policy, most = args.group_policy, args.max_per_host
    rules = {} if most is None else {"max_server_per_host": most}
    where = {
        "requested_destination": destination(args, aggregates),
        "instance_group": InstanceGroup(policy=policy, rules=rules) if policy else None,
    }
    return [request_spec(args, each, **where) for each in args.flavor]


def destination(args: Any, aggregates: "list[AggregateRecord]") -> Destination | None:
    """Return the destination that --aggregate asks for, if it does; raise NotFound."""
    from inventory.aggregates import find

    uuids = [find(aggregates, text).uuid for text in args.aggregate]
    return Destination(aggregates=uuids) if uuids else None


def request_spec(args: Any, size: Flavor, **fields: Any) -> RequestSpec:
    """Return the request for one instance of a size, with further fields of a RequestSpec.

    Raise Malformed for extra specs and image properties that are wrong or not supported.
    """
    hints: dict[str, list[str]] = {}
    for key, value in args.hint:
        hints.setdefault(key, []).append(value)
    # As callers of schedulers write them, by the names of Glance as well.
    image = dict(args.image_property)
    properties = read_under("image property", IMAGE_PROPERTIES.read, image)
    devices = args.pci_device
    spec = RequestSpec(
        size,
        image=ImageMeta(properties=properties) if image else None,
        project_id=args.project,
        availability_zone=args.availability_zone,
        scheduler_hints=hints,
        pci_requests=InstancePCIRequests(requests=devices) if devices else None,
        **fields,
    )
    return with_flavor(spec, replace(size, extra_specs=dict(args.extra_spec)))


def with_flavor(spec: RequestSpec, size: Flavor) -> RequestSpec:
    """Return a request for another flavor, with the NUMA cells that it asks for."""
    return replace(spec, flavor=size, numa_topology=numa_topology(size))
