# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that makes saved decisions again, with the same settings or with others."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from oslo_config import cfg

from conf import loading
from inventory.refusals import OperationRefused
from scheduler.cli.app import PROGRAM
from scheduler.cli.kept import deciding
from scheduler.cli.telling import Table, TellingCommand
from scheduler.keeping import files
from scheduler.keeping.documents import release
from scheduler.keeping.recalled import Recalled, from_file
from scheduler.keeping.replay import Comparison
from scheduler.keeping.settings import deciding_by
from scheduler.rpc.json_values import json_value


class DecisionReplay(TellingCommand):
    """Make saved decisions again: are they the same, or what would other settings have done?

    With --config-file behind the command the settings of that configuration are used, otherwise
    those with which the decision was made. The exit status is 0 when every decision is the same,
    and 1 when one is not.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "file", nargs="+", type=Path, help="A decision that decision save has written."
        )
        # Under their first names they are options of the program before a command sees them.
        for option, what in (("file", "PATH"), ("dir", "DIR")):
            parser.add_argument(
                f"--config-{option}",
                f"--settings-{option}",
                action="append",
                default=[],
                dest=f"settings_{option}",
                metavar=what,
                help="Configuration to decide with, as for the daemons; may be repeated.",
            )
        return parser

    def take_action(self, parsed_args: Any) -> int:
        # One after the other: each has all hosts in memory.
        documents = [*_documents(parsed_args)]
        self.tell(parsed_args, _story(documents), documents)
        return 0 if all(each["same"] for each in documents) else 1


def _configuration(asked: Any) -> cfg.ConfigOpts | None:
    """Return the configuration to decide with, None where it is to be the one of that time."""
    arguments = [f"--config-file={path}" for path in asked.settings_file]
    arguments += [f"--config-dir={path}" for path in asked.settings_dir]
    if not arguments:
        return None
    conf = cfg.ConfigOpts()
    loading.read(conf, PROGRAM, arguments, metadata.version(PROGRAM))
    loading.check(conf)
    return conf


def _documents(asked: Any) -> Iterator[dict[str, Any]]:
    """Yield what is told of each file."""
    conf = _configuration(asked)
    if conf is None:
        for path in asked.file:
            recalled = _read(path)
            with _named(path), deciding(recalled) as driver:
                yield _document(path, Comparison(recalled, driver), "kept")
        return
    with deciding_by(conf) as driver:
        for path in asked.file:
            recalled = _read(path)
            # The one setting that is on the table of hosts.
            packing = conf.compute.packing_host_numa_cells_allocation_strategy
            recalled.table().numa_packing = packing
            yield _document(path, Comparison(recalled, driver), "given")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say in what is refused which file it is about."""
    try:
        yield
    except OperationRefused as error:
        raise OperationRefused(f"{path}: {error}") from None


def _read(path: Path) -> Recalled:
    try:
        return from_file(path)
    except OSError as error:
        raise OperationRefused(f"cannot read {path}: {error.strerror}") from None
    except files.Unreadable as error:
        raise OperationRefused(str(error)) from None


def _document(path: Path, comparison: Comparison, settings: str) -> dict[str, Any]:
    record = comparison.recalled.record
    shortage = comparison.decision.shortage
    return {
        "file": str(path),
        "number": comparison.recalled.number,
        "request_id": record.caller.request_id,
        "outcome": record.outcome,
        "same": comparison.is_same,
        "settings": settings,
        "release": {"kept": record.release, "now": release()},
        "instances": [asdict(each) | {"same": each.is_same} for each in comparison.changes()],
        "refused_now": shortage is not None,
        "steps": json_value(shortage.steps) if shortage else [],
    }


def _story(documents: list[dict[str, Any]]) -> list[str | Table]:
    story: list[str | Table] = []
    for each in documents:
        moved = [one for one in each["instances"] if not one["same"]]
        story.append(f"{each['file']}: {_result(each, len(moved))}")
        kept, now = each["release"]["kept"], each["release"]["now"]
        if not each["same"] and kept != now:
            story.append(f"  It was made by release {kept}; this is {now}.")
        story.append(_moved(moved))
    if len(documents) > 1:
        story.append(_counted(documents))
    return story


def _result(document: dict[str, Any], moved: int) -> str:
    by = {"kept": "with the settings of that time", "given": "with the settings given"}
    how = by[document["settings"]]
    if document["same"]:
        return f"the same decision {how}, to the last bit"
    if not moved and document["refused_now"]:
        steps = (f"{each['name']} {each['before']}->{each['after']}" for each in document["steps"])
        return f"no host {how} either, for another reason: {', '.join(steps)}"
    if not moved:
        return f"the same hosts {how}, but other weights, filters or limits"
    return f"{moved} of {len(document['instances'])} instances elsewhere {how}"


def _moved(moved: list[dict[str, Any]]) -> Table:
    rows = [
        (each["instance_uuid"] or "", each["kept"] or "none", each["now"] or "none", each["why"])
        for each in moved
    ]
    return Table("", ("Instance", "Host", "Host Now", "Why"), rows)


def _counted(documents: list[dict[str, Any]]) -> str:
    same = sum(each["same"] for each in documents)
    refused = sum(each["refused_now"] and not each["same"] for each in documents)
    other = len(documents) - same - refused
    return f"{len(documents)} decisions: {same} the same, {other} others, {refused} without a host"
