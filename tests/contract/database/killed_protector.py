# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler or command that is killed before one statement of what it does for standbys."""

from pathlib import Path
from tempfile import TemporaryDirectory

from inventory.operations import reservation_operations
from tests.contract.database.killed_claimer import die_before
from tests.contract.database.standby_cloud import Size, StandbyCloud
from tests.databases import a_uuid, open_at

CLAIMED = [a_uuid(f"claimed {number}") for number in range(3)]
SIZE: Size = (2, 4096, 10)
# It takes a reserved place, and is evacuated with it.
INSIDE = a_uuid("inside")


def run(url: str, what: str, which: int, *ignored: str) -> None:
    """Work in this process on the database of a StandbyCloud, up to this statement.

    Commits count as statements. ignored are the hosts that a request ignores.
    """
    with TemporaryDirectory() as directory:
        cloud = StandbyCloud(open_at(url), Path(directory))
        cloud.schedulers = [cloud.scheduler()]
        die_before(cloud.database, which)
        if what == "keep":
            cloud.keep()
        elif what == "reserve":
            cloud.reserve_protected("new", SIZE, 2)
        elif what == "end":
            cloud.write(reservation_operations.delete, ["old"])
        elif what == "take":
            assert cloud.ask([INSIDE], SIZE, mode=None, ignore=ignored)
        else:
            assert cloud.ask(CLAIMED, SIZE)
