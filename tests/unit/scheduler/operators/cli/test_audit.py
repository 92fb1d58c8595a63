# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The audit log: what a command changes is in it, and what did not happen is not."""

import inspect
from importlib.metadata import entry_points

import pytest
import sqlalchemy as sa

from inventory import audit_log, compute_nodes, instances, services
from inventory.audit_log import EntryFilter
from inventory.operations import aggregate_operations, server_group_operations
from inventory.operations.aggregate_operations import ZoneRules
from inventory.tables import audit_log as table
from scheduler.client import agent_client, scheduler_client
from scheduler.objects.selection import Selection
from tests.claimed import claim
from tests.databases import a_node, a_uuid, an_instance, execute, save, serve

CLAIMED, OTHER, SEEN = map(a_uuid, ("claimed", "other", "seen"))
SIZE = ("--vcpus=1", "--memory-mb=1024", "--disk-gb=1")
# For each command that changes something a command line, and the objects that it changes.
CHANGES = {
    "aggregate create": ("new --property=a=b", ["aggregate new"]),
    "aggregate delete": ("empty spare", ["aggregate empty", "aggregate spare"]),
    "aggregate add host": ("rack h2 h3", ["aggregate rack"]),
    "aggregate remove host": ("rack h1", ["aggregate rack"]),
    "aggregate set": ("rack --zone=east --name=row --with-instances", ["aggregate rack"]),
    "aggregate unset": ("rack --property=ssd", ["aggregate rack"]),
    "claim release": (f"{CLAIMED} {OTHER}", [f"claim {CLAIMED}", f"claim {OTHER}"]),
    "host disable": ("h2 h3 --reason=fans", ["host h2", "host h3"]),
    "host enable": ("h1", ["host h1"]),
    "host maintenance off": ("h1", ["host h1"]),
    "host maintenance on": ("h2", ["host h2"]),
    "host power": ("h2 reboot", ["host h2"]),
    # Other plans claim in the same way.
    "plan drain": ("h2 --claim", [f"claim {SEEN}"]),
    "reservation create": (f"new --project=p1 {' '.join(SIZE)}", ["reservation new"]),
    "reservation delete": ("held", ["reservation held"]),
    "reservation extend": ("held --until=30d", ["reservation held"]),
    "select": (" ".join(SIZE), [f"claim {a_uuid('selected')}"]),
    "server group add instance": (f"web {SEEN}", ["server group web"]),
    "server group create": ("db", ["server group db"]),
    "server group delete": ("web", ["server group web"]),
    "server group remove instance": (f"full {OTHER}", ["server group full"]),
    "service delete": ("gone", ["aggregate rack", f"claim {a_uuid('dropped')}", "host gone"]),
    "service disable": ("h2", ["host h2"]),
    "service enable": ("h1", ["host h1"]),
    "service force-down": ("h2", ["host h2"]),
}
# What changes no object, or is no command of an operator: db sync, and the demonstration. Plans
# that are run claim as plan drain does.
OTHERS = """
audit list; aggregate list; aggregate show; availability zone list; capacity; claim list;
cloud list; complete words; config show; db sync; db version; decision list; decision replay;
decision save; decision show; demo; explain; failover simulate; failover status; host describe;
host list; host show; hypervisor list; hypervisor servers; hypervisor show; hypervisor stats;
hypervisor uptime; instance list; instance show; nova check; nova shadow; plan balance;
plan check; plan consolidate; plan make-room; plan repair; plan run; reservation list;
reservation show; server group list; server group show; service list; service show; shadow report;
simulate
"""


class Agents:
    """A client whose agents do what they are asked."""

    def __init__(self, conf, is_hasty):
        pass

    def call(self, caller, agent, method, timeout, host, action):
        return {"host": host, "power_action": action}

    def close(self):
        pass


@pytest.fixture
def cloud(command, database, monkeypatch):
    """Hosts, of which h1 is switched off, and an object for each command to change."""
    hosts = ("h1", "h2", "h3", "gone")
    save(database, *map(a_node, hosts))
    serve(database, *hosts)
    nodes = {row.host: row for row in database.read(lambda c: compute_nodes.of_hosts(c, hosts))}
    for name, properties in (("rack", {"ssd": "true"}), ("empty", {}), ("spare", {})):
        database.write(lambda c, n=name, p=properties: aggregate_operations.create(c, n, p))
    members = ("rack", ["h1", "gone"], ZoneRules("nova"))
    database.write(lambda c: aggregate_operations.add_hosts(c, *members))
    for host in ("disable h1", "maintenance on h1"):
        command.json("host", *host.split())
    seen = an_instance(SEEN, vcpus=1, memory_mb=1024)
    database.write(lambda c: instances.replace(c, "h2", "h2", [seen]))
    for uuid, host in ((CLAIMED, "h3"), (OTHER, "h3"), (a_uuid("dropped"), "gone")):
        claim(database, uuid, nodes[host])
    for name in ("web", "full"):
        database.write(lambda c, n=name: server_group_operations.create(c, n, "affinity"))
    database.write(lambda c: server_group_operations.add_instances(c, "full", [OTHER]))
    command.json("reservation", "create", "held", "--project=p1", "--until=1d", *SIZE)
    execute(database, "UPDATE services SET last_seen_up = '2020-01-01' WHERE host = 'gone'")
    monkeypatch.setattr(agent_client, "AgentClient", Agents)

    class Scheduler:
        """A client whose scheduler claims on h3."""

        def __init__(self, conf):
            pass

        def select_destinations(self, caller, spec, uuids, *options):
            claim(database, uuids[0], nodes["h3"])
            execute(
                database,
                "UPDATE allocations SET instance_uuid = :name WHERE instance_uuid = :uuid",
                name=a_uuid("selected"),
                uuid=uuids[0],
            )
            uuids[0] = a_uuid("selected")
            return [[Selection("h3", "h3")]]

        def close(self):
            pass

    monkeypatch.setattr(scheduler_client, "SchedulerClient", Scheduler)
    database.write(lambda c: c.execute(sa.delete(table)))
    return database


def entries(database, **wanted):
    return database.read(lambda c: audit_log.search(c, EntryFilter(**wanted), 100))


def test_every_command_is_known_to_change_something_or_not():
    commands = {each.name.replace("_", " "): each for each in entry_points(group="berthmaster.cli")}
    others = {each.strip() for each in OTHERS.split(";")}
    assert {*CHANGES} | others == commands.keys()
    for name in others:
        sources = map(inspect.getsource, commands[name].load().__mro__[:-1])
        assert not any("self.write(" in each for each in sources), f"{name} changes something"


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_command_changes_has_an_entry_for_each_object(command, cloud, name):
    arguments, objects = CHANGES[name]
    command.json("--operator=alice", *name.split(), *arguments.split())
    found = entries(cloud)
    assert sorted(f"{each['kind']} {each['name']}" for each in found) == objects
    for each in found:
        assert (each["operator"], each["command"]) == ("alice", name)
        assert each["machine"]
        assert each["before"] != each["after"]


@pytest.mark.parametrize(
    ("command_line", "status"),
    [
        # Refused.
        ("host disable h2 nowhere", 1),
        ("aggregate create rack", 1),
        ("aggregate delete spare rack", 1),
        ("aggregate add host rack h2 h1", 1),
        ("aggregate set rack --zone=east", 1),
        ("claim release nowhere", 1),
        ("reservation extend held --until=1h", 1),
        ("server group add instance web nowhere", 1),
        ("service delete h2", 1),
        # Nothing is changed.
        ("host enable h2", 0),
        ("host maintenance off h2", 0),
        ("service force-down h2 --unset", 0),
        ("aggregate set rack --property=ssd=true", 0),
    ],
)
def test_what_does_not_happen_has_none(command, cloud, command_line, status):
    assert command.run(*command_line.split()).status == status
    assert entries(cloud) == []


def test_only_what_differs_is_kept(command, cloud):
    command.json("host", "disable", "h2", "--reason=new fans")
    command.json("aggregate", "set", "rack", "--property=ssd=false", "--property=rack=7")
    command.json("aggregate", "add", "host", "rack", "h2", "h3")
    command.json("aggregate", "set", "rack", "--name=row")
    command.json("host", "maintenance", "on", "h3")
    maintenance, renamed, added, changed, disabled = entries(cloud)
    assert (disabled["before"], disabled["after"]) == (
        {"disabled": False, "disabled_reason": None},
        {"disabled": True, "disabled_reason": "new fans"},
    )
    assert changed["before"] == {"properties": {"ssd": "true"}}
    assert changed["after"] == {"properties": {"ssd": "false", "rack": "7"}}
    assert (changed["hosts"], added["hosts"]) == (["gone", "h1"], ["h2", "h3"])
    assert (added["before"], added["after"]) == ({"hosts": []}, {"hosts": ["h2", "h3"]})
    assert (renamed["before"], renamed["after"]) == ({"name": "rack"}, {"name": "row"})
    assert (maintenance["before"], maintenance["after"]) == (
        {"maintenance": None},
        {"maintenance": ""},
    )


def test_entries_are_found_by_host_aggregate_operator_and_time(command, cloud):
    def found(*arguments):
        rows = command.json("audit", "list", *arguments)
        return [(each["Command"], each["Name"]) for each in rows]

    command.json("host", "disable", "h2", "--operator", "alice")
    command.json("aggregate", "add", "host", "rack", "h2", "h3", "--operator=bob")
    command.json("aggregate", "delete", "spare", "--operator=bob")
    disabled, added, deleted = (
        ("host disable", "h2"),
        ("aggregate add host", "rack"),
        ("aggregate delete", "spare"),
    )
    assert found() == [deleted, added, disabled]
    assert found("--limit=1") == [deleted]
    assert found("--host", "H2") == [added, disabled]
    assert found("--host=h1") == []
    assert found("--aggregate=rack") == found("--aggregate=1") == [added]
    assert found("--aggregate=spare") == [deleted]
    assert found("--operator", "alice") == found("--operator=alice") == [disabled]
    assert found("--since=1h") == [deleted, added, disabled]
    assert found("--since=2099-01-01") == []
    assert "there is no host 'h'; did you mean" in command.refused("audit", "list", "--host=h")
    assert "there is no aggregate 'empt'" in command.refused("audit", "list", "--aggregate=empt")


def test_a_table_says_it_in_a_line(command, cloud):
    command.json("aggregate", "add", "host", "rack", "h2", "h3", "--operator=bob")
    text = command.run("audit", "list", "--max-width=200").stdout
    assert "| bob      | aggregate add host | rack | hosts=none | hosts=h2, h3 |" in text


@pytest.mark.parametrize(
    ("uid", "variables", "expected"),
    [
        (0, {"USER": "carol", "LOGNAME": "carol"}, "root"),
        (0, {"SUDO_USER": "carol"}, "root (sudo by carol)"),
        (0, {"SUDO_USER": "root"}, "root"),
        (1, {"SUDO_USER": "carol", "USER": "carol"}, "daemon"),
        (4_000_000_001, {"USER": "carol"}, "4000000001"),
    ],
)
def test_the_account_is_that_of_the_real_uid(monkeypatch, uid, variables, expected):
    monkeypatch.delenv("SUDO_USER", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("os.getuid", lambda: uid)
    assert audit_log.account() == expected


def test_the_operator_is_the_one_of_the_environment_or_the_account(command, cloud, monkeypatch):
    monkeypatch.setenv("LOGNAME", "eve")
    monkeypatch.setattr("inventory.audit_log.account", lambda: "carol")
    command.json("host", "disable", "h2")
    monkeypatch.setenv("BERTHMASTER_OPERATOR", "dora")
    command.json("host", "enable", "h2")
    command.json("--operator=alice", "host", "disable", "h2")
    assert [each["operator"] for each in entries(cloud)] == ["alice", "dora", "carol"]
    refused = command.refused("--operator", "x" * 256, "host", "enable", "h2", status=2)
    assert "--operator: has 256 characters, at most 255 are allowed" in refused


def test_what_others_than_operators_do_is_not_logged(cloud):
    cloud.write(lambda c: services.disable_automatically(c, [2], "libvirt is away"))
    cloud.write(lambda c: aggregate_operations.delete(c, ["spare"]))
    assert entries(cloud) == []


def test_a_reservation_that_loses_places_with_their_host_has_an_entry(command, cloud):
    there = "UPDATE allocations SET host = 'gone', compute_node_id = 4"
    execute(cloud, f"{there} WHERE reservation_uuid IS NOT NULL")
    command.json("service", "delete", "gone", "--forget-guests")
    (lost,) = (each for each in entries(cloud, host="gone") if each["kind"] == "reservation")
    assert (lost["name"], lost["before"]) == ("held", {"hosts": ["gone"]})
