# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command explain, on decisions that a scheduler has made and saved."""

import re
from dataclasses import replace

import pytest
import sqlalchemy as sa

from inventory import aggregates
from inventory.operations import service_operations
from inventory.tables import decision_inputs, decisions
from scheduler.history.saved_decision import from_database
from scheduler.operators.cli import decision
from tests.builders import a_group
from tests.databases import a_node, a_uuid, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of
from tests.unit.scheduler.history.batches import as_version_2

# Its decisions stay.
WITHOUT_HOSTS = sa.delete(decision_inputs).where(decision_inputs.c.first >= 0)
# Room for four, three and two instances of 2048 MB.
FREE = {"host-1": 8192, "host-2": 6144, "host-3": 4096}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Do not wait for decisions."""
    monkeypatch.setattr(decision, "WRITE_TIMEOUT", 0.0)


@pytest.fixture
def scheduler(database, command, tmp_path):
    """A scheduler of three hosts, of which the one with the most memory is the best.

    The command does not know its configuration.
    """
    for host, mb in FREE.items():
        node = a_node(host, memory_mb=8192, free_ram_mb=mb, ram_allocation_ratio=1.0)
        save(database, node)
    serve(database, *FREE)
    config = tmp_path / "scheduler.conf"
    config.write_text(
        command.config.read_text() + "[filter_scheduler]\nweight_classes = RAMWeigher\n"
    )
    return KeepingScheduler(database, configured(config))


@pytest.fixture
def output(command):
    """Return a function that gives what explain prints."""

    def explain(*arguments):
        done = command.run("explain", *arguments)
        assert done.status == 0, done
        return done.stdout

    return explain


def refusals(document):
    return {
        each["host"]: {one["filter"]: one["reason"] for one in each["refusals"]}
        for each in document["explanation"]["verdicts"]
    }


def test_a_refusal_names_every_reason_of_every_host(scheduler, database, command, output):
    database.write(lambda c: aggregates.create(c, "east", ["host-1"], {"availability_zone": "e"}))
    database.write(lambda c: service_operations.disable(c, ["host-2"], "new disks"))
    with scheduler:
        assert scheduler.ask("big", availability_zone="nova", memory_mb=5000) == []
    text = output("req-big")
    assert text.startswith(
        "0 of 3 hosts: 1 AvailabilityZoneFilter (is in zone e, not in nova), 1 ComputeFilter"
        " (compute service disabled: new disks), 1 RamFilter (needs 5000 MB, most free 4096)\n"
        f"There was no host for instance {a_uuid('big 0')}.\nDecision 1 of "
    )
    for line in (
        " by scheduler s1 for req-big\n",
        "Request: 1 x 2 vCPUs, 5000 MB of memory, 20480 MB of disk (flavor m1.small)\n",
        "Where: zone nova\n",
        "Outcome: refused: no host; the tenant was told 'There are not enough hosts available.'\n",
        "| AvailabilityZoneFilter |      3 |     2 |\n",
    ):
        assert line in text
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert rows[-4:-1] == [
        ["host-3", "RamFilter", "needs 5000 MB of memory, 4096 left of 8192 x 1.0"],
        ["host-2", "ComputeFilter", "compute service disabled: new disks"],
        ["host-1", "AvailabilityZoneFilter", "is in zone e, not in nova"],
    ]
    document = command.json("explain", a_uuid("big 0"), "--near-miss")
    assert document["same"] is True
    assert document["decisions"] == [1]
    assert refusals(document)["host-3"].keys() == {"RamFilter"}
    (amount, *single) = document["explanation"]["near_misses"]
    assert (amount["host"], amount["lacks"]) == ("host-3", {"memory_mb": 904})
    assert [each["only_obstacle"][0] for each in single] == [
        "AvailabilityZoneFilter",
        "ComputeFilter",
    ]
    assert command.run("explain", "1", "--limit=1").stdout.count("| host-") == 1


def test_what_would_have_been_enough(scheduler, output):
    with scheduler:
        scheduler.ask("big", memory_mb=8200)
    text = output("req-big", "--near-miss")
    assert "8 MB of memory less, for host-1" in text
    assert "Why hosts were refused" not in text


def test_nothing_would_have_been_enough_or_was_missing(scheduler, command, output):
    with scheduler:
        scheduler.ask("big", memory_mb=8200, availability_zone="x", extra_specs={"hw:a": "1"})
        scheduler.ask("small")
    text = output("req-big", "--near-miss")
    assert "Where: zone x\nExtra specs: hw:a=1\n" in text
    assert "No single change would have been enough.\n" in text
    assert "No change was needed.\n" in command.run("explain", "req-small", "--near-miss").stdout


def test_a_placement_has_the_weights_of_the_best_hosts(scheduler, command, output):
    with scheduler:
        assert scheduler.ask("one") == ["host-1"]
    text = output(a_uuid("one 0"))
    assert "Outcome: placed on host-1\n" in text
    assert "out of 3 hosts, 3 of which pass all filters." in text
    assert "RAMWeigher" in text
    text = command.run("explain", "req-one", "--host=HOST-3").stdout
    assert "host-3 passes all filters and is number 3 of 3, 0.500 behind host-1" in text
    assert "RAMWeigher" in text
    assert "host-1 was chosen" in command.run("explain", "1", "--host", "host-1").stdout


def test_why_a_host_was_refused(scheduler, command, output):
    with scheduler:
        scheduler.ask("one", memory_mb=5000, vcpus=100)
    text = output("req-one", "--host=host-3")
    assert "host-3 is refused by 2 filters.\n" in text
    assert "needs 5000 MB of memory, 4096 left of 8192 x 1.0" in text
    assert "needs 100 vCPUs, the host has only 16" in text
    assert "host-1" not in text
    assert command.refused("explain", "req-one", "--host=hots-3") == (
        "there was no host 'hots-3'; did you mean host-3, host-1 or host-2?"
    )
    assert command.refused("explain", "req-one", "--host=x") == (
        "there was no host 'x'; the decision had 3 hosts"
    )


def test_of_several_instances_the_first_is_explained_or_another(scheduler, command, output):
    with scheduler:
        assert scheduler.ask("web", 3) == ["host-1", "host-1", "host-2"]
    uuids = uuids_of("web", 3)
    text = output("req-web")
    assert "Request: 3 x 2 vCPUs" in text
    assert "Outcome: placed on host-1, host-2\n" in text
    assert "This is about instance 1 of 3; use --instance UUID for another instance.\n" in text
    assert f"Instance {uuids[0]} goes to host-1" in text
    for way in (
        ["req-web", f"--instance={uuids[2]}"],
        [uuids[2]],
        ["req-web", f"--instance={uuids[2].upper()}"],
    ):
        text = command.run("explain", *way).stdout
        assert "This is about instance 3 of 3" in text
        assert f"Instance {uuids[2]} goes to host-2" in text
    # What those before it had taken counts.
    text = command.run("explain", uuids[2], "--host", "host-1").stdout
    assert "host-1 passes all filters and is number 2 of 3" in text
    assert command.refused("explain", "req-web", f"--instance={a_uuid('other')}") == (
        f"the request has no instance '{a_uuid('other')}'"
    )


def test_a_request_that_fails_at_its_third_instance(scheduler, command, output):
    group = a_group(name="apart")
    with scheduler:
        assert scheduler.ask("db", 5, instance_group=group) == []
    uuids = uuids_of("db", 5)
    for way in (["req-db"], [uuids[0]], [uuids[4]], ["req-db", f"--instance={uuids[3]}"]):
        text = output(*way)
        assert "Where: server group apart (anti-affinity), members on no host\n" in text
        assert "Outcome: refused: no host for instance 4; the tenant" in text
        assert "There was no host for instance 4 of 5, so no instance was placed.\n" in text
        assert f"There was no host for instance {uuids[3]}" in text
        assert re.search(
            r"\| host-\d and 2 more \| ServerGroupAntiAffinityFilter \| has 1 of", text
        )
    text = command.run("explain", "req-db", f"--instance={uuids[1]}").stdout
    assert "There was a host for instance 2 of 5, but none for instance 4, so no instance" in text
    assert f"Instance {uuids[1]} goes to host-2" in text
    assert command.refused("explain", "req-db", f"--instance={uuids[4]}") == (
        "the request ended with instance 4, for which there was no host: nothing was decided about"
        " instance 5 of 5"
    )


def test_forced_hosts_and_rebuilds_have_rules_of_their_own(scheduler, command, output):
    with scheduler:
        scheduler.ask("forced", force_hosts=["host-9"])
        scheduler.ask("hinted", ignore_hosts=["host-1"], scheduler_hints={"different_host": ["u1"]})
    text = output("req-forced")
    assert "Where: forced hosts host-9\n" in text
    assert text.startswith("0 of 3 hosts: 3 force_hosts (is not among the forced hosts host-9)\n")
    text = command.run("explain", "req-hinted").stdout
    assert "Where: not on host-1\nHints: different_host=u1\n" in text
    text = command.run("explain", "req-hinted", "--host=host-1").stdout
    assert "is among the hosts to be ignored" in text


def test_of_an_instance_that_was_decided_about_again_the_newest_counts(scheduler, output, command):
    with scheduler:
        scheduler.ask("one", request_id="req-first")
        scheduler.ask("one", request_id="req-second", ignore_hosts=["host-1"])
    text = output(a_uuid("one 0"))
    assert "for req-second\n" in text
    assert (
        "There are 2 decisions about this request or instance; the earlier decisions: 1\n" in text
    )
    assert "for req-first\n" in command.run("explain", "1").stdout


def test_without_a_decision(command, output):
    assert command.refused("explain", "req-other").startswith(
        "no decision is saved for 'req-other'; see 'decision list'. Decisions are saved for"
    )


@pytest.mark.parametrize("limit", ["0", "x"])
def test_a_wrong_limit(command, limit):
    assert "--limit" in command.refused("explain", "1", f"--limit={limit}", status=2)


def test_the_hosts_may_be_lost(scheduler, database, command, output):
    with scheduler:
        scheduler.ask("one", memory_mb=5000)
    output("1")
    database.write(lambda c: c.execute(WITHOUT_HOSTS))
    text = output("1")
    assert "no longer known: snapshot 0 of the log is missing\n" in text
    assert "| RamFilter " in text
    document = command.json("explain", "1")
    assert (document["explanation"], document["same"]) == (None, None)
    assert document["lost"] == "snapshot 0 of the log is missing"


def change(database, **changes):
    """Change the first saved decision."""

    def work(connection):
        c = decisions.c
        row = connection.execute(sa.select(decisions).where(c.id == 1)).one()
        record = replace(from_database(connection, row).record, **changes)
        values = {"document": as_version_2(record)}
        connection.execute(sa.update(decisions).where(c.id == 1).values(values))

    database.write(work)


def test_a_decision_of_another_release_may_be_another_one(scheduler, database, command, output):
    with scheduler:
        scheduler.ask("one")
    settings = {"filter_scheduler": {"ram_weight_multiplier": -1.0}}
    change(database, settings=settings, release="0.1")
    assert (
        "The decision is different when it is made again, so the following may not be what"
        in output("1")
    )
    assert "release 0.1" in output("1")
    assert command.json("explain", "1")["same"] is False


def test_a_plug_in_that_is_not_installed_here(scheduler, database, command):
    with scheduler:
        scheduler.ask("one")
    change(database, settings={"filter_scheduler": {"enabled_filters": ["TheirFilter"]}})
    refused = command.refused("explain", "1")
    assert refused.startswith(
        "the decision cannot be made again with the plug-ins that are installed"
    )
    assert "'TheirFilter' in the settings saved with the decision: unknown; installed" in refused
    assert "\n" not in refused


def test_what_cannot_be_read(scheduler, database, command):
    with scheduler:
        scheduler.ask("one")
    database.write(lambda c: c.execute(sa.update(decisions).values(document=b"other")))
    assert command.refused("explain", "1").startswith("decision 1 cannot be read: ")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (
            "given_up",
            "Outcome: given up: other requests claimed the chosen hosts first, on every attempt",
        ),
        ("too_late", "Outcome: too late: the caller no longer waited for the answer"),
        ("failed", "Outcome: failed with an error, which is in the scheduler's log"),
    ],
)
def test_requests_that_ended_with_nothing(scheduler, database, output, outcome, words):
    with scheduler:
        scheduler.ask("one")
    change(database, outcome=outcome, conflicts=3)
    text = output("1")
    assert f"{words} (chosen: host-1)\n" in text
    assert "; claims lost to other requests: 3\n" in text
