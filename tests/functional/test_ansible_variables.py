# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The role says which of its variables is wrong and what it should be, before it does anything."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.machines.cloud import PLAYBOOKS

pytestmark = pytest.mark.release

SECRET = "pass word"
OWN = {"berthmaster_manage_rabbitmq": False}
OWN_DATABASE = {"berthmaster_manage_mariadb": False}
GOOD = {"berthmaster_wheels": __file__}


def refused(directory: Path, variables: dict[str, object], group: str = "controllers") -> str:
    """Return what the role says of variables, with one machine in a group; it must refuse them."""
    children = {group: {"hosts": {"machine": None}, "vars": variables}}
    (directory / "inventory.yml").write_text(yaml.safe_dump({"all": {"children": children}}))
    role = {"name": "berthmaster", "tasks_from": "check"}
    play = {
        "hosts": "all",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [{"name": "Check", "ansible.builtin.import_role": role}],
    }
    (directory / "play.yml").write_text(yaml.safe_dump([play]))
    program = str(Path(sys.executable).parent / "ansible-playbook")
    done = subprocess.run(
        [program, "-v", "-i", "inventory.yml", "play.yml"],
        cwd=directory,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "ANSIBLE_ROLES_PATH": str(PLAYBOOKS / "roles"),
            "ANSIBLE_HOME": str(directory / "ansible"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode != 0, done.stdout
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "berthmaster_wheels has to name the archive of wheels to install"),
        ({"berthmaster_wheels": "/nowhere.tar"}, "It is '/nowhere.tar'"),
        ({**GOOD, "berthmaster_rabbitmq_address": "a b"}, "has to be a name or an IPv4 address"),
        ({**GOOD, "berthmaster_server_key": "/key"}, "Give berthmaster_ca_certificate, "),
        ({**GOOD, **OWN}, "With a RabbitMQ or a MariaDB of your own"),
        (
            {**GOOD, **OWN, **OWN_DATABASE, "berthmaster_ca_certificate": "/ca"},
            "berthmaster_ca_certificate has to name a file",
        ),
        (
            {**GOOD, "berthmaster_mariadb_agent_password": SECRET},
            "berthmaster_mariadb_agent_password has to have at least 8 characters",
        ),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, variables: dict[str, object], said: str) -> None:
    output = refused(tmp_path, variables)
    assert said in output
    assert SECRET not in output


def test_a_cloud_without_a_controller_is_refused(tmp_path: Path) -> None:
    assert "The inventory has no controller" in refused(tmp_path, GOOD, "hypervisors")
