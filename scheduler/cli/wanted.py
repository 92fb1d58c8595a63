# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What instances are wanted, on a command line, and the requests for them."""

import argparse
from dataclasses import replace
from typing import Any

from inventory.aggregates import AggregateRecord, find
from scheduler.cli import guest_cells
from scheduler.cli.base import checked_together, pair, positive
from scheduler.decision.largest import CEILING
from scheduler.objects.destination import Destination
from scheduler.objects.flavor import Flavor
from scheduler.objects.image_meta import ImageMeta
from scheduler.objects.instance_group import APART, POLICIES, InstanceGroup
from scheduler.objects.kinds import read_under
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.request_spec import RequestSpec
from scheduler.rpc.codec.image_properties import IMAGE_PROPERTIES

_FORM = "[NAME=]VCPUS,RAM_MB,DISK_GB"
_PAIRS = {
    "--extra-spec": "Extra spec of the flavor. NUMA cells and pinned CPUs are asked for by"
    " hw:numa_nodes, hw:cpu_policy and the like.",
    "--image-property": "Property of the image. NUMA cells are not made from properties.",
    "--hint": "Scheduler hint, such as group=NAME.",
}


def flavor(text: str) -> Flavor:
    """Return a flavor of the form [NAME=]VCPUS,RAM_MB,DISK_GB, for argparse."""
    name, _, figures = text.rpartition("=")
    try:
        vcpus, memory_mb, root_gb = map(int, figures.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form {_FORM}") from None
    if not all(0 <= each <= CEILING for each in (vcpus, memory_mb, root_gb)):
        raise argparse.ArgumentTypeError(f"{text!r}: a size is below 0 or above {CEILING}")
    if vcpus == memory_mb == root_gb == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} takes nothing of a host, so there is room for any number"
        )
    return Flavor(vcpus, memory_mb, root_gb, name=name or None)


def sized(found: Flavor) -> str:
    """Return a flavor in the form in which it is given."""
    prefix = f"{found.name}=" if found.name else ""
    return f"{prefix}{found.vcpus},{found.memory_mb},{found.root_gb}"


def device(text: str) -> InstancePCIRequest:
    """Return devices of the form VENDOR:PRODUCT[:COUNT], for argparse."""
    vendor, _, rest = text.partition(":")
    product, _, count = rest.partition(":")
    if not vendor or not product or not (count or "1").isdecimal() or count == "0":
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form VENDOR:PRODUCT[:COUNT]")
    return InstancePCIRequest(int(count or 1), [{"vendor_id": vendor, "product_id": product}])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what instances are wanted, of which flavors and where."""
    what = parser.add_argument_group("what instances ask for")
    what.add_argument(
        "--flavor",
        type=flavor,
        action="append",
        required=True,
        metavar=_FORM,
        help="Size of the instances; may be repeated. What goes by the flavor's name needs it.",
    )
    add_conditions(what)
    _add_places(parser)
    checked_together(parser, _problem)


def add_conditions(group: Any) -> None:
    """Add the arguments for what instances ask of a host besides their size."""
    for option, about in _PAIRS.items():
        group.add_argument(
            option,
            type=pair,
            action="append",
            default=[],
            metavar="K=V",
            help=f"{about} May be repeated.",
        )
    group.add_argument(
        "--pci-device",
        type=device,
        action="append",
        default=[],
        metavar="VENDOR:PRODUCT[:COUNT]",
        help="PCI devices of each instance.",
    )
    group.add_argument("--project", metavar="ID", help="Project that the instances belong to.")


def add_zone(group: Any) -> None:
    """Add the argument for the availability zone of instances."""
    group.add_argument(
        "--availability-zone",
        metavar="ZONE",
        help="Availability zone of the instances (any).",
    )


def _add_places(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where they may be")
    where.add_argument(
        "--aggregate",
        action="append",
        default=[],
        metavar="NAME",
        help="Only its hosts: name, id or uuid. Repeated, hosts must be in all of them.",
    )
    add_zone(where)
    where.add_argument(
        "--group-policy",
        choices=POLICIES,
        help="Count as if all instances were the members of one new server group.",
    )
    where.add_argument(
        "--max-per-host",
        type=positive,
        metavar="N",
        help=f"With --group-policy {APART}, how many members one host may have (1).",
    )


def _problem(asked: argparse.Namespace) -> str | None:
    """Return what is wrong with arguments that do not go together."""
    if asked.max_per_host is not None and asked.group_policy != APART:
        return f"argument --max-per-host: is for --group-policy {APART} only"
    if asked.group_policy and any(key == "group" for key, _ in asked.hint):
        return "argument --group-policy: is for a new group; the hint names one that exists"
    return None


def requests(asked: Any, aggregates: list[AggregateRecord]) -> list[RequestSpec]:
    """Return a request for each flavor. One group that is asked for is the same in all of them.

    Raises Unknown and Malformed.
    """
    uuids = [find(aggregates, text).uuid for text in asked.aggregate]
    rules = {} if asked.max_per_host is None else {"max_server_per_host": asked.max_per_host}
    destination = Destination(aggregates=uuids) if uuids else None
    group = InstanceGroup(policy=asked.group_policy, rules=rules) if asked.group_policy else None
    return [
        replace(request(asked, each), requested_destination=destination, instance_group=group)
        for each in asked.flavor
    ]


def request(asked: Any, size: Flavor) -> RequestSpec:
    """Return the request for one instance of a size, of the arguments of add_conditions().

    Raises Malformed for extra specs and properties of images that are not understood.
    """
    hints: dict[str, list[str]] = {}
    for key, value in asked.hint:
        hints.setdefault(key, []).append(value)
    # As callers of schedulers write them, by the names of Glance as well.
    properties = read_under("image property", IMAGE_PROPERTIES.read, dict(asked.image_property))
    whole = RequestSpec(
        flavor=size,
        image=ImageMeta(properties=properties) if asked.image_property else None,
        project_id=asked.project,
        availability_zone=asked.availability_zone,
        scheduler_hints=hints,
        pci_requests=InstancePCIRequests(requests=asked.pci_device) if asked.pci_device else None,
    )
    return of_flavor(whole, replace(size, extra_specs=dict(asked.extra_spec)))


def of_flavor(spec: RequestSpec, found: Flavor) -> RequestSpec:
    """Return the same request for a flavor, with the NUMA cells that it asks for."""
    return replace(spec, flavor=found, numa_topology=guest_cells.cells_of(found))
