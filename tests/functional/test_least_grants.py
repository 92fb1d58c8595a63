# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Daemons and commands do their work with what the guide grants in database and broker."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from inventory import (
    aggregates,
    audit_log,
    decisions,
    instances,
    migrations,
    server_groups,
    services,
)
from inventory.audit_log import Actor, acting
from inventory.claims import claim_rows, places
from inventory.database_errors import DatabaseUnavailable
from inventory.engine import Database
from inventory.operations import aggregate_mirror, service_operations
from tests import claimed, guides
from tests.databases import a_uuid, an_instance, open_at
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.process import PATIENCE, Guard, search_path, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.deployment import Deployment, a_fleet, wait_for_log
from tests.fixtures.virtual_host import CONTROL

NAME = "granted"
# Says what would be run, with which arguments and passwords, where no account is there yet.
ECHO = r"""
exec 3>&1
rabbitmqctl() {
    shift # -q
    case $1 in
    list_users) return ;;
    add_user) printf '%s\0' "$@" "$(cat)" ;;
    *) printf '%s\0' "$@" ;;
    esac >&3
    printf '\n' >&3
}
"""


def _elsewhere(statement: str) -> str:
    """Return a statement of the guide for another database, and another name of its owner."""
    statement = statement.replace("berthmaster.", f"{NAME}.").replace(
        "'berthmaster'@", f"'{NAME}'@"
    )
    return statement.replace("EXISTS berthmaster ", f"EXISTS {NAME} ")


def _apply(mariadb: MariaDB, name: str) -> None:
    """Run the statements of the guide, as root."""
    for statement in guides.statements(name):
        mariadb.execute_as_root(_elsewhere(statement))


def _url(mariadb: MariaDB, user: str, password: str) -> str:
    return f"mysql+pymysql://{user}:{password}@127.0.0.1:{mariadb.port}/{NAME}?charset=utf8mb4"


@pytest.fixture(scope="module")
def urls(mariadb: MariaDB) -> Iterator[dict[str, str]]:
    """The database, made and granted as the guide says, for each account."""
    _apply(mariadb, "admin/database")
    owner = _url(mariadb, NAME, "DB_PASS")
    database = open_at(owner)
    migrations.sync(database)
    database.close()
    _apply(mariadb, "admin/grants")
    yield {
        "owner": owner,
        "scheduler": _url(mariadb, "berthmaster_scheduler", "SCHEDULER_DB_PASS"),
        "agent": _url(mariadb, "berthmaster_agent", "AGENT_DB_PASS"),
    }
    mariadb.execute_as_root(f"DROP DATABASE {NAME}")
    for user in (NAME, "berthmaster_scheduler", "berthmaster_agent"):
        mariadb.execute_as_root(f"DROP USER '{user}'@'%'")


@pytest.fixture(scope="module")
def accounts(rabbitmq: RabbitMQ) -> dict[str, str]:
    """The URL of the broker for each account that the guide makes there."""
    script = ECHO + (guides.SOURCE / "admin" / "accounts.sh").read_text()
    said = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout
    commands = [line.rstrip("\0").split("\0") for line in said.splitlines()]
    users = [each[1:] for each in commands if each[0] == "add_user"]
    permissions = [each[1:] for each in commands if each[0] == "set_permissions"]
    assert len(users) + len(permissions) == len(commands)
    # One start of Erlang instead of six.
    _import(
        rabbitmq,
        {
            "users": [{"name": name, "password": word, "tags": []} for name, word in users],
            "permissions": [
                dict(zip(("user", "configure", "write", "read"), each, strict=True), vhost="/")
                for each in permissions
            ],
        },
    )
    return {name: f"rabbit://{name}:{word}@127.0.0.1:{rabbitmq.port}/" for name, word in users}


def _import(rabbitmq: RabbitMQ, definitions: dict[str, Any]) -> None:
    subprocess.run(
        [CONTROL, "--quiet", "import_definitions"],
        input=json.dumps(definitions),
        env={"PATH": search_path(), "LANG": "C.UTF-8", **rabbitmq.environment()},
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture
def granted(accounts: dict[str, str], urls: dict[str, str], tmp_path: Path) -> Iterator[Deployment]:
    """A deployment whose commands use the accounts of operators."""
    with Guard() as guard:
        yield Deployment(tmp_path, guard, accounts["berthmaster"], urls["owner"])


@pytest.fixture
def owned(granted: Deployment) -> Iterator[Database]:
    """The database as its owner sees it."""
    database = granted.open_database()
    yield database
    database.close()


def _options(accounts: dict[str, str], urls: dict[str, str], who: str) -> dict[str, Any]:
    """Return what makes a daemon use its own accounts, and be quick."""
    return {
        "DEFAULT": {
            "transport_url": accounts[f"berthmaster_{who}"],
            "compute_driver": "fake",
            "report_interval": 1,
            "update_resources_interval": 1,
        },
        "database": {"connection": urls[who]},
        "fake": {"hosts": 3, "guests": 1},
    }


def _rows(database: Database, query: str, **values: Any) -> list[Any]:
    return [*database.read(lambda c: c.execute(sa.text(query), values).all())]


def _execute(database: Database, statement: str, **values: Any) -> None:
    database.write(lambda c: c.execute(sa.text(statement), values))


def _group(database: Database) -> str:
    return database.write(lambda c: server_groups.create(c, "apart", "anti-affinity", {}, []))


def _build(database: Database, uuid: str) -> None:
    """Write the row of an instance as who builds it does, so that its agent sees it there."""
    _execute(
        database,
        "INSERT INTO instances (uuid, host, node, vcpus, memory_mb, root_gb, vm_state, managed)"
        " SELECT instance_uuid, host, node, vcpus, memory_mb, root_gb, 'active', 1"
        " FROM allocations WHERE instance_uuid = :uuid",
        uuid=uuid,
    )


def test_everybody_does_their_work_with_what_they_are_granted(
    granted: Deployment, owned: Database, accounts: dict[str, str], urls: dict[str, str]
) -> None:
    agent = granted.agent("threading", _options(accounts, urls, "agent"), name="node")
    wait_for_log(agent, "Listening as compute")
    assert wait_until(
        lambda: len(_rows(owned, "SELECT id FROM compute_nodes WHERE deleted = 0")) == 3
    )
    scheduler = granted.scheduler("threading", _options(accounts, urls, "scheduler"))

    hint = f"--hint=group={_group(owned)}"
    kept = granted.cli_json("select", "--keep", "--num-instances=2", hint)
    seen, lost = [row["Instance"] for row in kept]
    # Nobody comes, so it asks after them, and listens for an answer.
    wait_for_log(scheduler, "No Nova conductor answers")
    _build(owned, seen)
    _execute(
        owned,
        "UPDATE allocations SET expires_at = UTC_TIMESTAMP() WHERE instance_uuid = :uuid",
        uuid=lost,
    )
    # The agent confirms the one and gives the other back, in the figures of the nodes as well.
    confirmed = "SELECT instance_uuid FROM allocations WHERE state = 'confirmed'"
    assert wait_until(lambda: _rows(owned, confirmed) == [(seen,)])
    assert wait_until(lambda: len(_rows(owned, "SELECT id FROM allocations")) == 1)
    # A new request takes the place of an old claim, and without --keep it is given back.
    assert len(granted.cli_json("select", "--alternates")) == 1

    command = ("host", "power", "node-0001", "reboot", "--agent=node", f"--timeout={PATIENCE}")
    power = granted.cli(*command)
    assert "power actions are not allowed on this agent" in power.stderr
    assert granted.cli_json("host", "maintenance", "on", "node-0001")["status"] == "disabled"
    scheduler.stop()
    _execute(owned, "DELETE FROM allocations")
    # At its start it forgets the groups for which nothing is claimed.
    again = granted.scheduler("threading", _options(accounts, urls, "scheduler"))
    assert _rows(owned, "SELECT uuid FROM claimed_groups") == []
    agent.stop()
    assert wait_until(lambda: _rows(owned, "SELECT decision_id FROM decision_instances"))
    for process in (agent, scheduler, again):
        assert "denied" not in (log := process.log.read_text().lower()), log
        assert "refused - " not in log, log


def test_an_agent_removes_a_host_when_an_operator_asks_it_to(
    owned: Database, urls: dict[str, str]
) -> None:
    a_fleet(owned, ["gone"])
    owned.write(lambda c: aggregates.create(c, "cold", ["gone"], {}))
    guest = an_instance(a_uuid("guest"))
    owned.write(lambda c: instances.replace(c, "gone", "gone", [guest]))
    agent = open_at(urls["agent"])
    (done,) = agent.write(lambda c: service_operations.delete(c, ["gone"], -1, forget_guests=True))
    agent.close()
    assert done["deleted_nodes"] == ["gone"]
    assert _rows(owned, "SELECT host FROM aggregate_hosts WHERE host = 'gone'") == []


def test_a_scheduler_claims_again_and_gives_back(owned: Database, urls: dict[str, str]) -> None:
    a_fleet(owned, ["claimed"])
    (node,) = _rows(owned, "SELECT * FROM compute_nodes WHERE host = 'claimed'")
    scheduler, uuid = open_at(urls["scheduler"]), a_uuid("claimed")
    for vcpus in (1, 2):
        claimed.claim(scheduler, uuid, node, vcpus=vcpus)
    assert claimed.claimed(scheduler)[uuid] == "pending"
    claimed.release(scheduler, uuid)
    assert uuid not in claimed.claimed(scheduler)
    scheduler.close()


def test_an_agent_gives_the_standby_of_a_place_to_the_instance_in_it(
    owned: Database, urls: dict[str, str]
) -> None:
    _execute(
        owned,
        "INSERT INTO allocations (instance_uuid, state, compute_node_id, taken_by, host, node,"
        " vcpus, memory_mb, disk_mb, root_gb, ephemeral_gb, slot)"
        " VALUES ('place', 'waiting', 1, 'guest', 'h', 'n', 1, 1, 1, 1, 0, 0)",
    )
    _execute(
        owned,
        "INSERT INTO standbys (instance_uuid, place_node_id, domains, mode, vcpus, memory_mb,"
        " disk_mb, request) VALUES ('place', 1, 'a', 'required', 1, 1, 1, '')",
    )
    ((number,),) = _rows(owned, "SELECT id FROM allocations WHERE instance_uuid = 'place'")
    with closing(open_at(urls["agent"])) as agent:
        agent.write(lambda c: places.delete(c, [number]))
    assert _rows(owned, "SELECT instance_uuid FROM standbys") == [("guest",)]
    _execute(owned, "DELETE FROM standbys")


def test_an_agent_claims_what_a_guest_has_that_is_to_be_resized(
    owned: Database, urls: dict[str, str]
) -> None:
    row = dict.fromkeys(("vcpus", "memory_mb", "disk_mb", "root_gb", "ephemeral_gb"), 1)
    row |= {"instance_uuid": "resized", "state": "confirmed", "host": "h", "node": "n"}
    with closing(open_at(urls["agent"])) as agent:
        agent.write(lambda c: claim_rows.insert(c, [{**row, "compute_node_id": 1, "slot": 1}]))
    found = _rows(owned, "SELECT state FROM allocations WHERE instance_uuid = 'resized'")
    assert found == [("confirmed",)]
    _execute(owned, "DELETE FROM allocations WHERE instance_uuid = 'resized'")


def test_a_scheduler_deletes_old_decisions(owned: Database, urls: dict[str, str]) -> None:
    _execute(
        owned,
        "INSERT INTO decisions (decided_at, scheduler, outcome, instances, milliseconds, conflicts,"
        " snapshot_log, snapshot_number, document)"
        " VALUES (UTC_TIMESTAMP() - INTERVAL 1 DAY, 's', 'o', 1, 1, 0, 'f', 1, '')",
    )
    _execute(
        owned,
        "INSERT INTO decision_inputs (snapshot_log, first, piece, written_at, data)"
        " VALUES ('f', 1, 1, UTC_TIMESTAMP() - INTERVAL 1 DAY, '')",
    )
    scheduler = open_at(urls["scheduler"])
    # What no decision needs any more goes after the last decision.
    assert wait_until(lambda: not scheduler.write(lambda c: decisions.prune(c, 60, 10)))
    scheduler.close()
    for table in ("decisions", "decision_inputs"):
        assert _rows(owned, f"SELECT snapshot_log FROM {table} WHERE snapshot_log = 'f'") == []


def test_agents_add_to_the_audit_log_and_schedulers_delete_what_is_old(
    owned: Database, urls: dict[str, str]
) -> None:
    a_fleet(owned, ["broken"])
    actor = Actor("berthmaster", "node", "berthmaster-agent")

    def disable(connection: sa.Connection) -> None:
        (row,), _ = services.find_all(connection, ["broken"], services.COMPUTE[0])
        services.disable_automatically(acting(connection, actor), [row.id], "no libvirt")

    with closing(open_at(urls["agent"])) as agent:
        agent.write(disable)
    entries = "SELECT name FROM audit_log WHERE name = 'broken'"
    assert _rows(owned, entries) == [("broken",)]
    with closing(open_at(urls["scheduler"])) as scheduler:
        assert not scheduler.write(lambda c: audit_log.prune(c, 60))
        assert _rows(owned, entries) == [("broken",)]
        assert scheduler.write(lambda c: audit_log.prune(c, -60))
    assert _rows(owned, entries) == []


@pytest.mark.parametrize(
    ("who", "statement"),
    [
        ("agent", "INSERT INTO aggregates (uuid, name) VALUES ('u', 'n')"),
        ("agent", "INSERT INTO reservations (id) VALUES (1)"),
        ("agent", "UPDATE migrations SET deleted = 1"),
        ("agent", "UPDATE audit_log SET name = ''"),
        ("agent", "DELETE FROM audit_log"),
        ("scheduler", "UPDATE audit_log SET name = ''"),
        ("scheduler", "INSERT INTO compute_nodes (id) VALUES (1)"),
        ("scheduler", "UPDATE instances SET vcpus = 1"),
        ("scheduler", "DELETE FROM services"),
        *((who, "DROP TABLE allocations") for who in ("agent", "scheduler")),
        *((who, "SELECT * FROM mysql.user") for who in ("agent", "scheduler", "owner")),
    ],
)
def test_nobody_may_do_more(urls: dict[str, str], who: str, statement: str) -> None:
    database = open_at(urls[who])
    with pytest.raises(DatabaseUnavailable, match=r"lacks a right.* command denied"):
        _execute(database, statement)
    database.close()


def test_the_agent_of_a_nova_cloud_mirrors_aggregates_with_what_its_page_grants(
    mariadb: MariaDB, urls: dict[str, str]
) -> None:
    page = (guides.SOURCE / "admin" / "nova.rst").read_text()
    for statement in re.findall(r"GRANT .* ON berthmaster\..*(?=;)", page):
        mariadb.execute_as_root(_elsewhere(statement))
    wanted = aggregates.AggregateRecord(1, a_uuid("rack"), "rack", ["h1"], {"ssd": "true"})
    with closing(open_at(urls["agent"])) as database:
        assert aggregate_mirror.mirror(database, [wanted]).written == ["rack"]
        assert database.read(aggregates.everything) == [wanted]
        assert aggregate_mirror.mirror(database, []).deleted == ["rack"]
