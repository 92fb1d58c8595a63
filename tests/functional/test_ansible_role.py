# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The role of Ansible installs and upgrades whole machines: two controllers and a hypervisor."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fixtures import availability, releases
from tests.fixtures.authority import an_authority
from tests.fixtures.daemons.process import Guard, wait_until
from tests.fixtures.machines import wheels
from tests.fixtures.machines.cloud import InstalledCloud, Run
from tests.fixtures.machines.machine import Machines
from tests.fixtures.machines.root import fresh_root

pytestmark = pytest.mark.release

CONTROLLERS, HYPERVISORS = ["controller1", "controller2"], ["hypervisor1"]
PYTHON, CONFIGURATION = "/opt/berthmaster/bin/python", "/etc/berthmaster/berthmaster"
WANTED = ("--vcpus=1", "--memory-mb=64", "--disk-gb=0")
# Speaks AMQP without TLS, and asks the database without TLS, with the password of an agent.
PLAIN = r"""
import configparser, pymysql, socket
from sqlalchemy.engine import make_url

parser = configparser.ConfigParser(interpolation=None)
parser.read("/etc/berthmaster/berthmaster-agent.conf.d/agent.conf")
try:
    socket.create_connection(("controller1", 5672), timeout=5)
except ConnectionRefusedError:
    print("5672 refused")
with socket.create_connection(("controller1", 5671), timeout=5) as probe:
    probe.sendall(b"AMQP\x00\x00\x09\x01")
    print("AMQP" if b"AMQP" in probe.recv(64) else "5671 refused")
url = make_url(parser["database"]["connection"])
account = dict(host=url.host, user=url.username, password=url.password, database=url.database)
pymysql.connect(**account, ssl={"ca": "/etc/berthmaster/ca.pem"}).close()
try:
    pymysql.connect(**account, ssl_disabled=True)
except pymysql.err.OperationalError as error:
    # Servers say it in one of two ways: access denied, or insecure transport.
    print("3306 refused" if error.args[0] in (1045, 3159) else error)
"""


# Prints the connections of a daemon, of which each has a password.
CONNECTIONS = r"""
import configparser, sys

parser = configparser.ConfigParser(interpolation=None)
parser.read(sys.argv[1])
print(parser["DEFAULT"]["transport_url"], parser["database"]["connection"])
"""
# Says what becomes of the two connections, and who has signed the certificate of RabbitMQ.
CONNECT = r"""
import ssl, sys

import kombu, pymysql
from amqp.exceptions import AccessRefused
from sqlalchemy.engine import make_url

ca = "/etc/berthmaster/ca.pem"
rabbit, maria = map(make_url, sys.argv[1:])
options = dict(userid=rabbit.username, password=rabbit.password, port=rabbit.port)
checked = {"ca_certs": ca, "cert_reqs": ssl.CERT_REQUIRED}
try:
    with kombu.Connection(rabbit.host, transport="pyamqp", ssl=checked, **options) as opened:
        certificate = opened.connection.transport.sock.getpeercert()
    ((_, issuer),) = (part[0] for part in certificate["issuer"])
    print("RabbitMQ", issuer)
except AccessRefused:
    print("RabbitMQ refused")
options = dict(user=maria.username, password=maria.password, database=maria.database)
try:
    pymysql.connect(host=maria.host, ssl={"ca": ca}, **options).close()
    print("MariaDB")
except pymysql.err.OperationalError as error:
    print("MariaDB refused" if error.args[0] == 1045 else error)
"""


class Installed(NamedTuple):
    """A cloud, and how its installation went."""

    cloud: InstalledCloud
    first: Run


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Machines on which the role was run once."""
    availability.require(availability.MACHINES)
    availability.require_root()
    directory = tmp_path_factory.mktemp("machines")
    archive = wheels.archive(directory / "this.tar", releases.TREE)
    with Guard() as guard:
        machines = Machines(guard, directory, fresh_root(), [*CONTROLLERS, *HYPERVISORS])
        cloud = InstalledCloud(machines, CONTROLLERS, HYPERVISORS)
        yield Installed(cloud, cloud.play("install.yml", archive))
        machines.stop()


@pytest.fixture
def cloud(installed: Installed) -> InstalledCloud:
    """The cloud, whose installation has succeeded."""
    assert installed.first.status == 0, installed.first.output[-8000:]
    return installed.cloud


def test_a_second_run_changes_nothing(cloud: InstalledCloud) -> None:
    again = cloud.play("install.yml", cloud.archive)
    assert again.status == 0, again.output[-8000:]
    changed = {host: counts["changed"] for host, counts in again.counts.items()}
    assert changed == dict.fromkeys(changed, 0), again.output
    assert changed.keys() >= {*CONTROLLERS, *HYPERVISORS}


def test_a_request_is_placed_on_the_hypervisor(cloud: InstalledCloud) -> None:
    (host,) = cloud.ask("host", "list")
    assert host["Host"] == "hypervisor1"
    assert cloud.ask("host", "show", "hypervisor1")["hypervisor_type"] == "QEMU"
    for name in CONTROLLERS:
        command = f"berthmaster select {' '.join(WANTED)} --format value --column Host"
        assert cloud.machines.checked(name, command).split() == ["hypervisor1"]


def test_nobody_connects_without_tls(cloud: InstalledCloud) -> None:
    output = cloud.machines.checked("hypervisor1", f"{PYTHON} -", PLAIN)
    assert output.splitlines() == ["5672 refused", "5671 refused", "3306 refused"]


def test_passwords_are_where_they_belong_and_nowhere_else(
    cloud: InstalledCloud, installed: Installed
) -> None:
    passwords = cloud.passwords()
    assert not [each for each in passwords if each in installed.first.output]
    for name in (*CONTROLLERS, *HYPERVISORS):
        journal = cloud.machines.checked(name, "journalctl --output=cat")
        assert not [each for each in passwords if each in journal]
        folders = "/etc/berthmaster /etc/rabbitmq /etc/mysql /root"
        open_to_all = f"find {folders} -perm /o+r -type f 2>/dev/null || true"
        readable = cloud.machines.checked(name, open_to_all).split()
        for path in readable:
            text = cloud.machines.checked(name, f"cat {path}")
            assert not [each for each in passwords if each in text], path
    assert not (cloud.secrets.stat().st_mode & 0o077)


def test_new_passwords_and_certificates_of_ones_own_take_effect(
    cloud: InstalledCloud, tmp_path: Path
) -> None:
    before = _connections(cloud)
    own = an_authority(tmp_path, "DNS:controller1")
    owners = ("operator", "scheduler", "agent")
    given = {
        "berthmaster_ca_certificate": str(own.ca_file),
        "berthmaster_server_certificate": str(own.certificate),
        "berthmaster_server_key": str(own.key),
    } | {
        f"berthmaster_{server}_{owner}_password": f"{server}-of-{owner}!#%&(~]"
        for server in ("rabbitmq", "mariadb")
        for owner in owners
    }
    cloud.give(given)
    changed = cloud.play("install.yml", cloud.archive)
    assert changed.status == 0, changed.output[-8000:]
    for name, url in before.items():
        assert _connect(cloud, name, *url) == ["RabbitMQ refused", "MariaDB refused"]
    for name, url in _connections(cloud).items():
        assert _connect(cloud, name, *url) == ["RabbitMQ Test authority", "MariaDB"]
    test_a_request_is_placed_on_the_hypervisor(cloud)
    # To the role these servers are now somebody else's, and they are as it would have them.
    cloud.give(given | {"berthmaster_manage_rabbitmq": False, "berthmaster_manage_mariadb": False})
    test_a_second_run_changes_nothing(cloud)
    cloud.give(given)


def _connections(cloud: InstalledCloud) -> dict[str, list[str]]:
    """Return by machine the URLs at which its daemon reaches broker and database."""
    paths = dict.fromkeys(CONTROLLERS, f"{CONFIGURATION}-scheduler.conf.d/account.conf")
    paths |= dict.fromkeys(HYPERVISORS, f"{CONFIGURATION}-agent.conf.d/agent.conf")
    return {
        name: cloud.machines.checked(name, f"{PYTHON} - {path}", CONNECTIONS).split()
        for name, path in paths.items()
    }


def _connect(cloud: InstalledCloud, name: str, broker: str, database: str) -> list[str]:
    """Return what becomes of connections from a machine."""
    line = f"{PYTHON} - {shlex.quote(broker)} {shlex.quote(database)}"
    return cloud.machines.checked(name, line, CONNECT).splitlines()


def test_an_upgrade_by_turns_loses_no_request(cloud: InstalledCloud, tmp_path: Path) -> None:
    release = releases.next_release(tmp_path)
    archive = wheels.archive(tmp_path / "upgrade.tar", wheels.complete(release.tree, "0.2.0"))
    with cloud.callers() as asked:
        upgraded = cloud.play("upgrade.yml", archive)
    assert upgraded.status == 0, upgraded.output[-8000:]
    assert asked.failures == []
    claimed = {each["Instance"]: each["Host"] for each in cloud.ask("claim", "list")}
    assert claimed.items() >= asked.answered.items()
    version = cloud.machines.checked("controller1", "berthmaster db version").strip()
    assert version == release.schema
    for name in (*CONTROLLERS, *HYPERVISORS):
        shown = cloud.machines.checked(name, "/opt/berthmaster/bin/berthmaster --version")
        assert shown.split()[-1] == "0.2.0"
    assert wait_until(lambda: _states(cloud) == {"up"})


def _states(cloud: InstalledCloud) -> set[str]:
    return {each["State"] for each in cloud.ask("service", "list")}
