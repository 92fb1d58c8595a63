# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the claims that instances have already, and of the time that comes with them."""

from datetime import timedelta
from types import SimpleNamespace

import sqlalchemy as sa

from inventory.claims import existing
from inventory.dialects import utc_moment
from tests.databases import a_uuid

LATE = 10.0


def test_a_late_answer_makes_no_moment_too_early(cloud, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(existing, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Slow:
        def __init__(self, connection):
            self._connection = connection

        def execute(self, *arguments):
            found = self._connection.execute(*arguments)
            clock[0] += LATE
            return found

    def work(connection):
        before = connection.scalar(sa.select(utc_moment()))
        rows, zero = existing.of_instances(Slow(connection), [a_uuid("one")])
        return rows, zero + timedelta(seconds=clock[0]) - before

    rows, passed = cloud.read(work)
    assert rows == []
    assert passed >= timedelta(seconds=LATE)


def test_a_member_of_a_cluster_that_waits_makes_no_moment_too_late(cloud, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(existing, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Waiting:
        waits = LATE

        def execute(self, *arguments):
            clock[0] += self.waits
            self.waits = 0.0
            return connection.execute(*arguments)

    with cloud.engine.connect() as connection:
        before = connection.scalar(sa.select(utc_moment()))
        _, zero = existing.of_instances(Waiting(), [a_uuid("one")])
        assert abs(zero + timedelta(seconds=clock[0]) - before) < timedelta(seconds=LATE / 2)
