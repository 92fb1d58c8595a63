# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How wide all commands print, for fleets of 3 and of 2000 hosts."""

from importlib import metadata
from typing import NamedTuple

import pytest

from inventory.operations import server_group_operations, service_operations
from scheduler.operators.cli.base import ListCommand, ReportCommand, ShowCommand
from tests.databases import a_node, a_uuid, migrated, save, serve
from tests.fixtures.command import Command
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of

WIDTHS = [80, *(pytest.param(width, marks=pytest.mark.release) for width in (100, 200))]
WEB = uuids_of("web")[0]
# The arguments of each command that prints tables; the first ones change nothing.
COMMANDS = {
    "aggregate list": ["--long"],
    "aggregate show": ["rack-1"],
    "audit list": ["--long"],
    "availability zone list": ["--long"],
    "capacity": ["--flavor=4,8192,40", "--largest"],
    "claim list": ["--all", "--long"],
    "decision list": ["--long"],
    "decision show": ["req-big"],
    "explain": ["req-refused"],
    "failover simulate": ["hypervisor-0001"],
    "failover status": [],
    "host describe": ["hypervisor-0001"],
    "host list": ["--long"],
    "host show": ["hypervisor-0001"],
    "hypervisor list": [],
    "instance list": ["--long"],
    "instance show": [WEB],
    "hypervisor servers": ["hypervisor-0001", "--print-empty"],
    "hypervisor show": ["hypervisor-0001"],
    "hypervisor stats": [],
    "plan balance": ["--time-limit=1"],
    "plan consolidate": ["--time-limit=1"],
    "plan drain": ["hypervisor-0001", "--time-limit=1"],
    "plan make-room": ["--flavor=4,8192,40", "--time-limit=1"],
    "plan repair": ["--time-limit=1"],
    "reservation create": ["held-{width}", "--flavor=1,1,1", "--number=2", "--project=p1"],
    "reservation extend": ["until", "--until={width}d"],
    "reservation list": ["--long"],
    "reservation show": ["until"],
    "reservation delete": ["held-{width}"],
    "server group list": ["--long"],
    "server group show": ["apart"],
    "service list": ["--long"],
    "service show": ["hypervisor-0001"],
    "host disable": ["hypervisor-0001", "--reason=new disks"],
    "host enable": ["hypervisor-0001"],
    "host maintenance on": ["hypervisor-0001"],
    "host maintenance off": ["hypervisor-0001"],
    "service disable": ["hypervisor-0002", "hypervisor-0003"],
    "service enable": ["hypervisor-0002"],
    "service force-down": ["hypervisor-0003"],
    "aggregate create": ["rack-{width}"],
    "aggregate set": ["rack-{width}", "--property=a=b"],
    "aggregate unset": ["rack-{width}", "--property=a"],
    "aggregate add host": ["rack-{width}", "hypervisor-0002", "hypervisor-0003"],
    "aggregate remove host": ["rack-{width}", "hypervisor-0002", "hypervisor-0003"],
    "aggregate delete": ["rack-{width}"],
    "server group create": ["group-{width}"],
    "server group add instance": ["group-{width}", a_uuid("big 20")],
    "server group remove instance": ["group-{width}", a_uuid("big 20")],
    "server group delete": ["group-{width}"],
}
# They need a broker, a Nova cloud, files or a shadow; what prints their tables is the same.
ELSEWHERE = {
    "cloud list",
    "config show",
    "decision replay",
    "host power",
    "hypervisor uptime",
    "nova check",
    "nova shadow",
    "plan check",
    "plan run",
    "select",
    "shadow report",
    "simulate",
}
# It gives back what others look at, and deletes what it may not.
LAST = {"claim release": [WEB], "service delete": ["hypervisor-0003"]}
SMALL = {"vcpus": 1, "memory_mb": 64, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}


class Fleet(NamedTuple):
    """The command on hosts of a number, with what the commands show."""

    hosts: int
    command: Command


@pytest.fixture(scope="module", params=[3, pytest.param(2000, marks=pytest.mark.release)])
def fleet(request, tmp_path_factory) -> Fleet:
    """A fleet whose scheduler has placed 1 and 1000 instances, and refused one."""
    directory = tmp_path_factory.mktemp(f"fleet-{request.param}")
    database = migrated(directory)
    names = [f"hypervisor-{number:04}" for number in range(1, request.param + 1)]
    sizes = {"vcpus": 2000, "memory_mb": 524_288, "ram_allocation_ratio": 1.0}
    nodes = [
        a_node(each, **sizes, free_ram_mb=400_000 + 8 * (i % 7)) for i, each in enumerate(names)
    ]
    save(database, *nodes)
    serve(database, *names)
    config = directory / "berthmaster.conf"
    # The heartbeats are written once: commands on a large fleet take longer than a minute.
    config.write_text(f"[DEFAULT]\nstate_path = {directory}\nservice_down_time = 3600\n"
                      "[database]\nconnection = "
                      f"sqlite:///{directory}/inventory.sqlite\n")  # fmt: skip
    with KeepingScheduler(database, configured(config)) as scheduler:
        assert scheduler.ask("web", **SMALL)
        assert scheduler.ask("big", 1000, **SMALL)
        assert not scheduler.ask("refused", memory_mb=600_000)
    group = {"name": "apart", "policy": "soft-anti-affinity", "max_per_host": None}
    database.write(lambda c: server_group_operations.create(c, *group.values()))
    database.write(
        lambda c: server_group_operations.add_instances(c, "apart", uuids_of("big", 9), True)
    )
    database.write(lambda c: service_operations.disable(c, [names[1]], "waits for new disks"))
    command = Command(config)
    command.run("aggregate", "create", "rack-1", "--zone=east", "--property=cpu=fast")
    for each in names[:3]:
        command.run("aggregate", "add", "host", "rack-1", each, "--with-instances")
    short = ["--flavor=1,1,1", "--project=p1", "--until=1d"]
    assert command.run("reservation", "create", "until", *short).status == 0
    database.close()
    return Fleet(request.param, command)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def test_no_command_with_tables_is_forgotten():
    tabular = (ListCommand, ShowCommand, ReportCommand)
    points = metadata.entry_points(group="berthmaster.cli")
    found = {each.name.replace("_", " ") for each in points if issubclass(each.load(), tabular)}
    assert found == COMMANDS.keys() | ELSEWHERE | LAST.keys()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_command_obeys_a_width(fleet, width):
    for name, arguments in COMMANDS.items():
        given = [each.format(width=width) for each in arguments]
        done = fleet.command.run(*name.split(), *given, f"--max-width={width}")
        # Of a plan or a failover, it says whether its goal is reached.
        assert done.status == 0 or name.startswith(("plan ", "failover ")), (name, done)
        assert done.stdout.strip(), (name, done)
        assert widest(done.stdout) <= width, (name, done.stdout[:2000])


# What has changed, in the audit log, may be of any length.
LISTS = [each for each in COMMANDS if each.endswith(" list") and each != "audit list"]


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_narrow_enough_by_themselves(fleet, name):
    done = fleet.command.run(*name.split())
    assert done.status == 0, done
    assert 0 < widest(done.stdout) <= 100, done.stdout[:1000]


def test_hosts_are_listed_on_a_terminal_of_80_characters(fleet):
    assert widest(fleet.command.run("host", "list").stdout) <= 80


@pytest.mark.parametrize(
    "name", ["host list", "instance list", "service list", "claim list", "decision list"]
)
def test_programs_and_who_asks_see_all_columns(fleet, name):
    (first, *_) = fleet.command.json(*name.split())
    header = fleet.command.run(*name.split(), "--long").stdout.splitlines()[1]
    shown = {each.strip() for each in header.split("|")[1:-1]}
    assert shown <= first.keys()
    few = fleet.command.run(*name.split()).stdout.splitlines()[1]
    hidden = shown - {each.strip() for each in few.split("|")[1:-1]}
    assert hidden
    column = min(hidden)
    assert column in fleet.command.run(*name.split(), "-c", column).stdout


def test_a_request_for_many_instances_names_a_few_of_its_hosts(fleet):
    if fleet.hosts == 3:
        return
    lines = fleet.command.run("decision", "list").stdout.splitlines()
    (line,) = (each for each in lines if "| 1000 " in each or "|      1000 |" in each)
    assert " more |" in line


def test_the_width_is_that_of_a_terminal_if_asked_for(fleet, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    text = fleet.command.run("host", "list", "--long", "--fit-width").stdout
    assert widest(text) <= 90 < widest(fleet.command.run("host", "list", "--long").stdout)
    assert widest(fleet.command.run("explain", "req-refused", "--fit-width").stdout) <= 90


@pytest.mark.parametrize("width", WIDTHS)
def test_what_changes_the_fleet_obeys_a_width(fleet, width):
    for name, arguments in LAST.items():
        done = fleet.command.run(*name.split(), *arguments, f"--max-width={width}")
        assert widest(done.stdout) <= width, (name, done)
