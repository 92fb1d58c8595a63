# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that asks a scheduler for hosts, as a conductor does."""

import json
import sys
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

from cliff.app import App
from cliff.lister import Lister

from inventory import claims
from inventory.claims import ClaimLost
from inventory.engine import DatabaseUnavailable
from inventory.migrations import SchemaError
from inventory.refusals import OperationRefused
from scheduler.cli import explanation, wanted
from scheduler.cli.base import (
    checked_together,
    conf_of,
    not_negative,
    positive,
    seconds,
    whole,
    write,
)
from scheduler.cli.telling import Table, write_story
from scheduler.objects.flavor import Flavor
from scheduler.objects.request_spec import RequestSpec
from scheduler.objects.selection import Selection
from scheduler.rpc.client import SchedulerClient
from scheduler.rpc.codec import SelectArguments
from scheduler.rpc.codec.shapes import MOST_INSTANCES
from scheduler.rpc.context import RequestContext
from scheduler.rpc.explanations import MOST_HOSTS
from scheduler.rpc.failures import NoValidHost

# Of each kind of near misses that many are shown.
NEAR = 5
COLUMNS = ("Instance", "Host", "Node", "Availability Zone", "Limits", "Alternates")


class Select(Lister):  # type: ignore[misc]  # cliff has no types
    """Ask a scheduler on which hosts instances should run, and show its answer.

    It claims room for the instances, as for any caller. The room is given back when the answer is
    there, since nothing is built. With --dry-run nothing is claimed, and the scheduler says why.
    """

    def get_parser(self, prog_name: str) -> Any:
        parser = super().get_parser(prog_name)
        size = parser.add_argument_group("size of an instance")
        size.add_argument(
            "--vcpus", type=positive, default=1, metavar="N", help="Virtual CPUs (1)."
        )
        size.add_argument(
            "--memory-mb", type=positive, default=512, metavar="MB", help="Memory in MB (512)."
        )
        size.add_argument(
            "--disk-gb", type=not_negative, default=0, metavar="GB", help="Root disk in GB (0)."
        )
        wanted.add_conditions(parser.add_argument_group("what instances ask for"))
        where = parser.add_argument_group("where it may run")
        wanted.add_zone(where)
        where.add_argument(
            "--ignore-host",
            action="append",
            metavar="HOST",
            help="Host on which the instances must not be; may be repeated.",
        )
        where.add_argument(
            "--force-host",
            action="append",
            metavar="HOST",
            help="Host on which the instances must be, whatever filters say; may be repeated.",
        )
        parser.add_argument(
            "--num-instances",
            type=_count,
            default=1,
            metavar="N",
            help=f"How many instances (1), {MOST_INSTANCES} at most.",
        )
        parser.add_argument(
            "--alternates", action="store_true", help="Also show where to try again."
        )
        how = parser.add_mutually_exclusive_group()
        how.add_argument(
            "--keep",
            action="store_true",
            help="Keep the claims until their leases end; otherwise they are given back at once.",
        )
        how.add_argument(
            "--dry-run",
            action="store_true",
            help="Claim nothing, and show how the decision comes about: hosts left by each filter,"
            " weights, and of a request that fails all reasons of all hosts.",
        )
        parser.add_argument(
            "--limit",
            type=positive,
            default=explanation.MOST,
            metavar="N",
            help=f"How many hosts a dry run shows at most ({explanation.MOST}); -f json has all of"
            " them.",
        )
        parser.add_argument(
            "--timeout", type=seconds, metavar="S", help="Seconds to wait (rpc_response_timeout)."
        )
        checked_together(parser, _format_without_story)
        return parser

    def run(self, parsed_args: Any) -> int:
        """Show the answer as cliff does, and a dry run as a story."""
        if not parsed_args.dry_run:
            return int(super().run(parsed_args))
        uuids = _uuids(parsed_args)
        asked = SelectArguments(_spec(parsed_args, uuids), [*uuids], True, parsed_args.alternates)
        most = parsed_args.limit if parsed_args.formatter == "table" else MOST_HOSTS
        with closing(SchedulerClient(conf_of(self.app))) as client:
            found = client.explain_destinations(
                _caller(parsed_args), asked, parsed_args.timeout, most=most, near=NEAR
            )
        if parsed_args.formatter == "json":
            json.dump(found, self.app.stdout, indent=2)
            self.app.stdout.write("\n")
        else:
            write_story(_story(found, parsed_args.limit), self.app.stdout)
        if found["decision"]["shortage"]:
            # What a tenant would be told.
            raise NoValidHost(found["decision"]["shortage"]["reason"])
        return 0

    def take_action(self, parsed_args: Any) -> tuple[Any, Any]:
        uuids, caller = _uuids(parsed_args), _caller(parsed_args)
        conf = conf_of(self.app)
        try:
            with closing(SchedulerClient(conf)) as client:
                destinations = client.select_destinations(
                    caller,
                    _spec(parsed_args, uuids),
                    uuids,
                    parsed_args.alternates,
                    parsed_args.timeout,
                )
        except NoValidHost as refused:
            if not conf.decisions.keep:
                raise
            hint = f"'berthmaster explain {caller.request_id}' says why"
            raise OperationRefused(f"{refused}\n{hint}") from None
        if not parsed_args.keep:
            _give_back(self.app, uuids)
        return COLUMNS, [
            # The fake driver answers with nothing.
            _row(uuid, selections)
            for uuid, selections in zip(uuids, destinations, strict=False)
        ]


def _format_without_story(asked: Any) -> str | None:
    if asked.dry_run and asked.formatter not in ("table", "json"):
        return f"--dry-run knows the formats table and json, not {asked.formatter}"
    return None


def _count(text: str) -> int:
    return whole(text, 1, MOST_INSTANCES)


def _uuids(asked: Any) -> list[str]:
    return [str(uuid4()) for _ in range(asked.num_instances)]


def _caller(asked: Any) -> RequestContext:
    return RequestContext(request_id=f"req-{uuid4()}", project_id=asked.project, is_admin=True)


def _story(found: dict[str, Any], most: int) -> list[str | Table]:
    """Return the story of all instances together, then that of the one that is explained."""
    explained, placements = found["explanation"], found["decision"]["placements"]
    rows = [
        (
            each["instance_uuid"],
            each["chosen"]["host"],
            each["chosen"]["nodename"],
            explanation.weight(each["chosen"]["weight"]),
            ", ".join(other["host"] for other in each["alternates"]),
        )
        for each in placements
    ]
    columns = ("Instance", "Host", "Node", "Weight", "Alternates")
    where = Table("Where the instances would go; nothing is claimed", columns, rows)
    return [where, explanation.headline(explained), *explanation.told(explained, most)]


def _give_back(app: App, uuids: list[str]) -> None:
    """End the claims for instances that nobody is going to build."""
    try:
        write(app, claims.release, uuids)
    except (DatabaseUnavailable, SchemaError, ClaimLost) as error:
        print(f"What was claimed stays until its lease ends: {error}", file=sys.stderr)


def _spec(asked: Any, uuids: list[str]) -> RequestSpec:
    """Return the request; raises Malformed."""
    return replace(
        wanted.request(asked, Flavor(asked.vcpus, asked.memory_mb, asked.disk_gb)),
        instance_uuid=uuids[0],
        num_instances=len(uuids),
        ignore_hosts=asked.ignore_host,
        force_hosts=asked.force_host,
    )


def _row(uuid: str, selections: list[Selection]) -> tuple[Any, ...]:
    chosen, *alternates = selections
    limits = chosen.limits
    set_limits = {
        name: getattr(limits, name)
        for name in ("vcpu", "memory_mb", "disk_gb")
        if getattr(limits, name, None) is not None
    }
    return (
        uuid,
        chosen.service_host,
        chosen.nodename,
        chosen.availability_zone or "",
        set_limits,
        [alternate.service_host for alternate in alternates],
    )
