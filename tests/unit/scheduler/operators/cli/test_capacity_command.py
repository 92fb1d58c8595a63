# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command capacity, run in this process on a database of its own."""

import re
import signal

import pytest

from inventory import aggregates, server_groups
from inventory.objects.node_json import numa_topology_to_json, pci_pools_to_json
from scheduler.operators import capacity
from tests.databases import a_node, save, serve
from tests.devices import a_pool
from tests.fixtures.command import Command
from tests.numa import a_topology

SMALL = "--flavor=2,4096,20"
FILTERS = (
    "ComputeFilter,AvailabilityZoneFilter,RamFilter,CoreFilter,DiskFilter,NUMATopologyFilter,"
    "PciPassthroughFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
)


@pytest.fixture
def command(database, url, tmp_path):
    """The command, on four hosts: with cells and devices, with little memory, plain, without."""
    rich = {
        "numa_topology": numa_topology_to_json(a_topology()),
        "pci_stats": pci_pools_to_json([a_pool(3)]),
    }
    save(database, a_node("rich", free_ram_mb=20000, **rich))
    save(database, a_node("low", free_ram_mb=-20000), a_node("plain"), a_node("dead"))
    serve(database, "rich", "low", "plain")
    zone = {"availability_zone": "z1"}
    database.write(lambda c: aggregates.create(c, "rack", ["rich", "low"], zone))
    return a_command(url, tmp_path, FILTERS)


def a_command(url, tmp_path, filters, bounded="vcpu,memory_mb,disk_gb"):
    """Return the command with a configuration that enables these filters."""
    config = tmp_path / f"{len(filters)}.conf"
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        f"[filter_scheduler]\nenabled_filters = {filters}\n"
        f"[claims]\nbounded_resources = {bounded}\n"
    )
    return Command(config)


def counts(command, *arguments):
    (found,) = command.json("capacity", *arguments)["flavors"]
    return {each["host"]: each["instances"] for each in found["hosts"]}


def test_hosts_are_counted_and_say_why_not_one_more(command):
    (found,) = command.json("capacity", SMALL)["flavors"]
    assert found == {
        "flavor": "2,4096,20",
        "total": 38,
        "more": False,
        "left_out": 0,
        "limits": {"RamFilter": 3, "compute_service": 1},
        "hosts": [
            a_host("plain", 23, "needs 4096 MB of memory, 3584 left of 65536 x 1.5"),
            a_host("rich", 12, "needs 4096 MB of memory, 3616 left of 65536 x 1.5"),
            a_host("low", 3, "needs 4096 MB of memory, 480 left of 65536 x 1.5"),
            {
                "host": "dead",
                "node": "dead",
                "instances": 0,
                "refusals": [
                    {"filter": "compute_service", "reason": "has no compute service"},
                    {
                        "filter": "ComputeFilter",
                        "reason": "compute service last seen never, 60 s allowed",
                    },
                ],
            },
        ],
    }


def a_host(name, count, reason):
    refusals = [{"filter": "RamFilter", "reason": reason}]
    return {"host": name, "node": name, "instances": count, "refusals": refusals}


def test_people_get_a_table(command):
    done = command.run("capacity", SMALL, "--largest", "--limit=1", "--aggregate=rack")
    assert done.status == 0
    lines = done.stdout.splitlines()
    assert lines[:7] == [
        "2,4096,20: 15 instances on 2 of 2 hosts",
        "Hosts by the filter that refuses another instance: RamFilter 2",
        "Hosts that the request excludes: 2",
        "Most vCPUs: 16, as 16,4096,20 on rich",
        "Most MB of memory: 52768, as 2,52768,20 on rich",
        "Most GB of disk: 1000, as 2,4096,1000 on rich",
        "Most times the flavor: 8, as 16,32768,160 on rich",
    ]
    assert any(line.startswith("| rich | rich |        12 | RamFilter  |") for line in lines)
    assert lines[-1] == "... and 1 more host; see --limit"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--availability-zone=z1"], {"rich": 12, "low": 3, "plain": 0, "dead": 0}),
        (["--aggregate=rack", "--pci-device=8086:1520:2"], {"rich": 1, "low": 0}),
        (["--aggregate=rack", "--extra-spec=hw:numa_nodes=2"], {"rich": 6, "low": 0}),
        (["--aggregate=rack", "--group-policy=affinity"], {"rich": 12, "low": 0}),
        (
            ["--aggregate=rack", "--group-policy=anti-affinity", "--max-per-host=4"],
            {"rich": 4, "low": 3},
        ),
        (["--aggregate=rack", "--hint=group=web"], {"rich": 1, "low": 1}),
        (["--aggregate=rack", "--max=5"], {"rich": 3, "low": 2}),
    ],
)
def test_what_is_asked_for_counts(command, database, arguments, expected):
    database.write(lambda c: server_groups.create(c, "web", "anti-affinity", {}, []))
    assert counts(command, SMALL, *arguments) == expected


def test_several_flavors_are_counted_each_by_itself_or_in_turns(command):
    flavors = (SMALL, "--flavor=m1.big=2,16384,20")
    alone = command.json("capacity", *flavors)
    assert [each["total"] for each in alone["flavors"]] == [38, 8]
    together = command.json("capacity", *flavors, "--together")
    assert [each["total"] for each in together["flavors"]] == [8, 7]
    assert [each["flavor"] for each in together["flavors"]] == ["2,4096,20", "m1.big=2,16384,20"]
    assert [each["more"] for each in together["flavors"]] == [False, False]


def test_a_bound_is_shown(command):
    (found,) = command.json("capacity", SMALL, "--max=2")["flavors"]
    assert (found["total"], found["more"]) == (2, True)
    assert "More may fit" in command.run("capacity", SMALL, "--max=2").stdout


def test_what_has_no_bound_or_no_room_is_shown(command):
    done = command.run("capacity", "--flavor=1,512,0", "--largest", "--extra-spec=hw:numa_nodes=1")
    assert "Most vCPUs: 8, as 8,512,0 on rich" in done.stdout
    assert "Most MB of memory: 8192, as 1,8192,0 on rich" in done.stdout
    done = command.run("capacity", "--flavor=99,1,1", "--largest")
    assert "99,1,1: 0 instances on 0 of 4 hosts" in done.stdout
    assert "Most vCPUs: 16, as 16,1,1 on plain" in done.stdout
    assert "Most MB of memory: no host takes even the smallest size" in done.stdout
    assert "Most times the flavor: no host takes even the smallest size" in done.stdout


def test_what_no_filter_bounds_is_shown(command, url, tmp_path):
    unbounded = a_command(url, tmp_path, "ComputeFilter, RamFilter", bounded="")
    done = unbounded.run("capacity", SMALL, "--largest")
    assert "Most vCPUs: no filter bounds this resource" in done.stdout
    assert "Most MB of memory: 65536, as 2,65536,20 on plain" in done.stdout


@pytest.mark.parametrize(
    "asked", ["--extra-spec=resources:VGPU=1", "--image-property=trait:CUSTOM_GOLD=required"]
)
def test_what_only_placement_can_judge_is_shown(command, asked):
    done = command.run("capacity", SMALL, asked, "--largest")
    assert "2,4096,20: 0 instances on 0 of 4 hosts" in done.stdout
    assert "PlacementOnly" in done.stdout
    assert "Only placement can judge what is requested: '" in done.stdout


def test_filters_that_are_implied_count(command, url, tmp_path):
    assert counts(a_command(url, tmp_path, "ComputeFilter"), SMALL) == counts(command, SMALL)


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (["--flavor=1,2"], 2, "'1,2' is not of the form [NAME=]VCPUS,RAM_MB,DISK_GB"),
        (["--flavor=1,2,-3"], 2, "'1,2,-3': a size is below 0 or above 2147483647"),
        (
            [SMALL, "--image-property=hw_cpu_cores=many"],
            1,
            "image property.hw_cpu_cores: 'many' is not a whole number",
        ),
        (["--flavor=0,0,0"], 2, "--flavor: '0,0,0' uses nothing of a host"),
        ([SMALL, "--max=0"], 2, "argument --max: '0' is not a whole number"),
        ([SMALL, "--limit=x"], 2, "argument --limit: 'x' is not a whole number"),
        ([SMALL, "--pci-device=8086"], 2, "'8086' is not of the form VENDOR:PRODUCT[:COUNT]"),
        ([SMALL, "--aggregate=nope"], 1, "there is no aggregate 'nope'; see 'aggregate list'"),
        ([SMALL, "--hint=group=nope"], 1, "no server group 'nope'; see 'server group list'"),
        ([SMALL, "--max-per-host=2"], 2, "--max-per-host: is for --group-policy anti-affinity"),
        (
            [SMALL, "--group-policy=anti-affinity", "--max-per-host=0"],
            2,
            "argument --max-per-host: '0' is not a whole number",
        ),
        (
            [SMALL, "--hint=group=a", "--group-policy=affinity"],
            2,
            "--group-policy: is for a new group, but the scheduler hint names an existing group",
        ),
        ([SMALL, "--extra-spec=hw:numa_nodes=3"], 1, "cannot be divided evenly by 3"),
    ],
)
def test_mistakes_are_reported_in_a_line(command, arguments, status, output):
    assert output in command.refused("capacity", *arguments, status=status)


def test_cells_that_no_filter_looks_at_are_shown(command, url, tmp_path):
    output = "the NUMA cells of the request are not counted: NUMATopologyFilter is not among"
    cells = [SMALL, "--extra-spec=hw:numa_nodes=2"]
    assert output not in command.run("capacity", *cells).stdout
    other = a_command(url, tmp_path, "ComputeFilter, RamFilter")
    assert f"Warning: {output}" in other.run("capacity", *cells).stdout
    assert other.json("capacity", SMALL)["warnings"] == []


def test_without_any_hosts_there_is_nothing_to_count(url, tmp_path):
    output = a_command(url, tmp_path, "RamFilter").refused("capacity", SMALL)
    assert output.startswith("no host has reported yet: start berthmaster-agent on the hosts")


def test_what_no_filter_bounds_has_no_number(url, tmp_path, command):
    done = a_command(url, tmp_path, "ComputeFilter", bounded="").run("capacity", SMALL)
    assert done.stdout.startswith("2,4096,20: at least 300000 instances on 3 of 4 hosts\n")


@pytest.fixture
def endless(command, url, tmp_path):
    """The command where an own filter of the plainest form alone decides."""
    config = tmp_path / "own.conf"
    config.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n"
        "[filter_scheduler]\navailable_filters = tests.plugins.Drop\nenabled_filters = Drop\n"
        "[claims]\nenabled = false\n"
    )
    return Command(config)


@pytest.mark.parametrize("more", [(), ("--largest",), ("--together", SMALL)])
def test_a_count_that_lasts_ends_at_its_time_limit_and_shows_how_far_it_came(endless, more):
    arguments = ("capacity", SMALL, *more, "--time-limit=1")
    text = endless.run(*arguments).stdout
    assert re.search(r"2,4096,20: at least [1-9]\d* instances on 3 of 4 hosts", text)
    assert "More may fit: Ctrl-C, or the time limit, has ended the count" in text
    found = endless.json(*arguments)
    assert found["interrupted"]
    assert 0 < found["flavors"][0]["total"] < 100_000


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_count_and_not_the_command(endless, monkeypatch):
    place = capacity._place

    def interrupted(hosts, filling, simulator, first, count):
        place(hosts, filling, simulator, first, count)
        if first == 20:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(capacity, "_place", interrupted)
    (found,) = endless.json("capacity", SMALL)["flavors"]
    assert (found["total"], found["more"]) == (21, True)


def test_a_count_that_is_ready_before_its_limit_says_nothing_of_it(command):
    found = command.json("capacity", SMALL, "--time-limit=600")
    assert (found["interrupted"], found["flavors"][0]["more"]) == (False, False)
