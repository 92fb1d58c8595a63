# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that says whether hosts can be emptied, and where their instances would go."""

from typing import Any

from scheduler.cli import leaving
from scheduler.cli.base import conf_of, limit_of
from scheduler.cli.current_hosts import NOT_SEEN, current_hosts, progress
from scheduler.cli.leaving import Known
from scheduler.cli.telling import Table, TellingCommand
from scheduler.decision.draining import Move, drained
from scheduler.objects.flavor import Flavor
from scheduler.objects.request_spec import RequestSpec

COLUMNS = ("Instance", "From", "vCPUs", "Memory MB", "Disk MB", "To", "Decided By", "Notes")
NEAREST = ("Instance", "Nearest Host", "Filter", "Reason")
FITS, TOGETHER = "fits", "only together"
EVACUATED = "only by evacuation"
NO_LIVE_MIGRATION = (
    "Instances on a host that is down cannot be live-migrated. They can be evacuated, which is to"
    " rebuild them elsewhere: what is on their local disks is lost, unless these are shared."
)
UNKNOWN = (
    "Nothing is known of the extra specs of flavors, of scheduler hints, nor of the zone that was"
    " asked for. An instance without claimed NUMA cells or PCI devices is taken to need none."
)


class DrainCheck(TellingCommand):
    __doc__ = f"""Say whether hosts can be emptied, and where each of their instances would go.

    Decided for the largest instance first, by memory, vCPUs and disk: it fits on the fewest hosts.
    Each takes its room, so that the next one does not find it, and none goes to a host that is to
    be emptied as well. The exit status is 0 if there is a place for all of them, to which a request
    can take each by itself, else 1. {NO_LIVE_MIGRATION} {UNKNOWN}
    {NOT_SEEN}
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", nargs="+", help="Name of a host, as host list shows it.")
        parser.add_argument(
            "--keep-zone",
            action="store_true",
            help="Let every instance stay in the availability zone that its host is in.",
        )
        return parser

    def take_action(self, parsed_args: Any) -> int:
        with current_hosts(self.app) as hosts:
            # Whom extra specs are not known of, nobody asks how far hosts are to be trusted.
            table = hosts.table(RequestSpec(Flavor(0, 0, 0)))
            rows = leaving.rows_of(table, parsed_args.host)
            names = sorted({table.get(row, "host") for row in rows})
            down = leaving.hosts_down(hosts, names, limit_of(self.app))
            known = leaving.known(hosts, table, rows)
            if parsed_args.keep_zone:
                leaving.keep_zone(table, known, conf_of(self.app).default_availability_zone)
            with progress(self.app, f"of {len(known)} instances decided") as tell:
                going = [each.leaving for each in known if each.leaving]
                found = drained(table, going, names, hosts.means(tell))
            warnings = list(table.warnings)
        moves = {each.leaving.uuid: each for each in found}
        for each in known:
            if each.leaving and each.host in down:
                each.notes.append(EVACUATED)
        documents = [_document(each, moves.get(each.uuid)) for each in _in_order(known, moves)]
        fits = all(each["status"] == FITS for each in documents)
        document = {
            "hosts": names,
            "down": down,
            "fits": fits,
            "instances": documents,
            "unknown": UNKNOWN,
            "warnings": warnings,
        }
        self.tell(parsed_args, _story(document), document)
        return 0 if fits else 1


def _in_order(known: list[Known], moves: dict[str, Move]) -> list[Known]:
    """Return instances in the order in which they were decided, others last."""
    order = {uuid: place for place, uuid in enumerate(moves)}
    return sorted(known, key=lambda each: (order.get(each.uuid, len(order)), each.uuid))


def _document(known: Known, move: Move | None) -> dict[str, Any]:
    spec = known.leaving.spec if known.leaving else None
    target = move.target if move else None
    notes = [*known.notes]
    if known.already:
        notes.append("is there, or on its way there, already")
    if move and move.only_together:
        notes.append("a request to move it alone is refused while other members stay")
    return {
        "instance": known.uuid,
        "from": known.host,
        "from_node": known.node,
        "vcpus": spec.vcpus if spec else None,
        "memory_mb": spec.memory_mb if spec else None,
        "disk_mb": spec.disk_mb if spec else None,
        "to": target.host if target else known.already,
        "to_node": target.nodename if target else None,
        "status": _status(known, move),
        "decided_by": known.decided_by,
        "notes": notes,
        "limits": dict(move.limits) if move else {},
        "nearest": [
            {"host": why.host, "node": why.nodename, "filter": why.filter, "reason": why.reason}
            for why in (move.nearest if move else ())
        ],
    }


def _status(known: Known, move: Move | None) -> str:
    if move and move.only_together:
        return TOGETHER
    return FITS if known.already or (move and move.target) else "does not fit"


def _story(document: dict[str, Any]) -> list[str | Table]:
    found = document["instances"]
    left = [each for each in found if not each["to"]]
    names = ", ".join(document["hosts"])
    if not found:
        return [f"{names}: no instances to move"]
    bound = sum(each["status"] == TOGETHER for each in found)
    verdict = f"{len(left)} of them cannot go" if left else "all of them can go"
    verdict += f", {bound} only together with others" if bound else ""
    evacuated = sum(EVACUATED in each["notes"] for each in found)
    verdict += f", {evacuated} {EVACUATED}" if evacuated else ""
    story: list[str | Table] = [f"{names}: {len(found)} instances, {verdict}"]
    if evacuated:
        story.append(f"Down: {', '.join(document['down'])}. {NO_LIVE_MIGRATION}")
    story.append(UNKNOWN)
    story.append(Table("", COLUMNS, [_row(each) for each in found]))
    story += [
        f"{each['instance']}: hosts by the first filter that refuses it: "
        + (", ".join(f"{name} {count}" for name, count in each["limits"].items()) or "no hosts")
        for each in left
    ]
    reasons = [
        (each["instance"], why["host"], why["filter"], why["reason"])
        for each in left
        for why in each["nearest"]
    ]
    story.append(Table("The hosts that come nearest:", NEAREST, reasons))
    return [*story, *(f"Warning: {text}" for text in document["warnings"])]


def _row(each: dict[str, Any]) -> tuple[Any, ...]:
    return (
        each["instance"],
        each["from"],
        *("" if each[name] is None else each[name] for name in ("vcpus", "memory_mb", "disk_mb")),
        f"{each['to']}, {TOGETHER}" if each["status"] == TOGETHER else each["to"] or each["status"],
        _listed(each["decided_by"]),
        "; ".join(each["notes"]),
    )


def _listed(facts: list[str]) -> str:
    """Return what is known, in words; that it is little is said as well."""
    return f"{', '.join(facts)} only" if facts == leaving.SIZE else ", ".join(facts)
