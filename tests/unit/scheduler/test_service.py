# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.service: what a scheduler deletes beside old decisions."""

from inventory import audit_log
from inventory.audit_log import Actor, Changed, EntryFilter, acting
from inventory.engine import Database
from scheduler.service import prune_unneeded
from tests.databases import a_conf, execute


def test_the_audit_log_is_kept_as_long_as_configured(database: Database) -> None:
    conf, actor = a_conf(), Actor("alice", "console", "host disable")
    for name in ("old", "new"):
        change = Changed("host", name, {}, {"disabled": True})
        database.write(lambda c, change=change: audit_log.record(acting(c, actor), [change]))
    moved = "UPDATE audit_log SET changed_at = datetime('now', '-2 days') WHERE name = 'old'"
    execute(database, moved)

    def names() -> list[str]:
        found = database.read(lambda c: audit_log.search(c, EntryFilter(), 9))
        return [each["name"] for each in found]

    prune_unneeded(conf, database)
    assert names() == ["new", "old"]
    conf.set_override("keep", 86_400, group="audit")
    prune_unneeded(conf, database)
    assert names() == ["new"]
