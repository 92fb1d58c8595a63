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
from scheduler.objects.image_meta import ImageMeta, ImageMetaProps
from scheduler.objects.instance_group import APART, POLICIES, InstanceGroup
from scheduler.objects.pci import InstancePCIRequest, InstancePCIRequests
from scheduler.objects.request_spec import RequestSpec

_FORM = "[NAME=]VCPUS,RAM_MB,DISK_GB"
_PAIRS = {
    "--extra-spec": "Of every flavor. NUMA cells are made from hw:numa_nodes and the like.",
    "--image-property": "Of the image; NUMA cells are not made from these.",
    "--hint": "A scheduler hint, such as group=NAME.",
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
    """Add the arguments that say what instances are wanted."""
    what = parser.add_argument_group("what instances ask for")
    what.add_argument(
        "--flavor",
        type=flavor,
        action="append",
        required=True,
        metavar=_FORM,
        help="Their size; may be repeated. What goes by the flavor's name needs the name.",
    )
    for option, about in _PAIRS.items():
        what.add_argument(option, type=pair, action="append", default=[], metavar="K=V", help=about)
    what.add_argument(
        "--pci-device",
        type=device,
        action="append",
        default=[],
        metavar="VENDOR:PRODUCT[:COUNT]",
        help="PCI devices of each instance.",
    )
    what.add_argument("--project", metavar="ID", help="Project that the instances belong to.")
    _add_places(parser)
    checked_together(parser, _problem)


def _add_places(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where they may be")
    where.add_argument(
        "--aggregate",
        action="append",
        default=[],
        metavar="NAME",
        help="Only its hosts: name, id or uuid. Repeated, hosts must be in all of them.",
    )
    where.add_argument("--availability-zone", metavar="ZONE")
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
    hints: dict[str, list[str]] = {}
    for key, value in asked.hint:
        hints.setdefault(key, []).append(value)
    uuids = [find(aggregates, text).uuid for text in asked.aggregate]
    properties = ImageMetaProps(dict(asked.image_property))
    rules = {} if asked.max_per_host is None else {"max_server_per_host": asked.max_per_host}
    whole = RequestSpec(
        flavor=asked.flavor[0],
        image=ImageMeta(properties=properties) if asked.image_property else None,
        project_id=asked.project,
        availability_zone=asked.availability_zone,
        scheduler_hints=hints,
        requested_destination=Destination(aggregates=uuids) if uuids else None,
        instance_group=InstanceGroup(policy=asked.group_policy, rules=rules)
        if asked.group_policy
        else None,
        pci_requests=InstancePCIRequests(requests=asked.pci_device) if asked.pci_device else None,
    )
    specs = dict(asked.extra_spec)
    return [of_flavor(whole, replace(each, extra_specs=specs)) for each in asked.flavor]


def of_flavor(spec: RequestSpec, found: Flavor) -> RequestSpec:
    """Return the same request for a flavor, with the NUMA cells that it asks for."""
    return replace(spec, flavor=found, numa_topology=guest_cells.cells_of(found))
