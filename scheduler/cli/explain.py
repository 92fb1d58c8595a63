# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that says why instances are where they are, or why there was no host for one."""

from collections.abc import Iterable
from typing import Any

from inventory.names import nearest
from inventory.refusals import OperationRefused, Unknown
from scheduler.cli import explanation
from scheduler.cli.base import positive
from scheduler.cli.decision import survivors
from scheduler.cli.heading import heading
from scheduler.cli.kept import add_decision, deciding, find, head
from scheduler.cli.telling import Table, TellingCommand
from scheduler.decision.explaining import Explanation, Extent, explain
from scheduler.decision.host_table import HostTable
from scheduler.drivers import BaseDriver
from scheduler.keeping.recalled import Recalled
from scheduler.rpc.json_values import json_value

# So many near misses are looked for.
NEAR = 5
Story = Iterable[str | Table]


class Explain(TellingCommand):
    """Say why an instance was placed where it is, or why no host would take it.

    The decision is made again, on the hosts as they were and with the settings of that time.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        add_decision(parser)
        parser.add_argument(
            "--instance",
            metavar="UUID",
            help="Of a request for several instances, the one to explain; by default the first, or"
            " the one for which there was no host.",
        )
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--host", metavar="NAME", help="Say all about one host: why it was not chosen."
        )
        what.add_argument(
            "--near-miss",
            action="store_true",
            help="Say what would have had to be different, the smallest change first.",
        )
        parser.add_argument(
            "--limit",
            type=positive,
            default=explanation.MOST,
            metavar="N",
            help=f"How many hosts to show at most ({explanation.MOST}); -f json has all of them.",
        )
        return parser

    def take_action(self, parsed_args: Any) -> None:
        recalled, rows = find(self.app, parsed_args.decision)
        story: list[str | Table] = [*heading(recalled)]
        if len(rows) > 1:
            others = ", ".join(str(row.id) for row in rows[1:6])
            story.append(f"There are {len(rows)} decisions about it; the ones before: {others}")
        document: dict[str, Any] = {
            "decision": head(rows[0]),
            "decisions": [row.id for row in rows],
            "request": json_value(recalled.record.request),
        }
        if recalled.hosts is None:
            more, facts = _without_hosts(recalled)
        else:
            more, facts = _with_hosts(recalled, recalled.hosts, parsed_args)
        self.tell(parsed_args, [*story, *more], document | facts)


def _without_hosts(recalled: Recalled) -> tuple[Story, dict[str, Any]]:
    """Return what can be said where the hosts are lost."""
    story: Story = [
        f"The hosts that it was made on are not known any more: {recalled.lost}",
        survivors(recalled.record.decision),
    ]
    return story, {"lost": recalled.lost, "same": None, "explanation": None}


def _with_hosts(recalled: Recalled, hosts: HostTable, asked: Any) -> tuple[Story, dict[str, Any]]:
    """Return what is told of the decision when it is made again."""
    if asked.host is not None:
        _check_host(hosts, asked.host)
    index, said = _place(recalled, asked)
    with deciding(recalled) as driver:
        same = recalled.is_same(recalled.again(driver))
        found = json_value(_explained(recalled, driver, index, asked))
    if not same:
        said.append(
            "Made again it is another decision, so take what follows with care: it was made by"
            f" release {recalled.record.release}, or plug-ins have changed since"
        )
    return [*said, *_told(found, asked)], {"same": same, "explanation": found}


def _check_host(hosts: HostTable, name: str) -> None:
    """Raise Unknown where there was no host or node of a name, with those that are like it."""
    known = {hosts.get(row, column) for row in hosts.rows() for column in ("host", "nodename")}
    if name in known or hosts.rows_of_host(name, any_case=True):
        return
    hint = nearest(name, known, f"there were {len(hosts)} others")
    raise Unknown(f"there was no host {name!r}; {hint}")


def _place(recalled: Recalled, asked: Any) -> tuple[int, list[str]]:
    """Return the place of the instance to explain in its request, and what to say about that.

    A request that failed did so for one of them, whichever it is found by.
    """
    # As the database looks for them.
    uuids = [(uuid or "").casefold() for uuid in recalled.record.request.instance_uuids]
    shortage = recalled.record.decision.shortage
    named = (asked.instance or asked.decision).casefold()
    if named in uuids and (asked.instance or shortage is None):
        index = uuids.index(named)
    elif asked.instance:
        raise Unknown(f"the request is not about an instance {asked.instance!r}")
    else:
        index = shortage.index if shortage else 0
    which = f"instance {index + 1} of {len(uuids)}"
    if len(uuids) < 2:
        return index, []
    if shortage is None:
        return index, [f"This is about {which}; --instance UUID tells of another."]
    if index > shortage.index:
        raise OperationRefused(
            f"the request ended with instance {shortage.index + 1}, for which there was no host:"
            f" nothing was decided about {which}"
        )
    if index < shortage.index:
        first = f"There was a host for {which}, and none for instance {shortage.index + 1}"
        return index, [f"{first}, so none of them was placed."]
    return index, [f"There was none for {which}, so none of them was placed."]


def _explained(recalled: Recalled, driver: BaseDriver, index: int, asked: Any) -> Explanation:
    extent = Extent(
        only=None if asked.host is None else [asked.host],
        most=asked.limit if asked.format == "table" else None,
        near=NEAR if asked.near_miss else 0,
    )
    return explain(recalled.table(), recalled.record.request, driver, index, extent)


def _told(found: dict[str, Any], asked: Any) -> Story:
    if asked.host is not None:
        return explanation.about(found, asked.host)
    headline = explanation.headline(found)
    if asked.near_miss:
        return [headline, _nearest(found)]
    story: list[str | Table] = [headline, *explanation.told(found, asked.limit)]
    if found["chosen"] is None and found["hosts"] > asked.limit:
        story.append(explanation.counted(found))
    return story


def _nearest(found: dict[str, Any]) -> str | Table:
    if found["chosen"] is not None:
        return "Nothing was in the way."
    misses = explanation.near_misses(found)
    return misses if misses.rows else "No single change would have been enough."
