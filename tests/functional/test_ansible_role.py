# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The role of Ansible installs and upgrades whole machines: two controllers and a hypervisor."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fixtures import availability, releases
from tests.fixtures.daemons.process import Guard, wait_until
from tests.fixtures.machines import wheels
from tests.fixtures.machines.cloud import InstalledCloud, Run
from tests.fixtures.machines.machine import Machines
from tests.fixtures.machines.root import fresh_root

pytestmark = pytest.mark.matrix

CONTROLLERS, HYPERVISORS = ["controller1", "controller2"], ["hypervisor1"]
PATIENCE = 60.0
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
    told = cloud.machines.checked("hypervisor1", "/opt/berthmaster/bin/python -", PLAIN)
    assert told.splitlines() == ["5672 refused", "5671 refused", "3306 refused"]


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
    assert wait_until(lambda: _states(cloud) == {"up"}, PATIENCE)


def _states(cloud: InstalledCloud) -> set[str]:
    return {each["State"] for each in cloud.ask("service", "list")}
