# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that makes saved decisions again, with the same settings or with others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conf.loading import read_apart
from inventory.errors import OperationRefused, counted
from scheduler.analysis.diagnosis import host_name
from scheduler.analysis.explain import Explanation, Extent, Verdict, explain
from scheduler.decision.types import Decision
from scheduler.drivers import BaseDriver
from scheduler.history.config_snapshot import deciding_by
from scheduler.history.saved_decision import SavedDecision, Unreadable, read_file
from scheduler.history.serialization import release
from scheduler.hosts.host_state import Candidate
from scheduler.operators.cli.app import PROGRAM
from scheduler.operators.cli.arguments import add_configuration
from scheduler.operators.cli.base import BaseCommand, ReportCommand, Table
from scheduler.operators.cli.decision import find_decision, original_driver
from scheduler.operators.cli.format_decision import format_weight
from scheduler.operators.cli.terminal import progress
from scheduler.wire.to_json import json_value

# A reason takes some more decisions for each instance.
MAX_REASONS = 20


def changes(saved: SavedDecision, now: Decision, driver: BaseDriver) -> Iterator[dict[str, Any]]:
    """Yield the host of each instance in a saved decision, and in what a driver decides now.

    Both are None for none; a node of another name follows in brackets. why is the reason against
    the host that was chosen, for the first instances that would go elsewhere.
    """
    before, after = _hosts_of(saved.record.decision), _hosts_of(now)
    reasons = 0
    for index, uuid in enumerate(saved.record.request.instance_uuids):
        kept, why = before.get(index), ""
        old_name, new_name = _name(kept), _name(after.get(index))
        if old_name != new_name and kept is not None and reasons < MAX_REASONS:
            reasons += 1
            why = _why_not(kept, index, saved, now, driver)
        names = {"instance_uuid": uuid, "kept": old_name, "now": new_name}
        yield {**names, "why": why, "same": old_name == new_name}


def _why_not(
    kept: Candidate, index: int, saved: SavedDecision, now: Decision, driver: BaseDriver
) -> str:
    """Return the reason against the host that was chosen, or against all hosts."""
    if now.shortage is not None:
        steps = ", ".join(map(str, now.shortage.steps))
        return f"there is no host for instance {now.shortage.index + 1}: {steps}"
    extent = Extent(only=[kept.host])
    found = explain(saved.table(), saved.record.request, driver, index, extent)
    place = (kept.host, kept.nodename)
    (verdict,) = (each for each in found.verdicts if (each.host, each.nodename) == place)
    return _reason(verdict, found)


def _reason(verdict: Verdict, found: Explanation) -> str:
    name = host_name(verdict.host, verdict.nodename)
    if verdict.refusals:
        reasons = ", ".join(f"{each.filter}: {each.reason}" for each in verdict.refusals)
        return f"{name} is refused: {reasons}"
    if not found.drawn_from:
        return f"{name} passes all filters, and the driver has a choice of its own"
    place = f"{name} is number {verdict.rank} of {counted(found.passing, 'host')}"
    chosen = next(each for each in found.verdicts if each.chosen)
    totals = (each.weighed.total if each.weighed else None for each in (verdict, chosen))
    here, there = map(format_weight, totals)
    return f"{place}, with weight {here} to {there}"


def _hosts_of(decision: Decision) -> dict[int, Candidate]:
    """Return the chosen hosts by the index of the instance."""
    return {index: each.chosen for index, each in enumerate(decision.placements)}


def _name(chosen: Candidate | None) -> str | None:
    return host_name(chosen.host, chosen.nodename) if chosen else None


class DecisionReplay(ReportCommand):
    """Make saved decisions again, to see whether they come out the same, also with other settings.

    The settings are those of the --config-file that is given after the command, by default the
    settings with which the decision was made. The exit status is 0 if all decisions are the same,
    else 1.
    """

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument(
            "file",
            nargs="+",
            type=Path,
            metavar="FILE|ID",
            help="File that 'decision save' has written, number of a decision, UUID of an"
            " instance, or id of a request.",
        )
        # Under their first names they are options of the program before a command sees them.
        for option, metavar, what in (
            ("file", "PATH", "Configuration file"),
            ("dir", "DIR", "Directory of configuration files"),
        ):
            names = (f"--config-{option}", f"--settings-{option}")
            what = f"{what} to decide with, as for the daemons"
            add_configuration(parser, *names, dest="settings", metavar=metavar, what=what)

    def take_action(self, args: Any) -> int:
        documents = []
        with progress(self.app, "decisions made again", len(args.file)) as show:
            # One file after the other: each has all hosts in memory.
            for number, each in enumerate(_documents(self, args), 1):
                documents.append(each)
                show(number)
        self.report(args, _sections(documents), documents)
        return 0 if all(each["same"] for each in documents) else 1


def _documents(command: BaseCommand, args: Any) -> Iterator[dict[str, Any]]:
    """Yield the comparison of each saved decision with the one that is made now."""
    if not args.settings:
        for path in args.file:
            saved = _read(command, path)
            try:
                with original_driver(saved) as driver:
                    yield _document(path, saved, driver, "kept")
            except OperationRefused as error:
                raise OperationRefused(f"{path}: {error}") from None
        return
    conf = read_apart(PROGRAM, args.settings)
    with deciding_by(conf) as driver:
        for path in args.file:
            saved = _read(command, path)
            # The one setting that the host table has.
            packing = conf.compute.packing_host_numa_cells_allocation_strategy
            saved.table().numa_packing = packing
            yield _document(path, saved, driver, "given")


def _read(command: BaseCommand, path: Path) -> SavedDecision:
    """Return the decision of a file, or of an id, which has neither dot nor slash."""
    try:
        if not path.exists() and not {".", "/"}.intersection(str(path)):
            return find_decision(command, str(path))[0]
        return read_file(path)
    except OSError as error:
        raise OperationRefused(f"cannot read {path}: {error.strerror}") from None
    except Unreadable as error:
        raise OperationRefused(str(error)) from None


def _document(
    path: Path, saved: SavedDecision, driver: BaseDriver, settings: str
) -> dict[str, Any]:
    record, now = saved.record, saved.again(driver)
    return {
        "file": str(path),
        "number": saved.number,
        "request_id": record.caller.request_id,
        "outcome": record.outcome,
        "same": saved.is_same(now),
        "settings": settings,
        "release": {"kept": record.release, "now": release()},
        "instances": [*changes(saved, now, driver)],
        "refused_now": now.shortage is not None,
        "steps": json_value(now.shortage.steps) if now.shortage else [],
    }


def _sections(documents: list[dict[str, Any]]) -> list[str | Table]:
    sections: list[str | Table] = []
    for each in documents:
        moved = [one for one in each["instances"] if not one["same"]]
        sections.append(f"{each['file']}: {_result(each, len(moved))}")
        kept, now = each["release"]["kept"], each["release"]["now"]
        if not each["same"] and kept != now:
            sections.append(f"  Release {kept} made this decision; this is release {now}.")
        rows = [
            (one["instance_uuid"] or "", one["kept"] or "none", one["now"] or "none", one["why"])
            for one in moved
        ]
        sections.append(Table("", ("Instance", "Host", "Host Now", "Why"), rows))
    if len(documents) > 1:
        same = sum(each["same"] for each in documents)
        refused = sum(each["refused_now"] and not each["same"] for each in documents)
        other = len(documents) - same - refused
        sections.append(
            f"{counted(len(documents), 'decision')}: {same} the same, {other} different, {refused}"
            " without a host"
        )
    return sections


def _result(document: dict[str, Any], moved: int) -> str:
    of = {"kept": "with the settings of that time", "given": "with the given settings"}
    settings = of[document["settings"]]
    if document["same"]:
        return f"the same decision {settings}, to the last bit"
    if not moved and document["refused_now"]:
        steps = (f"{each['name']} {each['before']}->{each['after']}" for each in document["steps"])
        return f"no host {settings} either, but for another reason: {', '.join(steps)}"
    if not moved:
        return f"the same hosts {settings}, but other weights, filters or limits"
    of_all = counted(len(document["instances"]), "instance")
    return f"{moved} of {of_all} on {'another host' if moved == 1 else 'other hosts'} {settings}"
