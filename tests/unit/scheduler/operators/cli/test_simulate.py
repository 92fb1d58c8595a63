# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of berthmaster simulate."""

import json

import pytest

from inventory import instances
from scheduler.operators.simulation.simulation import Simulation
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured

# Small instances on all hosts leave none for one that takes all of it.
HOSTS = "--hosts=6:8,32768,0"
FLAVORS = "--flavors=1:2048=4,8:32768"
MIX = "[flavor_mix]\nweight_multiplier = 1.0\n[filter_scheduler]\n" + "".join(
    f"{name}_weight_multiplier = 0\n" for name in ("ram", "cpu", "disk")
)


@pytest.fixture
def two_configs(tmp_path):
    """Files of a configuration that packs and of the default one."""
    found = []
    for name, text in {"mix": MIX, "spread": ""}.items():
        path = tmp_path / f"{name}.conf"
        path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{text}")
        found.append(f"--config={path}")
    return found


@pytest.fixture
def cloud(database):
    """Two hosts of 16 vCPUs and 64 GB, one with an instance of 2 vCPUs and 4 GB."""
    used = {"vcpus_used": 2, "memory_mb_used": 4608, "free_ram_mb": 60928}
    counts = '{"num_instances": "1", "io_workload": "0"}'
    save(database, a_node("h1", stats=counts, cpu_allocation_ratio=1.0, **used))
    save(database, a_node("h2", cpu_allocation_ratio=1.0))
    serve(database, "h1", "h2")
    guest = an_instance(a_uuid("there"), vcpus=2, memory_mb=4096, root_gb=0)
    database.write(lambda connection: instances.replace(connection, "h1", "h1", [guest]))
    return database


def test_two_configurations_differ_where_they_should(command, two_configs):
    arguments = (HOSTS, FLAVORS, "--arrivals=16", "--seeds=3", *two_configs)
    runs = command.json("simulate", *arguments)["runs"]
    assert [(run["configuration"], run["seed"]) for run in runs] == [
        (name, seed) for seed in (1, 2, 3) for name in ("mix", "spread")
    ]
    placed = dict.fromkeys(("mix", "spread"), 0)
    for run in runs:
        placed[run["configuration"]] += run["placed_instances"]
        assert run["requests"] == run["placed_instances"] + run["refused"] == 16
    assert placed["mix"] > placed["spread"]
    text = command.run("simulate", *arguments).stdout
    assert "6 hosts, 16 requests in each run" in text
    (mix, spread) = (line.split("|")[1:-1] for line in text.splitlines() if "| 16 " in line)
    assert (mix[0].strip(), mix[1].strip()) == ("mix", "3")
    # How full the fleet is when the first one is refused.
    assert mix[4].strip() == "-"
    assert 0 < float(spread[4]) < 100


def test_the_same_fleet_is_run_with_and_without_standbys(command):
    """Six hosts of one large instance each, or of as many as a lost rack of two leaves."""
    arguments = (HOSTS, "--flavors=8:32768=1", "--arrivals=9", "--rack-size=2")
    modes = ("--failover=none", "--failover=required")
    runs = command.json("simulate", *arguments, *modes)["runs"]
    assert [(run["configuration"], run["failover"], run["placed_instances"]) for run in runs] == [
        ("current, failover none", "none", 6),
        ("current, failover required", "required", 4),
    ]
    text = command.run("simulate", *arguments, *modes).stdout
    assert "Placed Instances" in text
    assert "Placed Instances" not in command.run("simulate", *arguments).stdout


def test_the_same_call_gives_the_same_result(command):
    arguments = ("simulate", HOSTS, FLAVORS, "--arrivals=30", "--lifetime=2")
    one, other = (command.json(*arguments)["runs"][0] for _ in range(2))
    one.pop("seconds"), other.pop("seconds")
    assert one == other
    assert len(one["samples"]) == 30


def test_a_trace_is_read_from_a_file(command, tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("time,vcpus,memory_mb,lifetime\n0,8,1024,10\n5,8,1024,\n10,8,1024,\n")
    hosts = "--hosts=1:8,32768,0"
    (run,) = command.json("simulate", hosts, f"--trace={path}")["runs"]
    assert (run["requests"], run["refused"], run["placed_instances"]) == (3, 1, 2)
    assert run["first_refusal"]["time"] == 5
    (run,) = command.json("simulate", hosts, f"--trace={path}", "--arrivals=1")["runs"]
    assert run["requests"] == 1


def test_a_published_trace_is_measured_in_a_machine_that_is_said(command, tmp_path):
    path = tmp_path / "events.json"
    event = {"time": "1000000", "type": 0, "collection_id": "1", "instance_index": "0"}
    path.write_text(json.dumps(event | {"resource_request": {"cpus": 0.5, "memory": 0.5}}))
    arguments = ("simulate", "--hosts=1:8,32768,0", f"--trace={path}")
    (run,) = command.json(*arguments, "--machine=16,65536,0")["runs"]
    assert (run["placed_instances"], run["samples"][-1]["usage"]["used"]["vcpus"]) == (1, 1.0)
    assert "say with --machine what a whole machine has" in command.refused(*arguments)


def test_the_hosts_of_the_cloud_have_their_instances_unless_they_are_left_out(command, cloud):
    arguments = ("simulate", "--flavors=16:1024", "--arrivals=4")
    (run,) = command.json(*arguments)["runs"]
    assert (run["hosts"], run["placed_instances"]) == (2, 1)
    (run,) = command.json(*arguments, "--empty")["runs"]
    assert run["placed_instances"] == 2


@pytest.mark.parametrize(
    "change", ["forced_down = 1", "last_seen_up = '2020-01-01 00:00:00'", "disabled = 1"]
)
def test_a_host_that_is_out_of_service_takes_nothing(command, cloud, tmp_path, change):
    arguments = (FLAVORS, "--arrivals=99", f"--results={tmp_path}")
    before = command.json("simulate", *arguments)["runs"][0]["placed_instances"]
    execute(cloud, f"UPDATE services SET {change} WHERE host = 'h2'")
    # Results of before are not taken for those of now.
    assert command.json("simulate", *arguments)["runs"][0]["placed_instances"] < before


def test_without_flavors_what_the_cloud_has_is_asked_for(command, cloud):
    (run,) = command.json("simulate", "--arrivals=20")["runs"]
    assert run["refused_sizes"] == [
        {"vcpus": 2, "memory_mb": 4096, "disk_mb": 0, "instances": run["refused"]}
    ]


def test_what_was_done_is_not_done_again(command, tmp_path, monkeypatch, two_configs):
    results = tmp_path / "results"
    arguments = ("simulate", HOSTS, FLAVORS, "--arrivals=30", f"--results={results}")
    one = command.json(*arguments)
    assert len([*results.iterdir()]) == 1

    def run(*_):
        raise AssertionError("runs again")

    with monkeypatch.context() as patched:
        patched.setattr(Simulation, "run", run)
        assert command.json(*arguments) == one
    # Another number of arrivals or other settings are another run.
    command.json(*arguments, "--seeds=2")
    command.json(*arguments, two_configs[0])
    assert len([*results.iterdir()]) == 3
    (kept,) = results.glob("mix-1-*.json")
    kept.write_text("{")
    assert f"{kept} cannot be read" in command.refused(*arguments, two_configs[0])


def test_its_own_trace_is_made_again(command, cloud, tmp_path):
    conf = configured(command.config)
    with KeepingScheduler(cloud, conf) as scheduler:
        for number in range(8):
            scheduler.ask(f"r{number}", vcpus=2 + 3 * (number % 3), memory_mb=2048, root_gb=0)
    arguments = ("simulate", "--decisions=1h", "--build-time=900")
    (run,) = command.json(*arguments)["runs"]
    assert (run["requests"], run["as_decided"], run["hosts"]) == (8, 8, 2)
    text = command.run(*arguments).stdout
    (row,) = (line.split("|")[1:-1] for line in text.splitlines() if "current" in line)
    assert row[-1].strip() == "8"
    (run,) = command.json(*arguments, "--hosts=1:4,8192,0")["runs"]
    assert run["as_decided"] is None
    assert run["refused"] > 4


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["--hosts=6"], "'6' is not of the form COUNT:VCPUS,RAM_MB,DISK_GB"),
        (["--hosts=0:8,1,1", FLAVORS], "'0:8,1,1' is not between 1 and 100000 hosts"),
        ([HOSTS], "argument --hosts: made-up hosts have no past requests; give --flavors"),
        ([FLAVORS, "--rack-size=2"], "argument --rack-size: is for --hosts"),
        ([HOSTS, FLAVORS, "--empty"], "argument --empty: is for the hosts of the cloud"),
        (["--hosts=60000:8,1,1", "--hosts=60000:8,1,1", FLAVORS], "more than 100000 hosts"),
        ([HOSTS, "--flavors=m1.small"], "'m1.small' is not VCPUS:MEMORY_MB"),
        ([HOSTS, FLAVORS, "--arrivals=0"], "is not a whole number from 1"),
        ([HOSTS, FLAVORS, "--rate=0"], "'0' is not a number above 0"),
        ([HOSTS, FLAVORS, "--lifetime=long"], "'long' is not a number above 0"),
        ([HOSTS, FLAVORS, "--machine=1,2,3"], "argument --machine: is for --trace only"),
        ([HOSTS, "--trace=x", "--machine=1,2"], "'1,2' is not of the form VCPUS,RAM_MB,DISK_GB"),
        ([HOSTS, "--trace=x", "--seeds=2"], "--seeds: is for arrivals that are made up, not"),
        (["--decisions=1h", "--rate=3"], "--rate: is for arrivals that are made up, not for --dec"),
        (["--decisions=1h", "--trace=x"], "--decisions: cannot be used with --trace"),
        (["--decisions=noon"], "'noon' is neither an age"),
    ],
)
def test_what_means_nothing_is_refused(command, arguments, cause):
    assert cause in command.refused("simulate", *arguments, status=2)


def test_what_cannot_be_run_says_why(command, cloud, tmp_path):
    lost = tmp_path / "lost.csv"
    refused = command.refused("simulate", HOSTS, f"--trace={lost}")
    assert refused.endswith(f"cannot read {lost}: No such file or directory")
    lost.write_bytes(b"\xff\xfe")
    assert f"{lost} is neither text in UTF-8" in command.refused("simulate", f"--trace={lost}")
    lost.write_text("time,vcpus,memory_mb\n0,x,1\n")
    refused = command.refused("simulate", f"--trace={lost}")
    assert f"{lost}: line 2: vcpus is 'x', not a whole number" in refused
    lost.write_text("time,vcpus,memory_mb\n")
    refused = command.refused("simulate", f"--trace={lost}")
    assert "the trace has no arrivals: nothing to simulate" in refused
    refused = command.refused("simulate", "--decisions=1h")
    assert "there is no saved decision since that time whose hosts are known" in refused
    other = tmp_path / "other.conf"
    other.write_text(f"[DEFAULT]\nstate_path={tmp_path}\n[scheduler]\ndriver = chance_scheduler\n")
    asked = (HOSTS, FLAVORS, "--failover=required", f"--config={other}")
    assert "ChanceScheduler protects no instances" in command.refused("simulate", *asked)
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(f"[DEFAULT]\nstate_path={tmp_path}\n[filter_scheduler]\nenabled_filters=Rum\n")
    refused = command.refused("simulate", HOSTS, FLAVORS, f"--config={wrong}")
    assert "configuration wrong: option [filter_scheduler] enabled_filters = 'Rum'" in refused


def test_a_cloud_without_hosts_or_history_says_what_to_give(command, database):
    refused = command.refused("simulate")
    assert "no host has reported yet: simulate made-up hosts with --hosts" in refused
    save(database, a_node("h1"))
    serve(database, "h1")
    assert "give --flavors or --trace" in command.refused("simulate")


def test_a_page_is_written_beside_what_is_printed(command, tmp_path):
    path = tmp_path / "page.html"
    arguments = ("simulate", HOSTS, FLAVORS, "--arrivals=9")
    text = command.run(*arguments, f"--html={path}").stdout
    assert text == command.run(*arguments).stdout
    assert "6 hosts, 9 requests in each run" in path.read_text()
    assert [*tmp_path.glob("page*")] == [path]
    lost = tmp_path / "lost" / "page.html"
    refused = command.refused(*arguments, f"--html={lost}")
    assert f"cannot write {lost}: its directory does not exist" in refused


def test_results_that_cannot_be_written_say_why(command, tmp_path):
    (tmp_path / "file").write_text("")
    results = f"--results={tmp_path / 'file' / 'results'}"
    refused = command.refused("simulate", HOSTS, FLAVORS, "--arrivals=3", results)
    assert "cannot write" in refused
    assert "Traceback" not in refused
