# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that says how many more instances there is room for."""

from collections.abc import Sequence
from typing import Any

from inventory import aggregates, known_names
from inventory.refusals import NotReported, Unknown
from scheduler.cli import wanted
from scheduler.cli.base import conf_of, positive
from scheduler.cli.current_hosts import NOT_SEEN, CurrentHosts, current_hosts, progress
from scheduler.cli.largest import largest_of, told
from scheduler.cli.telling import Table, TellingCommand
from scheduler.decision.capacity import MOST, Filling, fill, fill_in_turns, shares
from scheduler.decision.host_table import HostTable
from scheduler.decision.pipeline import Plan
from scheduler.decision.refusing import limits
from scheduler.filters.numa_topology import NUMATopologyFilter
from scheduler.objects.request_spec import RequestSpec
from scheduler.rpc.failures import InvalidInput

CELLS_NOT_COUNTED = (
    "NUMA cells are asked for, and not counted: NUMATopologyFilter is not among [filter_scheduler]"
    " enabled_filters"
)
COLUMNS = ("Host", "Node", "Instances", "Limited By", "Reason")


class Capacity(TellingCommand):
    __doc__ = f"""Say how many instances of a flavor there is room for now, host by host.

    As many as requests for one instance each would place, by the filters, weighers and the driver
    of the configuration. Where one of the best hosts is drawn at random, and where that matters,
    another draw may find another number. Several flavors are counted each by itself. {NOT_SEEN}
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        wanted.add_arguments(parser)
        parser.add_argument(
            "--together",
            action="store_true",
            help="Place one instance of each flavor in turn until there is no host for the next.",
        )
        parser.add_argument(
            "--largest",
            action="store_true",
            help="Also say how large one more instance can be.",
        )
        parser.add_argument(
            "--max",
            type=positive,
            metavar="N",
            help=f"Place so many instances at most ({MOST}; without a bound where hosts can be"
            " counted without placing any).",
        )
        parser.add_argument(
            "--limit",
            type=positive,
            default=50,
            metavar="N",
            help="How many hosts to show at most for each flavor (50); -f json has all of them.",
        )
        return parser

    def take_action(self, parsed_args: Any) -> None:
        with current_hosts(self.app) as hosts:
            default_zone = conf_of(self.app).default_availability_zone
            specs = _requests(hosts, parsed_args, default_zone)
            tables, fillings = self._filled(hosts, specs, parsed_args)
            plan = hosts.destinations.driver.plan
            if not any(len(each) for each in tables):
                raise NotReported(
                    "no host has reported yet: start berthmaster-agent on hosts, with the"
                    " [database] of this command; see 'host list'"
                )
            documents = [
                _document(table, filling, plan)
                for table, filling in zip(tables, fillings, strict=True)
            ]
            for each in documents:
                # Together, the first for which there is no host is the end for all of them.
                each["more"] &= not (parsed_args.together and any(f.is_full for f in fillings))
            if parsed_args.largest:
                for spec, document in zip(specs, documents, strict=True):
                    document["largest"] = largest_of(hosts.table(spec), spec, hosts.means())
            warnings = _warnings(tables, specs, plan)
        document = {"together": parsed_args.together, "flavors": documents}
        story = [part for each in documents for part in _story(each, parsed_args.limit)]
        story += [f"Warning: {text}" for text in warnings]
        self.tell(parsed_args, story, document | {"warnings": warnings})

    def _filled(
        self, hosts: CurrentHosts, specs: list[RequestSpec], asked: Any
    ) -> tuple[list[HostTable], list[Filling]]:
        """Return what was filled, each with the table that it has left."""
        with progress(self.app, "instances placed") as tell:
            if asked.together:
                table, most = hosts.table(specs[0]), asked.max or MOST
                fillings = fill_in_turns(table, specs, hosts.means(tell), most)
                return [table] * len(specs), fillings
            tables = [hosts.table(each) for each in specs]
            pairs = zip(tables, specs, strict=True)
            return tables, [fill(*each, hosts.means(tell), asked.max) for each in pairs]


def _requests(hosts: CurrentHosts, asked: Any, default_zone: str) -> list[RequestSpec]:
    """Return the requests; the group that a hint names is the same in all of them.

    Raises Unknown and Malformed.
    """
    found = wanted.requests(asked, hosts.database.read(aggregates.everything))
    if asked.availability_zone is not None:
        where = (asked.availability_zone, default_zone)
        hosts.database.read(lambda connection: known_names.zone(connection, *where))
    try:
        group = hosts.completed(found[0]).instance_group
    except InvalidInput as error:
        raise Unknown(f"{error.reason}; see 'server group list'") from error
    for each in found:
        each.instance_group = group
    return found


def _warnings(tables: list[HostTable], specs: list[RequestSpec], plan: Plan) -> list[str]:
    """Return what was not counted as it should be, each text once."""
    found = dict.fromkeys(text for table in tables for text in table.warnings)
    if any(each.numa_topology for each in specs) and not any(
        isinstance(each, NUMATopologyFilter) for each in plan.filters
    ):
        found[CELLS_NOT_COUNTED] = None
    return list(found)


def _document(hosts: HostTable, filling: Filling, plan: Plan) -> dict[str, Any]:
    """Return all that is known about one flavor."""
    found, left_out = shares(hosts, filling, plan)
    return {
        "flavor": wanted.sized(filling.spec.flavor),
        "total": filling.rows.total(),
        "more": not filling.is_full,
        "left_out": left_out,
        "limits": dict(limits(each.refusals for each in found)),
        "hosts": [
            {
                "host": each.host,
                "node": each.nodename,
                "instances": each.count,
                "refusals": [{"filter": why.filter, "reason": why.reason} for why in each.refusals],
            }
            for each in found
        ],
    }


def _story(found: dict[str, Any], most: int) -> list[str | Table]:
    taking = sum(1 for each in found["hosts"] if each["instances"])
    story: list[str | Table] = [
        f"{found['flavor']}: {'at least ' if found['more'] else ''}{found['total']} instances on"
        f" {taking} of {len(found['hosts'])} hosts"
    ]
    if found["more"]:
        story.append("There may be room for more: no more were tried")
    if found["limits"]:
        counts = ", ".join(f"{name} {count}" for name, count in found["limits"].items())
        story.append(f"Hosts by the filter that refuses one more: {counts}")
    if found["left_out"]:
        story.append(f"Left out, as the request does not ask for them: {found['left_out']} hosts")
    story += map(told, found.get("largest", ()))
    rows = [_row(each) for each in found["hosts"][:most]]
    story.append(Table("", COLUMNS, rows))
    if len(found["hosts"]) > most:
        story.append(f"... and {len(found['hosts']) - most} more; see --limit")
    return story


def _row(each: dict[str, Any]) -> Sequence[Any]:
    first = next(iter(each["refusals"]), {"filter": "", "reason": ""})
    return each["host"], each["node"], each["instances"], first["filter"], first["reason"]
