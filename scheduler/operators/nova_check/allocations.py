# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Check Placement, its providers, and whether what it has given away is there in Nova."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing

from oslo_config import cfg

from inventory.errors import counted, some
from inventory.nova.allocation_audit import Disagreement, Kind, NovaRecords, PlacementRecords, audit
from inventory.nova.cells import CellTemplateError, read_mappings
from inventory.nova.database import NovaDatabase, NovaDatabaseUnavailable
from inventory.nova.inventory_audit import inventory_differences
from inventory.nova.placement import Inventory, PlacementClient
from inventory.nova.placement_errors import PlacementError
from inventory.nova.placement_session import MICROVERSION, is_configured
from inventory.nova.records import read_records
from scheduler.operators.nova_check.cloud import ERROR, OK, WARNING, Finding, cell_access

SUBJECT = "Placement"
NOT_SET = (
    "section [placement] is not configured: Placement is not checked, and instances that are"
    " placed get no allocations there"
)
_INVENTORY_CURE = (
    "nothing if Placement is right: the agents follow it where they have section [placement]; else"
    " openstack resource provider inventory set --amend"
)
# In a warning one example stands for all of a kind.
_KINDS = {
    Kind.MISSING: "have no allocation",
    Kind.ELSEWHERE: "have their allocation on another node",
    Kind.SIZE: "have an allocation of another size",
    Kind.LEFT_OVER: "have an allocation where they are not",
}


def check(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    """Yield what is found. Databases that cannot be read are left to the check of the cloud."""
    if not is_configured(conf):
        yield Finding(WARNING, SUBJECT, NOT_SET, "copy the section from the nova.conf of Nova")
        return
    try:
        with closing(PlacementClient(conf)) as client:
            versions = client.version()
            if not versions.is_enough:
                text = f"its newest microversion is {versions.maximum}, {MICROVERSION} is needed"
                yield Finding(ERROR, SUBJECT, text, "upgrade Placement")
                return
            placement = client.records()
            inventories = client.inventories_of([*placement.roots])
    except PlacementError as error:
        yield Finding(ERROR, SUBJECT, error.text, error.cure)
        return
    yield Finding(OK, SUBJECT, f"answers, with {counted(len(placement.allocations), 'provider')}")
    if conf.api_database.connection:
        nova = _nova_records(conf)
        yield from _compare(nova, placement)
        yield _inventories(nova, inventories)


def _nova_records(conf: cfg.ConfigOpts) -> NovaRecords:
    """Return what those cells say that can be read."""
    access, cells = cell_access(conf), []
    try:
        with ExitStack() as opened:
            api = NovaDatabase("nova_api", conf.api_database.connection)
            opened.callback(api.close)
            mapped = read_mappings(api).cells
            for cell in mapped:
                try:
                    database = NovaDatabase(cell.name, access.database_url(cell))
                    opened.callback(database.close)
                    database.rows("compute_nodes", "uuid")
                except (CellTemplateError, NovaDatabaseUnavailable):
                    continue
                cells.append(database)
            return read_records(api, cells, is_complete=len(cells) == len(mapped))
    except NovaDatabaseUnavailable:
        return NovaRecords({}, [], is_complete=False)


def _compare(nova: NovaRecords, placement: PlacementRecords) -> Iterator[Finding]:
    unknown = sorted(name for uuid, name in nova.nodes.items() if uuid not in placement.roots)
    if unknown:
        text = f"not known there: {counted(len(unknown), 'compute node')} ({some(unknown)})"
        cure = "restart nova-compute on these hosts, which reports the nodes"
        yield Finding(ERROR, "providers", text, cure)
    found = audit(nova, placement)
    by_cause: Mapping[tuple[Kind, bool], list[Disagreement]] = defaultdict(list)
    for each in found:
        by_cause[each.kind, each.under_way].append(each)
    for (kind, under_way), those in by_cause.items():
        yield _disagreement(kind, under_way, those)
    if not found:
        instances, nodes = len(nova.instances), len(nova.nodes)
        text = f"agree with {counted(instances, 'instance')} on {counted(nodes, 'node')}"
        yield Finding(OK, "allocations", text)


def _inventories(nova: NovaRecords, inventories: Mapping[str, Mapping[str, Inventory]]) -> Finding:
    found = sorted(inventory_differences(nova, inventories))
    if not found:
        return Finding(OK, "inventories", f"agree with {counted(len(nova.nodes), 'compute node')}")
    text = (
        "the inventories of Placement limit what is placed, and compute_nodes has other values"
        f" for {counted(len(found), 'node')}: {some(found)}"
    )
    return Finding(WARNING, "inventories", text, _INVENTORY_CURE)


def _disagreement(kind: Kind, under_way: bool, found: Sequence[Disagreement]) -> Finding:
    first = found[0]
    text = f"{counted(len(found), 'consumer')}, whose instances {_KINDS[kind]}: {first.text}"
    return Finding(WARNING if under_way else ERROR, "allocations", text, first.cure)
