# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.shadow_reports."""

from datetime import UTC, datetime, timedelta

from inventory import shadow_reports
from inventory.shadow_reports import KEPT


def begin(database, config="/etc/mix.conf"):
    return database.write(lambda connection: shadow_reports.begin(connection, "s1", config))


def test_a_report_is_written_over_and_over(database):
    first, second = begin(database), begin(database, "other")
    before = database.read(shadow_reports.listed)
    assert [(row.id, row.config, row.scheduler, row.document) for row in before] == [
        (second, "other", "s1", "{}"),
        (first, "/etc/mix.conf", "s1", "{}"),
    ]
    for text in ('{"requests": 1}', '{"requests": 2, "of": "\u00e9"}'):
        database.write(lambda c, text=text: shadow_reports.write(c, first, text))
    _, row = database.read(shadow_reports.listed)
    assert row.document == '{"requests": 2, "of": "\u00e9"}'
    assert row.began_at <= row.written_at
    age = datetime.now(UTC).replace(tzinfo=None) - row.written_at
    assert timedelta(seconds=-5) < age < timedelta(seconds=60)


def test_the_newest_are_kept(database):
    numbers = [begin(database) for _ in range(KEPT + 3)]
    found = database.read(shadow_reports.listed)
    assert [row.id for row in found] == numbers[:2:-1]
