# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of berthmaster capacity --forecast."""

from itertools import count

import pytest
import sqlalchemy as sa

from inventory import aggregates
from inventory.tables import decisions
from scheduler.operators.cli.waiting import WorkTime
from tests.databases import a_node, execute, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured

FORECAST = ("capacity", "--forecast")


@pytest.fixture
def cloud(database):
    """Four hosts of 16 vCPUs and 64 GB, of which one is in a zone and one in an aggregate."""
    hosts = [f"h{number}" for number in range(4)]
    save(database, *(a_node(host, cpu_allocation_ratio=1.0) for host in hosts))
    serve(database, *hosts)
    database.write(lambda c: aggregates.create(c, "rack", ["h0"], {"availability_zone": "z1"}))
    database.write(lambda c: aggregates.create(c, "fast", ["h1"], {"ssd": "true"}))
    return database


@pytest.fixture
def grown(command, cloud):
    """The cloud after eight instances of 2 vCPUs and 8 GB have come in two days."""
    with KeepingScheduler(cloud, configured(command.config)) as scheduler:
        for number in range(8):
            assert scheduler.ask(f"r{number}", vcpus=2, memory_mb=8192, root_gb=0)
    (now,) = cloud.read(lambda c: c.scalars(sa.select(sa.func.min(decisions.c.decided_at))).all())
    execute(cloud, "UPDATE decisions SET decided_at = datetime(:now, '-2 days')", now=now)
    return cloud


def by_place(document):
    return {(each["flavor"], each["where"]): each for each in document["forecasts"]}


def test_the_flavors_that_are_asked_for_end_when_the_hosts_are_full(command, grown):
    document = command.json(*FORECAST)
    assert document["counted_days"] == pytest.approx(2, abs=0.01)
    (size,) = document["growth"]
    assert (size["flavor"], size["came"], size["left"]) == ("2,8192,0", 8, 0)
    assert size["more_a_day"] == pytest.approx(4, abs=0.1)
    found = by_place(document)
    places = ("all", "zone z1", "zone nova", "aggregate fast")
    assert [*found] == [("2,8192,0", place) for place in places]
    everywhere = found["2,8192,0", "all"]
    # vCPUs are for 32, of which 8 are there: 24 more, at four a day.
    assert everywhere["fit_now"] == 24
    assert 2 < everywhere["earliest_days"] < 6 < everywhere["latest_days"] < 15
    for place in places[1:]:
        assert found["2,8192,0", place]["latest_days"] <= everywhere["latest_days"]
    text = command.run(*FORECAST).stdout
    assert "If growth goes on as in the last 2.0 days:" in text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    (row,) = (row for row in rows if row[1:2] == ["all"])
    earliest, latest = everywhere["earliest_days"], everywhere["latest_days"]
    assert row[2] == "24"
    assert row[3].startswith(f"in {earliest:.1f} to {latest:.0f}"[:6])
    assert ["2,8192,0", "8", "0", "+4.0"] in rows


def test_the_same_call_gives_the_same_ranges(command, grown):
    one, other = (command.json(*FORECAST)["forecasts"] for _ in range(2))
    assert one == other


def test_flavors_and_places_are_those_that_are_asked_for(command, grown):
    flavors = ("--flavor=16,32768,0", "--flavor=17,1,0", "--flavor=1,1,0")
    found = by_place(command.json(*FORECAST, *flavors, "--availability-zone=nova", "--days=3"))
    assert {place for _, place in found} == {"all", "aggregate fast"}
    assert found["17,1,0", "all"]["latest_days"] == found["17,1,0", "all"]["fit_now"] == 0
    # Eight instances were spread over four hosts, so none is empty.
    assert found["16,32768,0", "all"]["fit_now"] == 0
    assert found["1,1,0", "all"]["earliest_days"] is None
    lines = command.run(*FORECAST, *flavors, "--days=3").stdout.splitlines()
    assert any("1,1,0" in line and "not within 3 days" in line for line in lines)
    assert any("17,1,0" in line and "| now " in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["capacity"], "the following arguments are required: --flavor"),
        (["capacity", "--flavor=1,1,1", "--since=1d"], "argument --since: is for --forecast only"),
        ([*FORECAST, "--together"], "argument --together: cannot be used with --forecast"),
        ([*FORECAST, "--max=3"], "argument --max: cannot be used with --forecast"),
        (
            [*FORECAST, "--group-policy=affinity"],
            "argument --group-policy: cannot be used with --forecast",
        ),
        ([*FORECAST, "--days=0"], "'0' is not a whole number from 1 to 3650"),
        ([*FORECAST, "--since=noon"], "'noon' is neither an age"),
    ],
)
def test_what_means_nothing_is_refused(command, database, arguments, cause):
    assert cause in command.refused(*arguments, status=2)


def test_what_cannot_be_known_says_why(command, cloud):
    assert command.refused(*FORECAST).endswith(
        "no usual flavors are known, since there are no requests and no instances yet: give"
        " --flavor"
    )
    refused = command.refused(*FORECAST, "--flavor=1,1024,0")
    assert (
        "no decision is saved since that time, so growth is not known: give an earlier --since"
        in refused
    )
    with KeepingScheduler(cloud, configured(command.config)) as scheduler:
        scheduler.ask("just now")
    refused = command.refused(*FORECAST, "--flavor=1,1024,0")
    assert "is less than an hour old, so growth cannot be computed" in refused


def test_without_hosts_there_is_nothing_to_forecast(command, database):
    refused = command.refused(*FORECAST, "--flavor=1,1024,0")
    assert "no host has reported yet" in refused


def test_what_is_held_stays_in_use(command, grown):
    before = by_place(command.json(*FORECAST))["2,8192,0", "all"]["fit_now"]
    place = ("--flavor=2,8192,1", "--project=p1", "--number=3")
    command.json("reservation", "create", "gold", *place)
    document = command.json(*FORECAST)
    assert by_place(document)["2,8192,0", "all"]["fit_now"] == before - 3
    (held,) = document["promised"]
    assert held["for"] == "reservation gold of project p1"
    text = "6 vCPUs, 24576 MB of memory, 3072 MB of disk held for reservation gold of project p1"
    assert f"In use on all of these days: {text}" in command.run(*FORECAST).stdout


def test_a_forecast_that_was_ended_is_of_the_futures_that_were_played(command, grown, monkeypatch):
    whole = by_place(command.json(*FORECAST))["2,8192,0", "all"]
    assert command.json(*FORECAST)["interrupted"] is False
    turns = count()
    monkeypatch.setattr(WorkTime, "__call__", lambda _: next(turns) < 400)
    document = command.json(*FORECAST)
    assert document["interrupted"]
    assert 0 < document["futures"] < 20
    found = by_place(document)["2,8192,0", "all"]
    assert found["fit_now"] == whole["fit_now"]
    turns = count()
    text = command.run(*FORECAST).stdout
    assert f"after {document['futures']} of 20 possible futures" in text


def test_a_forecast_without_any_future_is_an_error(command, grown):
    message = command.refused(*FORECAST, "--time-limit=0.001")
    assert message.startswith("no possible future was played to its end before Ctrl-C")
