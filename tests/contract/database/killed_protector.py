# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler that is killed before one statement of a protected claim, or of a keeper's pass."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.contract.database.killed_claimer import die_before
from tests.contract.database.standby_cloud import Size, StandbyCloud
from tests.databases import a_uuid, open_at

CLAIMED = [a_uuid(f"claimed {number}") for number in range(3)]
SIZE: Size = (2, 4096, 10)


def run(url: str, what: str, which: int) -> None:
    """Claim or keep in this process on the database of a StandbyCloud, up to this statement.

    Commits count as statements.
    """
    with TemporaryDirectory() as directory:
        cloud = StandbyCloud(open_at(url), Path(directory))
        cloud.schedulers = [cloud.scheduler()]
        die_before(cloud.database, which)
        if what == "keep":
            cloud.keep()
        else:
            assert cloud.ask(CLAIMED, SIZE)
