# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.operators.cli.completion, through the command that shells ask."""

import socket
import time
from importlib import metadata

import pytest

from conf.private_apis import arguments_of
from inventory.operations import aggregate_operations, server_group_operations
from inventory.queries.name_queries import NAMES
from scheduler.operators.cli.app import BerthmasterApp
from scheduler.operators.cli.completion import CompleteWords
from tests.databases import a_node, execute, save, serve
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of


@pytest.fixture
def ask(command):
    """Return a function that returns what can follow on a line: of which kind it is, and what."""

    def what_follows(line, *options):
        # Shells hand words over as they were typed.
        words = ["berthmaster", f"--config-file={command.config}", *line.split("|")]
        done = command.run("complete", "words", "\n".join(filter(None, words)), *options)
        assert (done.status, done.stderr) == (0, "")
        kind, *found = done.stdout.splitlines()
        return kind, found

    return what_follows


@pytest.fixture
def cloud(database, command):
    """Hosts of two zones, with names that are unusual."""
    save(database, a_node("h1"), a_node("rack:2"), a_node("two", "two.example"))
    serve(database, "h1", "rack:2", "$(touch x)", "two")
    execute(database, "INSERT INTO services (uuid, host, topic, \"binary\", version) VALUES"
                      " ('s', 'controller', 'scheduler', 'nova-scheduler', 1)")  # fmt: skip
    # Which no line can hold.
    save(database, a_node("bell\a\nrings"))
    racks = {"failure_domain": "rack 1,power"}
    database.write(lambda c: aggregate_operations.create(c, "racks", racks))
    for name, zone in (("fast disks", "east side"), ("spare", None)):
        zone = {} if zone is None else {"availability_zone": zone}
        database.write(lambda c, name=name, zone=zone: aggregate_operations.create(c, name, zone))
    database.write(lambda c: server_group_operations.create(c, "it's apart", "affinity", None))
    return database


HOSTS = ["$(touch x)", "h1", "rack:2", "two"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("host|show", HOSTS),
        ("host|describe", HOSTS),
        ("claim|list|--host", HOSTS),
        ("host|power", HOSTS),
        ("host|power|h1|reboot|--agent", HOSTS),
        ("plan|drain|h1", HOSTS),
        ("failover|simulate", ["$(touch x)", "h1", "power", "rack 1", "rack:2", "two"]),
        ("select|--vcpus|1|--force-host", HOSTS),
        ("aggregate|add|host|spare", HOSTS),
        ("service|show", ["$(touch x)", "controller", *HOSTS[1:]]),
        ("service|list|--binary", ["nova-compute", "nova-scheduler"]),
        ("host|list|--zone", ["east side", "nova"]),
        ("host|list|--aggregate", ["fast disks", "racks", "spare"]),
        ("capacity|--flavor|1,1,1|--availability-zone", ["east side", "nova"]),
        ("aggregate|show", ["fast disks", "racks", "spare"]),
        ("aggregate|set|spare|--zone", ["east side", "nova"]),
        ("select|--aggregate", ["fast disks", "racks", "spare"]),
        ("server|group|show", ["it's apart"]),
        ("server|group|delete|'it'\\''s apart'", ["it's apart"]),
        ("select|--hint", ["group=it's apart"]),
        ("instance|list|--host", HOSTS),
        ("hypervisor|servers", ["h1", "rack:2", "two.example"]),
        # As cliff takes them.
        ("ho|sh", HOSTS),
    ],
)
@pytest.mark.usefixtures("cloud")
def test_names_are_those_of_the_database(ask, line, names):
    assert ask(line) == ("names", names)


def test_decisions_claims_and_projects_are_those_of_late(ask, database, command):
    save(database, a_node("h1"))
    serve(database, "h1")
    with KeepingScheduler(database, configured(command.config)) as scheduler:
        scheduler.ask("web")
    (uuid,) = uuids_of("web")
    assert ask("explain") == ask("decision|list|--request") == ("names", [uuid, "req-web"])
    assert ask("explain|1|--instance") == ("names", [uuid])
    assert ask("server|group|add|instance|a") == ("names", [uuid])
    (claim,) = command.json("claim", "list")
    assert ask("claim|release") == ("names", [claim["Instance"]])
    kind, projects = ask("select|--project")
    assert (kind, len(projects)) == ("names", 1)


@pytest.mark.parametrize(
    ("line", "kind", "some"),
    [
        ("", "words", {"host", "select", "help"}),
        ("host", "words", {"list", "show", "maintenance"}),
        ("host|maintenance", "words", {"on", "off"}),
        ("help|host", "words", {"list"}),
        ("host|power|h1", "words", {"reboot"}),
        ("host|list|--state", "lists", {"up", "maintenance", "unserved"}),
        ("host|list|-c", "words", {"host", "vcpus_used", "last_seen"}),
        ("host|list|--sort-column", "words", {"zone"}),
        ("host|list|-f", "words", {"json", "table"}),
        ("decision|list|--outcome", "words", {"refused"}),
        ("server|group|create|a|--policy", "words", {"anti-affinity"}),
        ("--config-file", "files", set()),
        ("simulate|--trace", "files", set()),
        ("decision|save|1", "files", set()),
        ("decision|replay|--config-dir", "files", set()),
        ("aggregate|create", "nothing", set()),
        ("host|list", "nothing", set()),
        ("host|list|--watch", "nothing", set()),
        ("no|such|command", "words", set()),
    ],
)
def test_words_are_those_of_the_program(ask, line, kind, some):
    found, words = ask(line)
    assert found == kind
    assert some <= {*words}
    assert bool(words) == bool(some)


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("", {"--config-file", "--database-timeout"}),
        ("host|list", {"--zone", "--long", "--watch", "-f"}),
        # An option whose value may be left out.
        ("host|list|--watch", {"--zone"}),
        ("host", {"--help"}),
    ],
)
def test_options_are_those_of_the_command(ask, line, some):
    kind, words = ask(line, "--options")
    assert kind == "words"
    assert some <= {*words}


def test_a_database_that_does_not_answer_has_no_names(ask, command):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"mysql+pymysql://me:secret@127.0.0.1:{server.getsockname()[1]}/bm"
        command.config.write_text(f"[database]\nconnection = {url}\n")
        began = time.monotonic()
        words = f"berthmaster\n--config-file\n{command.config}\nhost\nshow"
        # Another command would wait as long.
        done = command.run(f"--database-timeout={PATIENCE}", "complete", "words", words)
    assert done.stdout == "names\n"
    assert time.monotonic() - began < PATIENCE / 2


@pytest.mark.parametrize("setting", ["[database]\nconnection = sqlite:////nowhere/x", "no option"])
def test_what_is_wrong_with_the_configuration_is_not_said(ask, command, setting):
    command.config.write_text(f"{setting}\n")
    assert ask("host|show") == ("names", [])


def test_commands_name_kinds_that_there_are(command):
    kinds = set()
    for point in metadata.entry_points(group="berthmaster.cli"):
        parser = point.load()(BerthmasterApp(None), None).get_parser("x")
        kinds |= {getattr(each, "names", None) for each in arguments_of(parser)}
    assert kinds - {None} == {*NAMES, "hints"}
    assert CompleteWords.__doc__
