# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that explains why an instance is where it is, or why there was no host for it."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from inventory.errors import NotFound, OperationRefused, counted, nearest
from inventory.promises import Promises
from inventory.queries import promised
from scheduler.analysis.explain import Extent, explain
from scheduler.history.saved_decision import SavedDecision
from scheduler.hosts.table import HostTable
from scheduler.operators.cli.arguments import add_flag, add_limit, add_named
from scheduler.operators.cli.base import ReportCommand, Table
from scheduler.operators.cli.decision import (
    add_decision,
    decision_filters,
    find_decision,
    original_driver,
    row_document,
)
from scheduler.operators.cli.format_decision import (
    MAX_HOSTS,
    format_explanation,
    format_heading,
    format_host,
    format_result,
    near_misses_table,
    refusals_table,
)
from scheduler.operators.cli.terminal import progress
from scheduler.wire.to_json import json_value

# The most near misses of a kind to look for.
MAX_NEAR_MISSES = 5


class Explain(ReportCommand):
    """Explain why an instance was placed on its host, or why no host would take it.

    The decision is made again, on the hosts as they were and with the settings of that time. What
    hosts hold for standbys and reservations is not saved: reasons name what the hosts hold now.
    """

    def add_arguments(self, parser: Any) -> None:
        add_decision(parser)
        what = (
            "UUID of the instance to explain, if the request is for several instances (default:"
            " the instance without a host, else the first instance)."
        )
        add_named(parser, "--instance", "uuids", what, metavar="UUID")
        either = parser.add_mutually_exclusive_group()
        help_text = "Name of a host: show all reasons for which this host was not chosen."
        add_named(either, "--host", "hosts", help_text, metavar="NAME")
        what = (
            "Show which changes would each have given the instance a host, the smallest change"
            " first."
        )
        add_flag(either, "--near-miss", what)
        add_limit(parser, "hosts", MAX_HOSTS)

    def take_action(self, args: Any) -> None:
        saved, rows = find_decision(self, args.decision)
        sections: list[str | Table] = [*format_heading(saved)]
        if len(rows) > 1:
            others = ", ".join(str(row.id) for row in rows[1:6])
            sections.append(
                f"There are {len(rows)} decisions about this request or instance; the earlier"
                f" decisions: {others}"
            )
        document = {
            "decision": row_document(rows[0]),
            "decisions": [row.id for row in rows],
            "request": json_value(saved.record.request),
        }
        if saved.hosts is None:
            sections.append(f"The hosts of this decision are no longer known: {saved.lost}")
            sections.append(decision_filters(saved.record.decision))
            document |= {"lost": saved.lost, "same": None, "explanation": None}
        else:
            with progress(self.app, "deciding again, host by host"):
                result, more, facts = _explained(saved, args, self.read(promised.read))
            sections = [*result, *sections, *more]
            document |= facts
        self.report(args, sections, document)


def _explained(
    saved: SavedDecision, args: Any, promises: Mapping[int, Promises]
) -> tuple[list[str], list[str | Table], dict[str, Any]]:
    """Return the result, further sections and all facts about a decision that is made again."""
    hosts, host = saved.table(), args.host
    hosts.promises = promises
    if host is not None:
        _check_host(hosts, host)
    index, sections = _instance_index(saved, args)
    extent = Extent(
        only=None if host is None else [host],
        most=args.limit if args.formatter == "table" else None,
        near=MAX_NEAR_MISSES if args.near_miss else 0,
    )
    with original_driver(saved) as driver:
        same = saved.is_same(saved.again(driver))
        explanation = json_value(explain(hosts, saved.record.request, driver, index, extent))
    if not same:
        kept = saved.record.release
        cause = "plug-ins or their options have changed since then"
        if kept != version("berthmaster"):
            cause = f"release {kept} made the decision, or {cause}"
        sections.append(
            "The decision is different when it is made again, so the following may not be what"
            f" happened: {cause}"
        )
    if promises and (explanation["chosen"] is None or host is not None):
        sections.append(
            "The amounts held for standbys and reservations are those of now, not of that time."
        )
    sections += _sections(explanation, args)
    return format_result(explanation), sections, {"same": same, "explanation": explanation}


def _check_host(hosts: HostTable, name: str) -> None:
    """Raise NotFound, with similar names, unless there was a host or node of a name."""
    known = {hosts.get(row, column) for row in hosts.rows() for column in ("host", "nodename")}
    if name not in known and not hosts.rows_of_host(name, any_case=True):
        hint = nearest(name, known, f"the decision had {counted(len(hosts), 'host')}")
        raise NotFound(f"there was no host {name!r}; {hint}")


def _instance_index(saved: SavedDecision, args: Any) -> tuple[int, list[str | Table]]:
    """Return the index of the instance to explain in its request, and a note about it.

    A request that failed did so for one instance, by whichever of them it is found.
    """
    # As the database looks for them.
    uuids = [(uuid or "").casefold() for uuid in saved.record.request.instance_uuids]
    shortage = saved.record.decision.shortage
    named = (args.instance or args.decision).casefold()
    if named in uuids and (args.instance or shortage is None):
        index = uuids.index(named)
    elif args.instance:
        raise NotFound(f"the request has no instance {args.instance!r}")
    else:
        index = shortage.index if shortage else 0
    which = f"instance {index + 1} of {len(uuids)}"
    if len(uuids) < 2:
        return index, []
    if shortage is None:
        return index, [f"This is about {which}; use --instance UUID for another instance."]
    failed = f"instance {shortage.index + 1}"
    if index > shortage.index:
        raise OperationRefused(
            f"the request ended with {failed}, for which there was no host: nothing was decided"
            f" about {which}"
        )
    reason = f"There was a host for {which}, but none for {failed}"
    reason = reason if index < shortage.index else f"There was no host for {which}"
    return index, [f"{reason}, so no instance was placed."]


def _sections(explanation: dict[str, Any], args: Any) -> list[str | Table]:
    if args.host is not None:
        return format_host(explanation, args.host)
    sections: list[str | Table] = []
    is_refused = explanation["chosen"] is None
    if not args.near_miss:
        sections += format_explanation(explanation, args.limit)
        if is_refused and explanation["hosts"] > args.limit:
            sections.append(refusals_table(explanation))
    elif not is_refused:
        sections.append("No change was needed.")
    else:
        misses = near_misses_table(explanation)
        sections.append(misses if misses.rows else "No single change would have been enough.")
    return sections
