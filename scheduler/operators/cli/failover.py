# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The commands about the loss of hosts: what would become of instances, and who has a standby."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from inventory.claims.standby_rows import protected
from inventory.errors import NotFound, OperationRefused, counted, nearest, some
from scheduler.hosts.failure_domains import doubtful
from scheduler.hosts.table import HostTable
from scheduler.operators.cli import plan_report
from scheduler.operators.cli.arguments import add_flag, add_named, check_combination
from scheduler.operators.cli.base import ReportCommand, Table
from scheduler.operators.cli.live_fleet import UNKNOWN, add_keep_zone, read_fleet
from scheduler.operators.cli.live_table import BLIND_SPOTS, live_hosts
from scheduler.operators.cli.table_format import titled
from scheduler.operators.cli.terminal import progress
from scheduler.operators.cli.waiting import WorkTime
from scheduler.operators.planning.failover import (
    FailureDomain,
    count_places,
    failure_domains,
    simulate,
)
from scheduler.operators.planning.fleet import Fleet
from scheduler.operators.planning.types import KeepGoing

PLACES = ("Instance", "From", "To", "Memory MB")
DOMAINS = ("Domain", "Hosts", "Instances", "Placed", "Refused")
STATUS = titled("instance host domain standby mode reason", domain="Failure domain")
# With the places of reservations that are protected.
PLACE = {"reservation": "Place of"}


class FailoverSimulate(ReportCommand):
    __doc__ = f"""Say which instances of a failure domain or host would have a place if it died.

    A failure domain has the hosts of all aggregates with its name as property failure_domain, such
    as the hosts of a rack. A host without a failure domain is a domain of its own. The instances
    are evacuated on a copy of the hosts as they are now, the largest first, as the schedulers would
    place them. No other instance moves to make room. Without a name, the loss of each domain is
    simulated in turn. Ctrl-C ends the search and shows what it has found. The exit status is 0 if
    every instance would have a place, else 1. {UNKNOWN} Nothing is changed or held. {BLIND_SPOTS}
    """

    def add_arguments(self, parser: Any) -> None:
        what = "Name of a failure domain or of a host (default: every domain in turn)."
        add_named(parser, "name", "failure domains and hosts", what, nargs="?")
        kind = parser.add_mutually_exclusive_group()
        add_flag(kind, "--domain", "The name is that of a failure domain.")
        add_flag(kind, "--host", "The name is that of a host.")
        add_keep_zone(parser)
        check_combination(parser, _without_name)

    def take_action(self, args: Any) -> int:
        with live_hosts(self.app) as live:
            fleet = read_fleet(self, live, args)
        domains = failure_domains(fleet.hosts)
        for text in doubtful(fleet.hosts):
            fleet.hosts.warn(text)
        if args.name is not None:
            domains = [_domain(fleet.hosts, domains, args)]
        total = sum(len(fleet.on(row)) for each in domains for row in each.rows)
        with (
            progress(self.app, "instances decided", total) as show,
            (work := WorkTime()).until_interrupted(),
        ):
            numbers = count()

            def keep_going() -> bool:
                show(next(numbers))
                return work()

            document = _simulated(fleet, domains, args.name is None, keep_going)
        document["interrupted"] = work.interrupted
        sections = _domains(document) if args.name is None else _places(document)
        warnings = (f"Warning: {text}" for text in document["warnings"])
        self.report(args, [*sections, document["unknown"], *warnings], document)
        return 0 if document["complete"] else 1


def _without_name(args: Any) -> str | None:
    option = "--domain" if args.domain else "--host" if args.host else None
    return f"argument {option}: needs a name" if option and args.name is None else None


def _domain(hosts: HostTable, domains: Sequence[FailureDomain], args: Any) -> FailureDomain:
    """Return the domain or the host of a name; raise NotFound, or OperationRefused for both."""
    name = args.name
    named = {} if args.host else {each.name: each for each in domains if not each.is_host}
    domain, rows = named.get(name), hosts.rows_of_host(name)
    if domain is not None:
        if rows and {*rows} != {*domain.rows} and not args.domain:
            raise OperationRefused(
                f"{name!r} is the name of a host and of a failure domain of other hosts: add"
                " --host or --domain"
            )
        return domain
    if not args.domain:
        rows = rows or hosts.rows_of_host(name, any_case=True)
        if rows:
            return FailureDomain(hosts.get(rows[0], "host"), [*rows], is_host=True)
    what = "failure domain" if args.domain else "host" if args.host else "failure domain or host"
    known = {*named} | (set() if args.domain else {hosts.get(row, "host") for row in hosts.rows()})
    hint = nearest(name, known, "'failover simulate' without a name lists all")
    raise NotFound(f"there is no {what} {name!r}; {hint}")


def _simulated(
    fleet: Fleet, domains: Sequence[FailureDomain], one_by_one: bool, keep_going: KeepGoing
) -> dict[str, Any]:
    """Return all facts of the loss of one domain, or the figures of each, as far as decided."""
    if not one_by_one:
        return plan_report.document(simulate(fleet, domains[0], keep_going), fleet)
    found = []
    for each in domains:
        outcome = count_places(fleet, each, keep_going)
        if outcome.placed + outcome.refused < outcome.instances:
            break
        found.append(each.facts(fleet.hosts, outcome))
    return {
        "version": plan_report.VERSION,
        "complete": len(found) == len(domains) and not any(each["refused"] for each in found),
        "domains": found,
        "number_of_domains": len(domains),
        "unknown": UNKNOWN,
        "warnings": list(fleet.hosts.warnings),
    }


def _domains(found: Mapping[str, Any]) -> Iterator[str | Table]:
    domains = found["domains"]
    lost = [each["domain"] for each in domains if each["refused"]]
    named = f"; the loss of {some(lost)} would not" if lost else ""
    number = counted(len(domains), "failure domain")
    yield f"The loss of {len(domains) - len(lost)} of {number} would be survived{named}"
    if found["interrupted"]:
        yield (
            f"Interrupted: {len(domains)} of"
            f" {counted(found['number_of_domains'], 'failure domain')} were simulated"
        )
    keys = ("instances", "placed", "refused")
    rows = [(each["domain"], len(each["hosts"]), *(each[key] for key in keys)) for each in domains]
    yield Table("", DOMAINS, rows)


def _places(found: Mapping[str, Any]) -> Iterator[str | Table]:
    result = found["result"]
    number = counted(result["instances"], "instance")
    yield (
        f"{result['domain']}: {number} on {counted(len(result['hosts']), 'host')},"
        f" {result['placed']} would have a place, {result['refused']} would not"
    )
    if found["interrupted"]:
        decided = result["placed"] + result["refused"]
        yield f"Interrupted: {decided} of {number} were simulated"
    rows = [
        (each["instance"], each["from"], each["to"], each["memory_mb"]) for each in found["moves"]
    ]
    yield Table("", PLACES, rows)
    yield from plan_report.notes(found["moves"])
    yield from plan_report.left(found["unplanned"])


class FailoverStatus(ReportCommand):
    """Say which instances are protected, and on which hosts their standbys are.

    A standby is room on a host of another failure domain, held for the evacuation of the instance.
    Places of reservations with standbys are listed, too; a place without an instance has an id of
    its own. The exit status is 0 if every protected instance has a standby, else 1.
    """

    def add_arguments(self, parser: Any) -> None:
        what = "Id of a project: show only the instances of this project."
        add_named(parser, "--project", "projects", what, metavar="PROJECT")
        parser.add_argument(
            "--without", action="store_true", help="Show only the instances without a standby."
        )

    def take_action(self, args: Any) -> int:
        found = self.read(protected, args.project, args.without)
        lacking = sum(each["standby"] is None for each in found)
        document = {"version": 1, "complete": not lacking, "instances": found}
        self.report(args, _protected(document, args.without), document)
        return 1 if lacking else 0


def _protected(document: Mapping[str, Any], without: bool) -> Iterator[str | Table]:
    found = document["instances"]
    lacking = sum(each["standby"] is None for each in found)
    if without:
        have = counted(lacking, "protected instance has", "protected instances have")
        yield f"{have} no standby"
    else:
        number = counted(len(found), "protected instance")
        have = "has a standby" if len(found) == 1 else "have standbys"
        yield f"{len(found) - lacking} of {number} {have}"
    if found:
        titles = STATUS | (PLACE if any(each["reservation"] for each in found) else {})
        rows = [[each[key] or "" for key in titles] for each in found]
        yield Table("", tuple(titles.values()), rows)
