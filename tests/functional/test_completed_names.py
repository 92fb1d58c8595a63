# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Keys are pressed in a real bash, which completes names that are in a real MariaDB."""

import os
import time
from pathlib import Path
from tempfile import mkdtemp

from inventory.engine import Database
from inventory.operations import aggregate_operations, server_group_operations
from tests.fixtures.daemons.mariadb import MariaDB
from tests.fixtures.deployment import Deployment, a_fleet
from tests.fixtures.terminal import TAB, typed_lines

FILE = Path(__file__).parents[2] / "etc" / "bash-completion" / "berthmaster"
NAMED = [
    ("host show co", "host show compute-1 "),
    ("host show ra", "host show rack:2 "),
    ("claim list --host \\$", "claim list --host \\$\\(touch\\ x\\) "),
    ("select --force-host=rack", "select --force-host=rack:2 "),
    ("select --availability-zone ea", "select --availability-zone east\\ side "),
    (
        "capacity --flavor 1,1,1 --aggregate 'fa",
        "capacity --flavor 1,1,1 --aggregate 'fast disks' ",
    ),
    ("select --hint group=", "select --hint group=it\\'s\\ apart "),
    ("service list --binary ", "service list --binary nova-compute "),
    ("host power compute-1 re", "host power compute-1 reboot "),
    ("host list --max", "host list --max-width "),
]


def _typed(deployment: Deployment, *lines: str) -> list[str]:
    """Return what becomes of command lines, in a bash that has the deployment's configuration."""
    home = Path(mkdtemp(dir=deployment.directory))
    path = os.pathsep.join([str(deployment.command.parent), os.environ["PATH"]])
    begin = f"berthmaster --config-file {deployment.config} "
    found = typed_lines([f"{begin}{line}{TAB}" for line in lines], FILE, home, {"PATH": path})
    assert {each.name for each in home.iterdir()} == {"bashrc", "kept"}
    return [line.removeprefix(begin) for line in found]


def test_names_are_those_in_the_database(deployment: Deployment, database: Database) -> None:
    a_fleet(database, ["compute-1", "rack:2", "$(touch x)"])
    zone = {"availability_zone": "east side"}
    database.write(lambda c: aggregate_operations.create(c, "fast disks", zone))
    database.write(lambda c: server_group_operations.create(c, "it's apart", "affinity", None))
    assert _typed(deployment, *(typed for typed, _ in NAMED)) == [line for _, line in NAMED]


def test_a_database_that_hangs_does_not_hang_the_shell(
    deployment: Deployment, mariadb: MariaDB
) -> None:
    def seconds() -> float:
        began = time.monotonic()
        assert _typed(deployment, "host show c") == ["host show c"]
        return time.monotonic() - began

    usual = seconds()
    mariadb.pause()
    try:
        took = seconds()
    finally:
        mariadb.resume()
    # Commands wait for ten seconds.
    assert took < 8 + usual
