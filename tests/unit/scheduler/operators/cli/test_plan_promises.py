# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the help of each 'plan' command promises, tried on clouds that make it hard to keep."""

import json

import pytest

from inventory import aggregates
from tests.databases import a_node, an_instance, execute, save, serve
from tests.fixtures.command import Command
from tests.unit.scheduler.operators.cli.test_plan import plan, put, stats

GB = 1024
FLAVOR = "--flavor=1,60000,0"
# Each command, where evacuation was not asked for.
UNASKED = {
    "consolidate": ["consolidate"],
    "balance": ["balance", "--margin=1"],
    "make-room": ["make-room", FLAVOR, "--number=9"],
    "drain": ["drain", "h1"],
}


def guests(database, host, *sizes, **changes):
    """Write a host with instances of so many GB, as its agent does."""
    rows = [an_instance(f"{host}-{n}", memory_mb=gb * GB) for n, gb in enumerate(sizes)]
    free = 65536 - GB * sum(sizes)
    ratio = {"initial_ram_allocation_ratio": 1.0}
    node = a_node(host, stats=stats(len(sizes)), free_ram_mb=free, **ratio, **changes)
    save(database, node)
    put(database, host, *rows)


@pytest.fixture
def five(database):
    """Five hosts of 64 GB: the first is down, with instances that all others would take."""
    for number, sizes in enumerate([(8, 8, 8), (8,), (8, 8, 8, 8), (16, 8), (8, 8)]):
        guests(database, f"h{number}", *sizes)
    serve(database, *(f"h{number}" for number in range(5)))
    execute(database, "UPDATE services SET forced_down = 1 WHERE host = 'h0'")
    return database


@pytest.fixture
def command_without_filters(url, tmp_path):
    """The command of a cloud whose filters do not look at services."""
    config = tmp_path / "no-filters.conf"
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        "[filter_scheduler]\nenabled_filters = RamFilter\n"
    )
    return Command(config)


def found(command, *arguments):
    """Return a plan, whether or not it reaches its goal."""
    done = command.run("plan", *arguments, "-f", "json")
    assert done.status in (0, 1), done.stderr
    return json.loads(done.stdout)


def hosts_of(document):
    return {each[end] for each in document["moves"] for end in ("from", "to")}


@pytest.mark.parametrize("goal", [*UNASKED])
@pytest.mark.parametrize("filters", ["usual", "few"])
def test_nothing_is_evacuated_that_nobody_asked_for(
    command, command_without_filters, five, goal, filters
):
    """A host is down when the database was silent for a minute, while its instances run."""
    asked = command if filters == "usual" else command_without_filters
    if goal == "make-room":
        # Only what would leave the host that is down would make room everywhere else.
        guests(five, "h1", 64)
    document = found(asked, *UNASKED[goal])
    assert document["cost"]["by_kind"]["evacuation"] == 0
    assert all(each["from"] != "h0" for each in document["moves"])
    script = asked.run("plan", *UNASKED[goal], "-f", "script").stdout
    assert "evacuate" not in script


@pytest.mark.parametrize("state", ["forced_down", "disabled"])
@pytest.mark.parametrize("goal", ["consolidate", "balance"])
def test_hosts_that_are_disabled_or_down_stay_as_they_are(
    command_without_filters, five, goal, state
):
    execute(five, "UPDATE services SET forced_down = 0")
    execute(five, f"UPDATE services SET {state} = 1 WHERE host = 'h2'")
    document = found(command_without_filters, *UNASKED[goal])
    assert document["moves"]
    assert "h2" not in hosts_of(document)


@pytest.mark.parametrize("state", ["forced_down", "disabled"])
def test_an_empty_host_that_is_out_of_service_does_not_count_in_the_spread(command, five, state):
    for number in range(4):
        guests(five, f"h{number}", 16)
    guests(five, "h4")
    execute(five, "UPDATE services SET forced_down = 0")
    execute(five, f"UPDATE services SET {state} = 1 WHERE host = 'h4'")
    document = plan(command, "balance", "--margin=1")
    assert (document["result"]["before"], document["moves"]) == (0, [])


def test_a_host_without_a_heartbeat_is_down_as_well(command, five):
    execute(five, "UPDATE services SET forced_down = 0")
    execute(five, "UPDATE services SET last_seen_up = '2020-01-01 00:00:00' WHERE host = 'h0'")
    document = found(command, "consolidate")
    assert document["moves"]
    assert "h0" not in hosts_of(document)


def test_evacuations_are_those_of_the_named_host_alone(command, five):
    """Instances of another host that is down do not move, even where they would make room."""
    execute(five, "UPDATE services SET forced_down = 1 WHERE host IN ('h0', 'h2')")
    document = plan(command, "drain", "h0")
    assert {each["from"] for each in document["moves"]} == {"h0"}
    assert document["cost"]["by_kind"]["evacuation"] == 3
    document = plan(command, "repair")
    assert {each["from"] for each in document["moves"]} == {"h0", "h2"}
    assert document["cost"]["by_kind"]["evacuation"] == 7


def test_what_was_evacuated_moves_on_as_usual(command, five):
    """In the stages after that it is on a host that runs, which refuses an evacuation."""
    for host, sizes in {"h1": (30, 30), "h2": (30, 30), "h3": (26,), "h4": (30,)}.items():
        guests(five, host, *sizes)
    document = found(command, "drain", "h0", "h3", "h4", "--at-most=1")
    moved = {}
    for each in document["moves"]:
        moved.setdefault(each["instance"], []).append(each["how"])
    assert ["evacuation", "live migration"] in moved.values()
    assert all("evacuation" not in kinds[1:] for kinds in moved.values())


@pytest.mark.parametrize("goal", [*UNASKED, "repair"])
def test_nothing_goes_to_a_host_that_is_down(command_without_filters, five, goal):
    guests(five, "h0")
    document = found(command_without_filters, *UNASKED.get(goal, ["repair"]))
    assert all(each["to"] != "h0" for each in document["moves"])


def test_a_check_refuses_moves_of_another_kind_than_planned(command, five, tmp_path):
    evacuation, migration = tmp_path / "evacuation.json", tmp_path / "migration.json"
    evacuation.write_text(command.run("plan", "drain", "h0", "-f", "json").stdout)
    migration.write_text(command.run("plan", "drain", "h1", "-f", "json").stdout)
    assert command.json("plan", "check", str(evacuation))["states"] == {"possible": 3}
    execute(five, "UPDATE services SET forced_down = 0 WHERE host = 'h0'")
    execute(five, "UPDATE services SET forced_down = 1 WHERE host = 'h1'")
    for path, why in (
        (evacuation, "the instance can be moved by live migration now, not by evacuation"),
        (migration, "the instance is on a host that is down: only 'plan drain' with the name"),
    ):
        document = json.loads(command.run("plan", "check", str(path), "-f", "json").stdout)
        assert {each["state"] for each in document["moves"]} == {"impossible"}
        assert all(each["why"].startswith(why) for each in document["moves"])


@pytest.mark.parametrize("goal", [["repair"], ["drain", "h0"], ["consolidate"], ["balance"]])
def test_every_instance_stays_in_its_zone_with_keep_zone(command, five, goal):
    zones = {"north": ["h0", "h1"], "south": ["h2", "h3"]}
    for name, hosts in zones.items():
        zone = {"availability_zone": name}
        five.write(lambda c, n=name, h=hosts, z=zone: aggregates.create(c, n, h, z))
    guests(five, "h3", 8)
    zone_of = {host: name for name, hosts in zones.items() for host in hosts}
    document = found(command, *goal, "--keep-zone")
    assert all(zone_of.get(each["from"]) == zone_of.get(each["to"]) for each in document["moves"])
    assert document["moves"]


@pytest.mark.parametrize("budget", ["--max-moves=2", "--max-gb=9"])
@pytest.mark.parametrize("goal", ["consolidate", "balance"])
def test_a_plan_keeps_to_its_budget(command, five, goal, budget):
    document = found(command, *UNASKED[goal], budget)
    assert document["cost"]["moves"] <= 2
    assert budget != "--max-gb=9" or document["cost"]["memory_mb"] <= 9 * GB


def test_the_same_seed_gives_the_same_plan_of_consolidate(command, five):
    first = found(command, "consolidate", "--seed=7")
    assert first["moves"]
    assert found(command, "consolidate", "--seed=7") == first


def test_a_drained_host_takes_nothing_of_what_is_to_be_emptied_with_it(command, five):
    document = found(command, "drain", "h1", "h2", "h3", "-f", "json")
    assert {each["to"] for each in document["moves"]} == {"h4"}


def test_the_exit_status_says_whether_the_goal_is_reached(command, five):
    for goal in (["drain", "h1"], ["balance", "--margin=30"], ["make-room", "--flavor=1,8192,0"]):
        assert command.run("plan", *goal).status == 0, goal
    for goal in (
        ["drain", "h0", "h1", "h2", "h3", "h4"],
        ["balance", "--margin=1"],
        ["make-room", FLAVOR, "--number=4"],
    ):
        assert command.run("plan", *goal).status == 1, goal


def test_a_balance_names_the_hosts_and_what_keeps_instances_there(command, five):
    five.write(
        lambda c: c.exec_driver_sql("UPDATE instances SET task_state='spawning' WHERE uuid='h2-0'")
    )
    document = found(command, "balance", "--margin=1")
    (emptiest, low), (fullest, high) = (document["result"][e] for e in ("emptiest", "fullest"))
    assert high - low == pytest.approx(document["result"]["after"])
    kept = {each["instance"]: each["why"] for each in document["unplanned"]}
    assert {each["from"] for each in document["unplanned"]} == {fullest}
    assert set(kept.values()) <= {
        "is too large: hosts would differ more after its move",
        "is busy (spawning)",
        "no host takes it",
    }
    assert kept
    lines = command.run("plan", "balance", "--margin=1").stdout.splitlines()
    assert lines[0].endswith(
        f"({emptiest} with {100 * low:.1f} % to {fullest} with {100 * high:.1f} %)"
    )
    assert lines[1] == "The goal is not reached"
    assert any(line.startswith("| ") and kept[max(kept)][:12] in line for line in lines)
