# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The private daemons do what tests rely on, and leave nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import kombu
import pytest
import sqlalchemy

from tests.fixtures import availability
from tests.fixtures.daemons import guests
from tests.fixtures.daemons.libvirtd import Libvirtd
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.daemons.ports import FIRST, LAST, LOOPBACK, OWN, free_ports
from tests.fixtures.daemons.process import PATIENCE, Guard, ProcessError, wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ

# About the tests' own daemons, which all other tests here rely on as well.
pytestmark = pytest.mark.release

GUEST = "6c3f2b9e-52a8-4f0e-8d4f-0d7a1f6f3c11"
# Leaves its process group, its session and its parent, as QEMU does.
DAEMONISE = "setsid sh -c 'echo $$ > orphan.pid; exec sleep 600' & exit 0"
# Starts the above under a guard, says so, and waits to be killed.
ABANDON = f"""
import sys, pathlib
from tests.fixtures.daemons.process import Guard
guard = Guard()
guard.start("child", ["sleep", "600"], pathlib.Path(sys.argv[1]))
guard.start("parent", ["sh", "-c", {DAEMONISE!r}], pathlib.Path(sys.argv[1])).wait(10)
print(guard._program.pid, flush=True)
sys.stdin.read()
"""


def exists(pid: int) -> bool:
    """Tell whether a process lives; a zombie waits for an init that may be in no hurry."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def send_and_receive(url: str, body: dict[str, int]) -> object:
    with kombu.Connection(url.replace("rabbit:", "pyamqp:")) as connection:
        queue = connection.SimpleQueue("test-daemons", queue_opts={"auto_delete": True})
        queue.put(body)
        message = queue.get(timeout=PATIENCE)
        message.ack()
        queue.close()
        return message.payload


def test_a_message_passes_through_rabbitmq(rabbitmq: RabbitMQ) -> None:
    assert send_and_receive(rabbitmq.transport_url, {"n": 1}) == {"n": 1}


def test_rabbitmq_comes_back_at_the_same_address_after_a_kill(rabbitmq: RabbitMQ) -> None:
    rabbitmq.kill()
    assert not rabbitmq.ready()
    rabbitmq.start()
    assert send_and_receive(rabbitmq.transport_url, {"n": 2}) == {"n": 2}


def test_mariadb_answers_and_keeps_its_data_through_a_kill(mariadb: MariaDB) -> None:
    engine = sqlalchemy.create_engine(mariadb.create_database("daemons"), pool_pre_ping=True)
    with engine.begin() as connection:
        assert connection.execute(sqlalchemy.text("SELECT 1")).scalar() == 1
        connection.execute(sqlalchemy.text("CREATE TABLE kept (name VARCHAR(9)) ENGINE=InnoDB"))
    mariadb.kill()
    mariadb.start()
    with engine.begin() as connection:
        assert connection.execute(sqlalchemy.text("SHOW TABLES")).scalar() == "kept"
    engine.dispose()
    mariadb.drop_database("daemons")


def test_a_copied_database_has_the_tables_the_keys_and_the_rows_of_the_other(
    mariadb: MariaDB,
) -> None:
    engine = sqlalchemy.create_engine(mariadb.create_database("original"))
    with engine.begin() as connection:
        for statement in (
            "CREATE TABLE b_parents (id INTEGER PRIMARY KEY)",
            "CREATE TABLE a_children (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL,"
            " FOREIGN KEY (parent) REFERENCES b_parents (id))",
            "INSERT INTO b_parents VALUES (1)",
            "INSERT INTO a_children VALUES (2, 1)",
        ):
            connection.execute(sqlalchemy.text(statement))
    copy = sqlalchemy.create_engine(mariadb.copy_database("original", "copied"))
    with copy.begin() as connection:
        assert connection.execute(sqlalchemy.text("SELECT * FROM a_children")).all() == [(2, 1)]
        (key,) = sqlalchemy.inspect(connection).get_foreign_keys("a_children")
        assert (key["referred_schema"], key["referred_table"]) == (None, "b_parents")
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            connection.execute(sqlalchemy.text("INSERT INTO a_children VALUES (3, 7)"))
    for each in (engine, copy):
        each.dispose()
    for name in ("original", "copied"):
        mariadb.drop_database(name)


def test_a_port_is_free_and_does_not_come_again_soon() -> None:
    first = free_ports(3)
    with socket.socket() as taken:
        # The next one in turn.
        taken.bind((LOOPBACK, first[-1] + 1 if (first[-1] + 1 - FIRST) % OWN else first[0]))
        second = free_ports(3)
        assert taken.getsockname()[1] not in second
    assert len({*first, *second}) == 6
    assert all(FIRST <= port <= LAST for port in first + second)


def test_a_real_guest_is_seen_with_its_size_and_is_gone_after(libvirtd: Libvirtd) -> None:
    with guests.connected(libvirtd.uri) as connection:
        with libvirtd.guest("tiny", GUEST, vcpus=2, memory_mib=64):
            (seen,) = connection.listAllDomains()
            _, max_memory_kib, _, vcpus, _ = seen.info()
            assert (seen.name(), seen.UUIDString()) == ("tiny", GUEST)
            assert (vcpus, max_memory_kib) == (2, 64 * 1024)
        assert connection.listAllDomains() == []


def test_a_guest_survives_its_libvirtd(libvirtd: Libvirtd) -> None:
    with libvirtd.guest("survivor", GUEST):
        libvirtd.kill()
        libvirtd.start()
        with guests.connected(libvirtd.uri) as connection:
            assert connection.lookupByUUIDString(GUEST).isActive()


@pytest.mark.daemons
def test_guests_end_with_their_libvirtd(tmp_path: Path) -> None:
    availability.require(availability.LIBVIRTD)
    with Libvirtd(tmp_path) as daemon:
        with guests.connected(daemon.uri) as connection:
            guests.start(connection, "left-behind", GUEST)
        (pid_file,) = daemon.socket.parent.rglob("left-behind.pid")
        pid = int(pid_file.read_text())
        assert exists(pid)
    assert not exists(pid)


def test_a_daemon_that_ends_early_is_reported_with_its_log(tmp_path: Path) -> None:
    with Guard() as guard:
        broken = guard.start("broken", ["sh", "-c", "echo no such port; exit 3"], tmp_path)
        with pytest.raises(ProcessError, match=r"broken: ended with status 3(?s:.*)no such port"):
            broken.wait_ready(lambda: False)


def test_a_daemon_that_is_never_ready_is_reported_with_its_log(tmp_path: Path) -> None:
    with Guard() as guard:
        late = guard.start("late", ["sh", "-c", "echo thinking; exec sleep 600"], tmp_path)
        wait_until(lambda: "thinking" in text(late.log))
        with pytest.raises(ProcessError, match=r"late: not ready after 0.1 s(?s:.*)thinking"):
            late.wait_ready(lambda: False, timeout=0.1)
    assert not exists(late.pid)


def test_a_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with Guard() as guard:
        absent = guard.start("absent", ["no-such-program"], tmp_path)
        with pytest.raises(ProcessError, match=r"status 127(?s:.*)cannot run no-such-program"):
            absent.wait_ready(lambda: False)


def test_a_process_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    with Guard() as guard:
        deaf = guard.start("deaf", ["sh", "-c", "trap '' TERM; echo up; sleep 600"], tmp_path)
        wait_until(lambda: "up" in text(deaf.log))
        assert deaf.stop(timeout=0.1) == -signal.SIGKILL


def test_nothing_survives_a_killed_test_run(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", ABANDON, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with run:
        assert run.stdout is not None
        guard = int(run.stdout.readline())
        assert wait_until(lambda: text(tmp_path / "orphan.pid"))
        orphan = int(text(tmp_path / "orphan.pid"))
        assert exists(guard)
        assert exists(orphan)
        run.kill()
    assert wait_until(lambda: not exists(guard) and not exists(orphan))


def test_an_absent_daemon_skips_by_name_and_fails_in_ci() -> None:
    modules = {"no_such_module": "extra [foo]"}
    absent = availability.Requirement("foo", {"no-such-program": "food"}, modules)
    with pytest.raises(pytest.skip.Exception, match=r"^foo is not installed: run 'make system-pa"):
        availability.require(absent, ci=False)
    with pytest.raises(pytest.fail.Exception, match=r"no-such-program \(package food\)"):
        availability.require(absent, ci=True)
    with pytest.raises(pytest.fail.Exception, match=r"no_such_module \(extra \[foo\]\)"):
        availability.require(absent, ci=True)


def test_an_absent_peer_names_what_makes_it(tmp_path: Path) -> None:
    stamp = tmp_path / ".installed"
    peer = availability.Requirement("peer", files={stamp: "make peer"}, cure="run 'make peer'")
    with pytest.raises(pytest.skip.Exception, match=r"^peer is not installed: run 'make peer'$"):
        availability.require(peer, ci=False)
    with pytest.raises(pytest.fail.Exception, match=r"/\.installed \(make peer\)"):
        availability.require(peer, ci=True)
    stamp.touch()
    availability.require(peer, ci=True)
