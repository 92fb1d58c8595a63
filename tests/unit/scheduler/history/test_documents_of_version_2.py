# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions, snapshots and requests of standbys that release 0.1 has kept are read as they were."""

import json
import zlib
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler.claims.protection import request_from_text, request_to_text
from scheduler.history.saved_decision import read_file, write_file
from scheduler.history.serialization import (
    DecisionDocument,
    document_from_bytes,
    snapshots_from_bytes,
)
from scheduler.history.tagged_json import identical
from scheduler.hosts.snapshots import COLUMNS, Snapshot, restore
from scheduler.hosts.table import HostTable
from tests.unit.scheduler.history import kept_decisions
from tests.unit.scheduler.history.kept_decisions import a_full_request, a_table_of_hosts

# As they were written: documents of the database unpacked, a file, and a column of standbys.
DOCUMENTS = Path(__file__).parents[3] / "fixtures" / "decisions_version_2"


def packed(name: str) -> bytes:
    return zlib.compress((DOCUMENTS / f"{name}.json").read_bytes())


def values(document: DecisionDocument) -> list[Any]:
    return [getattr(document, each.name) for each in fields(document)]


def cells(hosts: HostTable) -> list[Any]:
    """Return all that a table has, row by row."""
    rows = range(hosts.size)
    columns = [[hosts.get(row, name) for row in rows] for name in COLUMNS]
    instances = [[*hosts.instances.on(row).items()] for row in rows]
    return [columns, instances, hosts.present.tolist(), hosts.time, [*hosts.flavor_mix]]


def spread(document: Any) -> Any:
    """Return a file with an element for each row of its columns, in whatever form they are."""
    if isinstance(document, dict) and "codes" in document:
        values = spread(document["values"])
        rest = {name: each for name, each in document.items() if name not in ("values", "codes")}
        return rest | {"each": [values[each] for each in document["codes"]]}
    if isinstance(document, dict):
        return {name: spread(each) for name, each in document.items()}
    return [*map(spread, document)] if isinstance(document, list) else document


def parts(snapshot: Snapshot) -> list[Any]:
    """Return what a snapshot says of numbered rows, which is how a table gets it."""
    head = [snapshot.log_id, snapshot.number, snapshot.size, snapshot.time, snapshot.numa_packing]
    elements = {(name, row) for name, row, _ in snapshot.elements if name in COLUMNS}
    elements = sorted(each for each in elements if each[0] not in snapshot.columns)
    return [*head, sorted(snapshot.columns), elements]


@pytest.mark.parametrize("name", kept_decisions.documents())
def test_a_decision_of_the_database_is_what_it_was(name: str) -> None:
    found, expected = document_from_bytes(packed(name)), kept_decisions.documents()[name]
    assert identical(values(found), values(expected))


def test_the_hosts_at_each_snapshot_are_what_they_were() -> None:
    found, expected = snapshots_from_bytes(packed("snapshots")), kept_decisions.snapshots()
    assert [*map(parts, found)] == [*map(parts, expected)]
    for count in range(1, len(expected) + 1):
        ours, theirs = restore(found[:count]), restore(expected[:count])
        assert identical(cells(ours), cells(theirs))


def test_a_file_is_what_it_was_and_is_written_as_the_last_release_reads_it(tmp_path: Path) -> None:
    path = DOCUMENTS / "decision.json"
    found = read_file(path)
    assert (found.number, found.decided_at) == (17, datetime(2026, 1, 2, 3, 4, 5))
    assert identical(values(found.record), values(kept_decisions.documents()["protected"]))
    assert identical(cells(found.table()), cells(a_table_of_hosts()))
    write_file(tmp_path / "again.json", found)
    again = json.loads((tmp_path / "again.json").read_text()) | {"release": "0.1.0"}
    assert spread(again) == spread(json.loads(path.read_text()))


def test_the_request_of_a_standby_is_what_it_was_and_the_last_release_reads_it() -> None:
    text = (DOCUMENTS / "standby_request.json").read_text()
    assert request_from_text(text) == a_full_request()
    assert request_to_text(a_full_request()) == text.strip()
