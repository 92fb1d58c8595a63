# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The forecast of the command capacity: when flavors no longer fit, as a range of days."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from inventory import aggregates
from inventory.errors import NotReported, OperationRefused, counted
from inventory.objects.amounts import amounts_facts
from inventory.promises import facts_text
from inventory.queries.growth import Growth, read_growth
from scheduler.objects.flavor_and_image import Flavor
from scheduler.objects.request_spec import Destination, RequestSpec
from scheduler.operators.capacity import Simulator, fill
from scheduler.operators.cli.arguments import age_or_time, positive
from scheduler.operators.cli.base import Table
from scheduler.operators.cli.request_arguments import format_flavor
from scheduler.operators.fleet_usage import fleet_room
from scheduler.operators.live_hosts import LiveHosts
from scheduler.operators.simulation.forecast import RUNS, SizeGrowth, play, ranges_of
from scheduler.operators.simulation.synthetic_trace import flavor_of

_DAYS, _SINCE = 90, timedelta(days=7)
# What came in less than this says nothing of days.
_LEAST = timedelta(hours=1)
# Flavors, where none is given: the most usual.
_USUAL = 5
_COLUMNS = ("Flavor", "Where", "Fit Now", "No Longer Fits")
_GROWTH_COLUMNS = ("Flavor", "Came", "Left", "More A Day")


@dataclass(frozen=True, slots=True)
class Question:
    flavor: str
    where: str
    spec: RequestSpec


def add_forecast(parser: Any) -> None:
    add = parser.add_argument_group("forecast").add_argument
    add(
        "--forecast",
        action="store_true",
        help="Show instead after how many days the flavors no longer fit, by zone and aggregate,"
        " if the cloud goes on growing; by default the flavors that are requested most, up"
        f" to {_USUAL}.",
    )
    what = f"Days to look ahead (default: {_DAYS})."
    add(
        "--days", type=lambda text: positive(text, most=3650), default=_DAYS, metavar="N", help=what
    )
    what = (
        "Time from which growth is counted: an age such as 12h or 2d, or a time in UTC (default:"
        f" {_SINCE.days}d)."
    )
    add("--since", type=age_or_time, metavar="TIME", help=what)


def usual_flavors(live: LiveHosts) -> list[Flavor]:
    """Return the most requested flavors; raises OperationRefused if none is known."""
    with live.destinations.host_cache.current() as hosts:
        found = [flavor_of(each.size) for each in hosts.flavor_mix[:_USUAL]]
    if not found:
        raise OperationRefused(
            "no usual flavors are known, since there are no requests and no instances yet: give"
            " --flavor"
        )
    return found


def make_forecast(
    live: LiveHosts,
    specs: Sequence[RequestSpec],
    args: Any,
    default_zone: str,
    simulator: Simulator,
) -> dict[str, Any]:
    """Return all facts of a forecast for these requests; raises OperationRefused.

    The simulator's progress is told how many possible futures were played.
    """
    hosts = live.table(specs[0])
    if not len(hosts):
        raise NotReported("no host has reported yet; see 'host list'")
    since = args.since or datetime.now(UTC).replace(tzinfo=None) - _SINCE
    growth = live.database.read(lambda connection: read_growth(connection, since))
    if growth is None:
        raise OperationRefused(
            "no decision is saved since that time, so growth is not known: give an earlier --since"
        )
    if growth.come_days < _LEAST / timedelta(days=1):
        raise OperationRefused(
            "the oldest saved decision since that time is less than an hour old, so growth cannot"
            " be computed: give an earlier --since, or wait"
        )
    sizes = [*_sizes(growth)]
    questions = live.database.read(
        lambda connection: [*_questions(connection, specs, default_zone)]
    )
    promises = fleet_room(hosts).promises
    asked = [each.spec for each in questions]
    quiet = replace(simulator, progress=lambda _: None)
    fit_now = [fill(hosts.working_copy(), each, quiet) for each in asked]
    futures = play(hosts, sizes, asked, simulator, args.days)
    if not futures:
        raise OperationRefused(
            "no possible future was played to its end before Ctrl-C or --time-limit: allow more"
            " time, or ask for fewer --days or flavors"
        )
    ranges = ranges_of(futures)
    return {
        "days": args.days,
        "futures": len(futures),
        "interrupted": len(futures) < RUNS,
        "counted_days": round(growth.come_days, 3),
        "promised": [{"for": what, **amounts_facts(amounts)} for what, amounts in promises.lines()],
        "growth": [
            {
                "flavor": format_flavor(each.spec.flavor),
                "came": each.come,
                "left": each.left,
                "left_days": each.left_days,
                "more_a_day": round(each.a_day, 3),
            }
            for each in sizes
        ],
        "forecasts": [
            {
                "flavor": question.flavor,
                "where": question.where,
                "fit_now": filling.rows.total(),
                "earliest_days": earliest,
                "latest_days": latest,
            }
            for question, filling, (earliest, latest) in zip(
                questions, fit_now, ranges, strict=True
            )
        ],
    }


def sections(found: Mapping[str, Any]) -> Iterator[str | Table]:
    rows = [
        (each["flavor"], each["where"], each["fit_now"], _phrase(each, found["days"]))
        for each in found["forecasts"]
    ]
    yield f"If growth goes on as in the last {found['counted_days']:.1f} days:"
    yield Table("", _COLUMNS, rows)
    if found["interrupted"]:
        yield (
            f"Ctrl-C, or the time limit, has ended the forecast after {found['futures']} of {RUNS}"
            " possible futures: the ranges are uncertain"
        )
    for each in found["promised"]:
        yield f"In use on all of these days: {facts_text(each)} held for {each['for']}"
    grown = [
        (each["flavor"], each["came"], each["left"], f"{each['more_a_day']:+.1f}")
        for each in found["growth"]
    ]
    title = (
        "Instances that came in these days and still exist, and older instances that left in the"
        " last day"
    )
    yield Table(title, _GROWTH_COLUMNS, grown)


def _sizes(growth: Growth) -> Iterator[SizeGrowth]:
    """Yield the growth of each size, the largest first."""
    every = {*growth.come, *growth.left}
    found = [
        SizeGrowth(
            RequestSpec(flavor_of(size)),
            growth.come.get(size, 0),
            growth.come_days,
            growth.left.get(size, 0),
            growth.left_days,
        )
        for size in sorted(every)
    ]
    yield from sorted(found, key=lambda each: -abs(each.a_day))


def _questions(
    connection: sa.Connection, specs: Sequence[RequestSpec], default_zone: str
) -> Iterator[Question]:
    """Yield each flavor wherever it is asked for, in each zone and in each aggregate."""
    records = aggregates.everything(connection)
    zones = sorted({zone for each in aggregates.zones_by_host(records).values() for zone in each})
    for spec in specs:
        flavor = format_flavor(spec.flavor)
        yield Question(flavor, "all", spec)
        if spec.availability_zone is None:
            for zone in [*zones, default_zone] if zones else ():
                yield Question(flavor, f"zone {zone}", replace(spec, availability_zone=zone))
        if spec.requested_destination is None:
            for each in (record for record in records if not record.zones):
                place = Destination(aggregates=[each.uuid])
                yield Question(
                    flavor, f"aggregate {each.name}", replace(spec, requested_destination=place)
                )


def _phrase(found: Mapping[str, Any], days: int) -> str:
    earliest, latest = found["earliest_days"], found["latest_days"]
    if not found["fit_now"]:
        return "now"
    if earliest is None:
        return f"not within {counted(days, 'day')}"
    if latest is None:
        return f"in {_days(earliest)} days at the earliest"
    return f"in {_days(earliest)} to {_days(latest)} days"


def _days(number: float) -> str:
    return f"{number:.1f}" if number < 10 else f"{number:.0f}"
