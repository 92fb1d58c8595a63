# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A plan as JSON, as text and tables, and as a script for the client of OpenStack."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from inventory.errors import counted
from scheduler.operators.cli.base import Table
from scheduler.operators.cli.live_fleet import UNKNOWN
from scheduler.operators.cli.plan_program import API_VERSION, CALLS, words
from scheduler.operators.cli.table_format import titled
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.residents import SIZE
from scheduler.operators.planning.types import (
    COLD,
    EVACUATION,
    LIVE,
    MovePlan,
    Place,
    PlannedMove,
    Unplanned,
)

VERSION = 1
COLUMNS = titled("step instance from to memory_mb disk_mb how reason")
# How many instances that cannot go are shown to people.
LISTED = 10
NO_LIVE_MIGRATION = (
    "Instances on a host that is down cannot be live-migrated. They can be evacuated, which means"
    " that Nova rebuilds them on another host: the data on local disks is lost, unless the disks"
    " are on shared storage."
)
_SCRIPT = """#!/bin/sh
# {title}
# A move that fails does not stop the others of its step; after such a step the script ends.
set -u
# From this version on hosts may be named; from 2.95 on Nova leaves what it has rebuilt on another
# host switched off.
export OS_COMPUTE_API_VERSION={version}
failures=0

check() {{
    host=$(openstack server show -f value -c OS-EXT-SRV-ATTR:host "$1") || return 1
    if [ "$host" != "$2" ]; then
        echo "$1 is on $host, not on $2" >&2
        return 1
    fi
}}
failed() {{
    echo "failed: the move of $1" >&2
    failures=$((failures + 1))
}}
end_of_step() {{
    [ "$failures" -eq 0 ] || exit 1
}}
{evacuated}"""
_EVACUATED = """
evacuated() {
    task=unknown
    while [ "$task" != None ]; do
        sleep 5
        task=$(openstack server show -f value -c OS-EXT-STS:task_state "$1") || return 1
    done
}
"""


def document(plan: MovePlan, fleet: Fleet) -> dict[str, Any]:
    """Return all facts of a plan, from which moves_of() makes its moves again."""
    return {
        "version": VERSION,
        "goal": plan.goal,
        "complete": plan.is_complete,
        "result": plan.result,
        "moves": [_move(each, fleet) for each in plan.moves],
        "cost": _cost(plan.moves),
        "unplanned": [_unplanned(each) for each in plan.unplanned],
        "unknown": UNKNOWN,
        "warnings": list(fleet.hosts.warnings),
    }


def moves_of(found: Any) -> list[PlannedMove]:
    """Return the moves of a document; raise ValueError for one that is not of a plan."""
    if not isinstance(found, Mapping) or found.get("version") != VERSION:
        raise ValueError(f"it is not a plan of version {VERSION}, as '-f json' writes it")
    try:
        return [
            PlannedMove(
                uuid=each["instance"],
                source=Place(each["from"], each["from_node"]),
                target=Place(each["to"], each["to_node"]),
                memory_mb=int(each["memory_mb"]),
                disk_mb=int(each["disk_mb"]),
                kind=each["how"],
                reason=each["reason"],
                stage=int(each["stage"]),
                step=int(each["step"]),
            )
            for each in found["moves"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"a move of the plan is not complete: {error!r}") from None


def _move(move: PlannedMove, fleet: Fleet) -> dict[str, Any]:
    resident = fleet.residents[move.uuid]
    return {
        "stage": move.stage,
        "step": move.step,
        "instance": move.uuid,
        "from": move.source.host,
        "from_node": move.source.node,
        "to": move.target.host,
        "to_node": move.target.node,
        "vcpus": resident.spec.vcpus,
        "memory_mb": move.memory_mb,
        "disk_mb": move.disk_mb,
        "how": move.kind,
        "reason": move.reason,
        "decided_by": resident.decided_by,
        "notes": resident.notes,
    }


def _unplanned(found: Unplanned) -> dict[str, Any]:
    return {
        "instance": found.uuid,
        "from": found.place.host,
        "from_node": found.place.node,
        "why": found.why,
        "limits": dict(found.limits),
        "nearest": [
            {"host": host, "filter": name, "reason": reason} for host, name, reason in found.nearest
        ],
    }


def _cost(moves: Sequence[PlannedMove]) -> dict[str, Any]:
    return {
        "moves": len(moves),
        "instances": len({each.uuid for each in moves}),
        "memory_mb": sum(each.memory_mb for each in moves),
        "steps": len({each.turn for each in moves}),
        "by_kind": {
            kind: sum(each.kind == kind for each in moves) for kind in (LIVE, COLD, EVACUATION)
        },
    }


def sections(found: dict[str, Any]) -> Iterator[str | Table]:
    yield from _heading(found)
    cost = found["cost"]
    if found["moves"]:
        kinds = ", ".join(f"{count} by {kind}" for kind, count in cost["by_kind"].items() if count)
        yield (
            f"{counted(cost['moves'], 'move')} in {counted(cost['steps'], 'step')}, {kinds};"
            f" {cost['memory_mb'] / 1024:.1f} GB of memory to copy"
        )
        if cost["by_kind"][EVACUATION]:
            yield NO_LIVE_MIGRATION
        if len(reasons := {each["reason"] for each in found["moves"]}) == 1:
            yield f"Reason: {reasons.pop()}"
        yield found["unknown"]
    yield _moves_table(found["moves"])
    yield from notes(found["moves"])
    yield from left(found["unplanned"])
    yield from _promises(found)
    yield from _claims(found.get("claims"))
    yield from (f"Warning: {text}" for text in found["warnings"])


def _heading(found: dict[str, Any]) -> Iterator[str]:
    result, left = found["result"], len(found["unplanned"])
    match found["goal"]:
        case "drain":
            for number, hosts in enumerate(result["stages"], 1):
                stage = f"Stage {number}: " if len(result["stages"]) > 1 else ""
                yield f"{stage}empties {', '.join(hosts)}"
        case "repair":
            yield f"{counted(result['broken'], 'instance')} on hosts that the rules forbid"
        case "consolidate":
            hosts = result["emptied"]
            yield f"Empties {counted(len(hosts), 'host')}{': ' if hosts else ''}{', '.join(hosts)}"
        case "balance":
            yield (
                f"Share of {result['of']} in use: hosts differ by {_points(result['before'])} now,"
                f" by {_points(result['after'])} after the plan{_extremes(result)}"
            )
        case "make-room":
            wanted = counted(result["wanted"], "instance")
            fit = "fits" if result["fit"] == 1 else "fit"
            yield f"{result['fit']} of {wanted} of {result['flavor']} {fit} after the moves"
    if found["interrupted"]:
        yield "The search was interrupted: this is the best plan so far"
    elif not found["complete"] and (not left or found["goal"] == "balance"):
        yield "The goal is not reached"
    if not found["moves"]:
        yield "No moves" + (" are possible" if not found["complete"] else " are needed")


def _extremes(result: dict[str, Any]) -> str:
    """Return the emptiest and the fullest host of a balance, in brackets after a space."""
    if "fullest" not in result:
        return ""
    ends = (result["emptiest"], result["fullest"])
    return " ({} to {})".format(*(f"{host} with {100 * share:.1f} %" for host, share in ends))


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _moves_table(moves: Sequence[dict[str, Any]]) -> Table:
    """Return the moves, without how and why where that is the same for all and is said above."""
    several = any(each["stage"] > 1 for each in moves)
    same = {key for key in ("how", "reason") if len({each[key] for each in moves}) == 1}
    shown = {key: title for key, title in COLUMNS.items() if key not in same}
    steps = [f"{each['stage']}.{each['step']}" if several else each["step"] for each in moves]
    rows = [
        tuple((each | {"step": step})[key] for key in shown)
        for each, step in zip(moves, steps, strict=True)
    ]
    return Table("", [*shown.values()], rows)


def notes(moves: Iterable[dict[str, Any]]) -> Iterator[str]:
    noted = {each["instance"]: each["notes"] for each in moves if each["notes"]}
    yield from (f"{uuid}: {'; '.join(notes)}" for uuid, notes in noted.items())
    known = {tuple(each["decided_by"]) for each in moves} - {tuple(SIZE)}
    if known:
        facts = dict.fromkeys(fact for each in sorted(known) for fact in each if fact not in SIZE)
        yield f"Facts besides sizes that were known of some instances: {', '.join(facts)}"


def left(unplanned: Sequence[dict[str, Any]]) -> Iterator[str | Table]:
    if not unplanned:
        return
    yield f"{counted(len(unplanned), 'instance')} cannot move:"
    shown = unplanned[:LISTED]
    rows = [(each["instance"], each["from"], _why(each)) for each in shown]
    yield Table("", ("Instance", "On", "Why"), rows)
    if len(unplanned) > len(shown):
        yield (
            f"... and {counted(len(unplanned) - len(shown), 'more instance')}; -f json shows all"
            " instances"
        )
    # Equal instances are refused for equal reasons.
    reasons = {
        (why["host"], why["filter"], why["reason"]): each["instance"]
        for each in reversed(shown)
        for why in reversed(each["nearest"])
    }
    nearest = [(uuid, *why) for why, uuid in reversed(reasons.items())]
    columns = ("Instance", "Nearest Host", "Filter", "Reason")
    yield Table("The hosts that come nearest:", columns, nearest)


def _promises(found: dict[str, Any]) -> Iterator[str | Table]:
    """Yield what hosts hold that is in the way or stays, and the instances without a standby."""
    result = found["result"]
    if held := result.get("held"):
        is_drain = found["goal"] == "drain"
        yield (
            "Room that stays held on these hosts: schedulers make the standbys on other hosts"
            " when a host is disabled, reserved places stay"
            if is_drain
            else "Hosts that would take another instance if they did not hold this room:"
        )
        yield Table("", ("Host", "Held For"), [tuple(each.values()) for each in held])
    if lacking := result.get("without_standby"):
        have = counted(len(lacking), "protected instance has", "protected instances have")
        yield f"{have} no standby:"
        keys = ("instance", "host", "mode", "reason")
        rows = [[each[key] or "" for key in keys] for each in lacking[:LISTED]]
        yield Table("", ("Instance", "On", "Mode", "Why"), rows)
        if len(lacking) > LISTED:
            yield (
                f"... and {counted(len(lacking) - LISTED, 'more instance')}: see 'failover status"
                " --without'"
            )
        yield (
            "After the moves there is room for"
            f" {counted(len(result['room_for_standbys']), 'standby', 'standbys')} of these"
            " instances"
        )


def _why(each: dict[str, Any]) -> str:
    limits = ", ".join(f"{count} {name}" for name, count in each["limits"].items())
    return f"{each['why']}: {limits}" if limits else each["why"]


def _claims(claims: Sequence[dict[str, Any]] | None) -> Iterator[str]:
    if claims is None:
        return
    held = sum(each["held"] for each in claims)
    yield f"Room is claimed for {held} of {counted(len(claims), 'move')} of the first step"
    for each in claims:
        if not each["held"]:
            yield f"{each['instance']}: no room is claimed on {each['host']}: {each['why_not']}"


def script(found: dict[str, Any]) -> str:
    """Return a shell script that makes the moves of a plan, one after the other."""
    title = f"Moves for the goal {found['goal']}, planned by berthmaster"
    evacuated = _EVACUATED if found["cost"]["by_kind"][EVACUATION] else ""
    version = API_VERSION["OS_COMPUTE_API_VERSION"]
    lines = [_SCRIPT.format(title=title, version=version, evacuated=evacuated)]
    steps = groupby(moves_of(found), key=lambda each: each.turn)
    for (stage, step), moves in steps:
        lines.append(f"\n# Stage {stage}, step {step}\n")
        for each in moves:
            calls = [words(call, each) for call in CALLS[each.kind]]
            calls += [["evacuated", each.uuid]] if each.kind == EVACUATION else []
            calls.append(["check", each.uuid, each.target.host])
            made = " &&\n    ".join(map(shlex.join, calls))
            lines.append(f"{made} ||\n    {shlex.join(['failed', each.uuid])}\n")
        lines.append("end_of_step\n")
    return "".join(lines)
