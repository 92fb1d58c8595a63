# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A decision is in a file of its own as it was in the database, or it is said why it is not."""

import json
import os
import stat
from datetime import datetime

import pytest

from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.history.saved_decision import SavedDecision, Unreadable, read_file, write_file
from scheduler.history.serialization import DecisionDocument, release
from tests.builders import a_request
from tests.hosts import a_host, a_table

REQUEST = Request(a_request(), ["u1", "u2"], seed=3)


def a_saved(**changes):
    table = a_table(a_host("h1", stats={"a": "b"}), a_host("h2", free_ram_mb=50_000))
    table.set_time(5.0)
    record = DecisionDocument(REQUEST, decide(table.working_copy(), REQUEST, Plan()))
    return SavedDecision(record, table, **changes)


def test_a_decision_is_made_again_from_a_file(tmp_path):
    saved = a_saved(decided_at=datetime(2026, 1, 2, 3, 4, 5), number=17)
    write_file(tmp_path / "d.json", saved)
    found = read_file(tmp_path / "d.json")
    assert (found.record, found.decided_at, found.number) == (saved.record, saved.decided_at, 17)
    assert decide(found.table(), found.record.request, Plan()) == saved.record.decision
    write_file(tmp_path / "d.json", a_saved())
    found = read_file(tmp_path / "d.json")
    assert (found.decided_at, found.number) == (None, None)


def test_a_file_is_the_owners_own_and_can_be_read_by_a_person(tmp_path):
    path = tmp_path / "d.json"
    path.write_text("before")
    path.chmod(0o644)
    write_file(path, a_saved())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["d.json"]
    lines = path.read_text().splitlines()
    assert '  "format": "berthmaster decision",' in lines
    assert f'  "release": "{release()}",' in lines
    assert any(line.startswith('"request":') for line in lines)
    assert any(line.startswith('"free_ram_mb":') for line in lines)
    assert max(map(len, lines)) < 2000


def test_what_was_there_stays_when_a_file_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "d.json"
    path.write_text("before")

    def full(_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_file(path, a_saved())
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["d.json"]
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "none" / "d.json", a_saved())
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none")


def changed(text, **changes):
    return json.dumps(json.loads(text) | changes)


NO_JSON = "it is not JSON, so it is not a saved decision"
HOLDS_NONE = "it holds no decision that can be read: "


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: "", NO_JSON),
        (lambda text: "[DEFAULT]", NO_JSON),
        (lambda text: "{}", f"{HOLDS_NONE}it is not of the format 'berthmaster decision'"),
        (lambda text: "[]", f"{HOLDS_NONE}it is not a JSON object"),
        (lambda text: "{" + text, NO_JSON[:5]),
        (lambda text: text[:-100], "it is cut off or damaged: write it again with decision save"),
        (lambda text: text[:300], "it is cut off or damaged: write it again with decision save"),
        (
            lambda text: changed(text, version=3, release="9.1"),
            f"{HOLDS_NONE}it is of version 3, written by release '9.1'; this release reads up to 2",
        ),
        (
            lambda text: '{"format": "berthmaster decision"}',
            f"{HOLDS_NONE}it is of version None; this release reads up to 2",
        ),
        (lambda text: changed(text, record=None), f"{HOLDS_NONE}the record is missing"),
        (lambda text: changed(text, snapshot=None), f"{HOLDS_NONE}a snapshot is missing"),
        (lambda text: changed(text, number="x"), f"{HOLDS_NONE}number is not a number"),
        (lambda text: changed(text, decided_at=1), f"{HOLDS_NONE}decided_at is not a time"),
        (lambda text: changed(text, decided_at="x"), f"{HOLDS_NONE}Invalid isoformat string: 'x'"),
        (
            lambda text: text.replace('"number":0', '"number":1'),
            f"{HOLDS_NONE}its host table is incomplete",
        ),
        (
            lambda text: text.replace('"=RequestSpec"', '"=Newer"'),
            f"{HOLDS_NONE}'Newer' is not a type that this release knows",
        ),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path, change, complaint):
    path = tmp_path / "d.json"
    write_file(path, a_saved())
    path.write_text(change(path.read_text()))
    with pytest.raises(Unreadable) as caught:
        read_file(path)
    assert str(caught.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(caught.value)
    assert caught.value.path == path


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "d.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(Unreadable, match=NO_JSON):
        read_file(path)
