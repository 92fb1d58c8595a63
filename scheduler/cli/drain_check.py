# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that checks whether hosts can be emptied, and where their instances would go."""

from collections.abc import Collection, Iterable
from typing import Any

import sqlalchemy as sa

from inventory import instances, server_groups, services
from inventory.claims import existing
from inventory.errors import NotFound, nearest
from scheduler.analysis.drain import (
    SIZE,
    InstanceRequest,
    InstanceRows,
    Move,
    instances_to_move,
    keep_zone,
    plan_drain,
)
from scheduler.cli.arguments import add_flag, add_host
from scheduler.cli.base import ReportCommand, Table
from scheduler.cli.live_table import NOT_SEEN, LiveHosts, live_hosts, progress
from scheduler.hosts.table import HostTable
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import RequestSpec

COLUMNS = ("Instance", "From", "vCPUs", "Memory MB", "Disk MB", "To", "Decided By", "Notes")
FITS, TOGETHER = "fits", "only together"
EVACUATED = "only by evacuation"
NO_LIVE_MIGRATION = (
    "Instances on a host that is down cannot be live-migrated. They can be evacuated, which is to"
    " rebuild them elsewhere: what is on their local disks is lost, unless these are shared."
)
UNKNOWN = (
    "Extra specs of flavors, scheduler hints and the requested zone are not known. An instance"
    " without claimed NUMA cells or PCI devices is assumed to need none."
)


class DrainCheck(ReportCommand):
    __doc__ = f"""Check whether hosts can be emptied, and where each of their instances would go.

    Instances are decided one by one, the largest first, by memory, vCPUs and disk: it fits on the
    fewest hosts. Each takes its resources from those after it, and none goes to a host that is to
    be emptied as well. The exit status is 0 if there is a host for every instance, and a request
    can move each of them by itself, else 1. {NO_LIVE_MIGRATION} {UNKNOWN}
    {NOT_SEEN}
    """

    def add_arguments(self, parser: Any) -> None:
        add_host(parser, nargs="+")
        what = "Keep every instance in the availability zone of its host."
        add_flag(parser, "--keep-zone", what)

    def take_action(self, args: Any) -> int:
        with live_hosts(self.app) as live:
            document = self._check(live, args)
        self.report(args, _sections(document), document)
        return 0 if document["fits"] else 1

    def _check(self, live: LiveHosts, args: Any) -> dict[str, Any]:
        # Without extra specs, no instance asks how far its host is to be trusted.
        table = live.table(RequestSpec(Flavor(0, 0, 0)))
        rows = _rows_of(table, args.host)
        names = sorted({table.get(row, "host") for row in rows})
        ids = [table.get(row, "node_id") for row in rows]
        agents = live.database.read(lambda c: services.all_live(c, services.COMPUTE[0]))
        up = {row.host for row in agents if services.is_up(row, self.liveness_limit)}
        stored = live.database.read(lambda connection: _instance_rows(connection, names, ids))
        found = list(instances_to_move(table, rows, stored))
        if args.keep_zone:
            keep_zone(table, found, self.default_zone)
        with progress(self.app, f"of {len(found)} instances decided") as show:
            going = [each.spec for each in found if each.spec]
            moves = plan_drain(table, going, names, live.simulator(show))
        for each in found:
            if each.spec and each.host not in up:
                each.notes.append(EVACUATED)
        documents = _documents(found, {each.spec.instance_uuid: each for each in moves})
        return {
            "hosts": names,
            "down": [name for name in names if name not in up],
            "fits": all(each["status"] == FITS for each in documents),
            "instances": documents,
            "unknown": UNKNOWN,
            "warnings": list(table.warnings),
        }


def _rows_of(hosts: HostTable, names: Collection[str]) -> list[int]:
    """Return the rows of hosts by name in any letter case; raise NotFound with similar names."""
    known = {hosts.get(row, "host") for row in hosts.rows()}
    found: set[int] = set()
    for name in names:
        rows = hosts.rows_of_host(name) or hosts.rows_of_host(name, any_case=True)
        found.update(rows)
        if not rows:
            hint = nearest(name, known, "see 'host list'")
            raise NotFound(f"no host {name!r} has reported; {hint}")
    return sorted(found)


def _instance_rows(
    connection: sa.Connection, hosts: Collection[str], node_ids: Collection[int]
) -> InstanceRows:
    """Return what the database has about the instances on hosts and nodes."""
    found = {row.uuid: row for row in instances.of_hosts(connection, hosts)}
    claimed, _ = existing.on_nodes(connection, node_ids)
    claims = {(row.instance_uuid, row.compute_node_id): row for row in claimed}
    uuids = found.keys() | {uuid for uuid, _ in claims}
    groups = server_groups.of_instances(connection, uuids)
    return InstanceRows(found, claims, groups, existing.states(connection, uuids))


def _documents(
    found: Iterable[InstanceRequest], moves: dict[str | None, Move]
) -> list[dict[str, Any]]:
    """Return the instances in the order in which they were decided, others last."""
    order = {uuid: number for number, uuid in enumerate(moves)}
    ordered = sorted(found, key=lambda each: (order.get(each.uuid, len(order)), each.uuid))
    return [_document(each, moves.get(each.uuid)) for each in ordered]


def _document(found: InstanceRequest, move: Move | None) -> dict[str, Any]:
    target = move.target if move else None
    notes, status = [*found.notes], FITS if found.new_host or target else "does not fit"
    if found.new_host:
        notes.append("already on this host, or claimed for it")
    if move and move.only_together:
        notes.append("a request to move it alone is refused while other members stay")
        status = TOGETHER
    return {
        "instance": found.uuid,
        "from": found.host,
        "from_node": found.node,
        **{name: getattr(found.spec, name, None) for name in ("vcpus", "memory_mb", "disk_mb")},
        "to": target.host if target else found.new_host,
        "to_node": target.nodename if target else None,
        "status": status,
        "decided_by": found.decided_by,
        "notes": notes,
        "limits": dict(move.limits) if move else {},
        "nearest": [
            {"host": why.host, "node": why.nodename, "filter": why.filter, "reason": why.reason}
            for why in (move.nearest if move else ())
        ],
    }


def _sections(document: dict[str, Any]) -> list[str | Table]:
    found = document["instances"]
    left = [each for each in found if not each["to"]]
    names = ", ".join(document["hosts"])
    if not found:
        return [f"{names}: no instances to move"]
    together = sum(each["status"] == TOGETHER for each in found)
    evacuated = sum(EVACUATED in each["notes"] for each in found)
    verdict = f"{len(left)} of them cannot go" if left else "all of them can go"
    verdict += f", {together} only together with others" if together else ""
    verdict += f", {evacuated} {EVACUATED}" if evacuated else ""
    sections: list[str | Table] = [f"{names}: {len(found)} instances, {verdict}"]
    if evacuated:
        sections.append(f"Down: {', '.join(document['down'])}. {NO_LIVE_MIGRATION}")
    sections += [UNKNOWN, Table("", COLUMNS, [_row(each) for each in found])]
    for each in left:
        limits = ", ".join(f"{name} {count}" for name, count in each["limits"].items())
        sections.append(
            f"{each['instance']}: hosts by the first filter that refuses it: {limits or 'no hosts'}"
        )
    reasons = [
        (each["instance"], why["host"], why["filter"], why["reason"])
        for each in left
        for why in each["nearest"]
    ]
    columns = ("Instance", "Nearest Host", "Filter", "Reason")
    sections.append(Table("The hosts that come nearest:", columns, reasons))
    return [*sections, *(f"Warning: {text}" for text in document["warnings"])]


def _row(each: dict[str, Any]) -> tuple[Any, ...]:
    size = [each[name] for name in ("vcpus", "memory_mb", "disk_mb")]
    facts = ", ".join(each["decided_by"])
    return (
        each["instance"],
        each["from"],
        *("" if amount is None else amount for amount in size),
        f"{each['to']}, {TOGETHER}" if each["status"] == TOGETHER else each["to"] or each["status"],
        f"{facts} only" if each["decided_by"] == SIZE else facts,
        "; ".join(each["notes"]),
    )
