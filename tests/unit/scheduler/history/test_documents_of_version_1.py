# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions kept by version 1 of the documents are read, and written with the present names."""

import re
import zlib
from datetime import datetime
from pathlib import Path

import pytest

from scheduler.decision.pipeline import Plan, decide
from scheduler.filters.ram import RamFilter
from scheduler.history.saved_decision import read_file, write_file
from scheduler.history.serialization import (
    document_from_bytes,
    snapshots_from_bytes,
    snapshots_to_bytes,
)
from scheduler.history.tagged_json import identical
from scheduler.hosts.snapshots import restore
from tests.unit.scheduler.history.batches import as_version_2, through_bytes, to_bytes

# As they were written: a file, and two documents of the database unpacked.
DOCUMENTS = Path(__file__).parents[3] / "fixtures" / "decisions_version_1"
FORMER = re.compile(r'"(reel|moment|frames?|residents|=Taken|=Shortage)"')


def packed(name: str) -> bytes:
    return zlib.compress((DOCUMENTS / f"{name}.json").read_bytes())


def test_a_decision_of_a_file_is_made_again_and_kept_by_the_present_names(tmp_path: Path) -> None:
    found = read_file(DOCUMENTS / "decision.json")
    assert (found.number, found.decided_at) == (17, datetime(2026, 1, 2, 3, 4, 5))
    taken = [each.taken for each in found.record.decision.placements]
    assert [each and (each.vcpus, each.memory_mb) for each in taken] == [(2, 2048), (2, 2048)]
    assert found.is_same(decide(found.table(), found.record.request, Plan()))
    write_file(tmp_path / "present.json", found)
    assert not FORMER.search((tmp_path / "present.json").read_text())
    again = read_file(tmp_path / "present.json")
    assert again.record == found.record
    assert again.table().get(1, "free_ram_mb") == found.table().get(1, "free_ram_mb") == 40_000


def test_a_refusal_of_the_database_is_made_again_on_its_hosts() -> None:
    refused, snapshots = document_from_bytes(packed("refused")), packed("snapshots")
    hosts = restore(snapshots_from_bytes(snapshots))
    assert refused.decision.shortage is not None
    assert identical(decide(hosts, refused.request, Plan([RamFilter()])), refused.decision)
    for written in (as_version_2(refused), to_bytes(refused)):
        assert not FORMER.search(zlib.decompress(written).decode("latin-1"))
    assert document_from_bytes(as_version_2(refused)) == through_bytes(refused) == refused


def test_snapshots_of_a_log_keep_their_numbers_times_and_changes() -> None:
    found = snapshots_from_bytes(packed("snapshots"))
    assert [(each.log_id, each.number, each.time) for each in found] == [(1, 0, 5.0), (1, 1, 5.0)]
    written = snapshots_to_bytes(found)
    assert not FORMER.search(zlib.decompress(written).decode("latin-1"))
    assert snapshots_to_bytes(snapshots_from_bytes(written)) == written
    assert restore(found).get(1, "free_ram_mb") == 40_000


@pytest.mark.parametrize("name", ["decision", "refused", "snapshots"])
def test_these_documents_have_the_names_of_version_1(name: str) -> None:
    text = (DOCUMENTS / f"{name}.json").read_text()
    assert FORMER.search(text)
    assert re.search(r'"version": ?1\b', text)
