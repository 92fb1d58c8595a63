# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A scheduler that is killed in the middle of a batch has claimed all of it or nothing."""

import subprocess
import sys
from itertools import count

import pytest
import sqlalchemy as sa

from inventory.claims import claims
from inventory.tables import allocations as table
from tests.contract.database import killed_claimer
from tests.contract.database.test_claims_together import assert_sums_are_right
from tests.databases import empty
from tests.fixtures.daemons.process import PATIENCE


@pytest.fixture
def kill(url):
    """Return what has a batch of claims killed before a statement, and returns the status."""

    def run(which):
        command = [sys.executable, "-m", killed_claimer.__name__, url, str(which)]
        return subprocess.run(command, check=False, timeout=PATIENCE).returncode

    return run


def claimed(database):
    return database.read(lambda c: c.execute(sa.select(table.c.request_id, table.c.state)).all())


def test_a_batch_that_is_killed_before_any_of_its_statements_has_claimed_nothing(cloud, kill):
    """The same requests again are claimed for once, as if nothing had been."""
    orders = killed_claimer.batch()
    for which in count(1):
        status = kill(which)
        assert (status, len(claimed(cloud))) in ((-9, 0), (0, 9))
        assert_sums_are_right(cloud)
        if status == 0:
            break
        found, _ = cloud.write(lambda c: claims.claim_each(c, orders))
        assert [len(each.answers) for each in found] == [2, 2, 2]
        assert len(claimed(cloud)) == 9
        assert_sums_are_right(cloud)
        uuids = [uuid for each in orders for uuid in each.identity.uuids]
        cloud.write(lambda c, uuids=uuids: claims.release(c, uuids))
        assert_sums_are_right(cloud)
    # The locks and the lookup, both kinds of writes and the commit at least.
    assert which > 4


def test_a_batch_whose_scheduler_is_killed_after_the_commit_is_not_claimed_twice(cloud, kill):
    """Nobody has heard of the answers, so all requests come again."""
    assert kill(10_000) == 0
    before = claimed(cloud)
    for order in killed_claimer.batch():
        again = cloud.write(lambda c, order=order: claims.claim(c, order))
        assert (again.repeated, len(again.answers)) == (True, 2)
    assert claimed(cloud) == before
    assert_sums_are_right(cloud)
    empty(cloud)
