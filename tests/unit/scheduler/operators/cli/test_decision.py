# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands that list, show and save decisions."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from inventory import decisions as saved_decisions
from inventory.tables import decision_inputs, decisions
from scheduler.history.saved_decision import read_file
from scheduler.operators.cli import decision
from tests.databases import a_node, a_uuid, save, serve
from tests.fixtures.keeping import KeepingScheduler, configured, uuids_of

# Its decisions stay.
WITHOUT_HOSTS = sa.delete(decision_inputs).where(decision_inputs.c.first >= 0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Do not wait for decisions."""
    monkeypatch.setattr(decision, "WRITE_TIMEOUT", 0.0)


@pytest.fixture
def decided(database, command):
    """Three decisions, each a day older than the next: one placed, one refused, one for three."""
    save(database, a_node("h1"), a_node("h2"))
    serve(database, "h1", "h2")
    with KeepingScheduler(database, configured(command.config)) as scheduler:
        scheduler.ask("one", project_id="p1", alternates=True)
        scheduler.ask("big", project_id="p1", memory_mb=10**6)
        scheduler.ask("web", 3, project_id="p2")
    rows = database.read(saved_decisions.listed)
    for age, row in enumerate(rows):
        moment = row.decided_at - timedelta(days=age)
        update = sa.update(decisions).where(decisions.c.id == row.id).values(decided_at=moment)
        database.write(lambda c, update=update: c.execute(update))
    return {row.request_id.removeprefix("req-"): row for row in rows}


def listed(command, *arguments):
    found = command.json("decision", "list", *arguments)
    return [each["Request"].removeprefix("req-") for each in found]


def test_decisions_are_listed_newest_first(command, decided):
    (web, big, one) = command.json("decision", "list")
    assert (web["Outcome"], web["Instances"], web["Request"]) == ("placed", 3, "req-web")
    assert (big["Outcome"], big["Hosts"], big["Project"]) == ("refused", "", "p1")
    assert one["Hosts"] in ("h1", "h2")
    assert one["Scheduler"] == "s1"


def test_some_are_listed(command, decided):
    since = decided["web"].decided_at - timedelta(days=1, hours=1)
    assert listed(command, "--limit=2") == ["web", "big"]
    assert listed(command, "--outcome=refused") == ["big"]
    assert listed(command, "--project=p1") == ["big", "one"]
    assert listed(command, f"--since={since.isoformat()}") == ["web", "big"]
    # The same time, in another zone.
    assert listed(command, "--since=25h") == ["web", "big"]
    assert listed(command, "--since=3d") == ["web", "big", "one"]
    output = (since + timedelta(hours=5)).isoformat()
    assert listed(command, f"--since={output}+05:00") == ["web", "big"]
    assert listed(command, "--request=req-web") == ["web"]
    assert listed(command, f"--request={uuids_of('web', 3)[2]}") == ["web"]
    assert listed(command, "--request=req-web", "--outcome=refused") == []
    assert listed(command, "--request=req-one", "--project=p2") == []
    assert listed(command, "--request=req-one", f"--since={since.isoformat()}") == []


@pytest.mark.parametrize("wrong", ["noon", "1", "1x", "h", "999999w", "2026-13-01"])
def test_a_wrong_time_is_refused_with_the_known_forms(command, wrong):
    refused = command.refused("decision", "list", f"--since={wrong}", status=2)
    assert (
        f"argument --since: '{wrong}' is neither an age, such as 30m, 1h or 2d, nor a time,"
        " such as 2026-11-22 or 2026-11-22T03:40"
    ) in refused


@pytest.mark.parametrize("wrong", ["--limit=0", "--limit=10001", "--since=noon", "--outcome=x"])
def test_what_means_nothing_is_refused(command, wrong):
    assert wrong.partition("=")[0] in command.refused("decision", "list", wrong, status=2)


def test_a_number_that_is_not_there_is_not_waited_for(command, monkeypatch):
    def waited(_seconds):
        raise AssertionError("waits")

    monkeypatch.setattr(decision, "WRITE_TIMEOUT", 3600.0)
    monkeypatch.setattr(decision, "sleep", waited)
    for arguments in (["decision", "show"], ["explain"]):
        assert "no decision is saved for '12'" in command.refused(*arguments, "12")


def test_a_decision_is_shown_as_it_was_saved(command, decided):
    document = command.json("decision", "show", a_uuid("web 1"))
    assert document["request_id"] == "req-web"
    assert document["record"]["request"]["instance_uuids"] == uuids_of("web", 3)
    assert len(document["record"]["decision"]["placements"]) == 3
    text = command.run("decision", "show", "req-one").stdout
    host, other = (decided["one"].hosts, "h1" if decided["one"].hosts == "h2" else "h2")
    (placed,) = (line for line in text.splitlines() if line.startswith(f"| {a_uuid('one 0')}"))
    cells = [cell.strip() for cell in placed.split("|")[2:-1]]
    assert (cells[0], cells[1], cells[3]) == (host, host, other)
    text = command.run("decision", "show", "req-big").stdout
    assert "Hosts left by each filter" in text
    assert "Placed" not in text


def test_a_decision_is_saved_for_its_owner(command, decided, tmp_path):
    path = tmp_path / "web.json"
    done = command.run("decision", "save", "req-web", str(path))
    assert done.stdout == f"Saved decision {decided['web'].id} to {path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_file(path).number == decided["web"].id
    before = path.read_bytes()
    assert command.refused("decision", "save", "req-one", str(path)) == (
        f"{path} exists already: choose another name"
    )
    assert path.read_bytes() == before


def test_where_nothing_can_be_saved(command, decided, tmp_path):
    path = tmp_path / "nowhere" / "web.json"
    assert command.refused("decision", "save", "req-web", str(path)) == (
        f"cannot write {path}: No such file or directory"
    )
    path = tmp_path / ("long" * 100)
    assert command.refused("decision", "save", "req-web", str(path)) == (
        f"cannot write {path}: File name too long"
    )


def test_without_its_hosts_a_decision_is_shown_and_not_saved(command, database, decided, tmp_path):
    database.write(lambda c: c.execute(WITHOUT_HOSTS))
    assert "Outcome: placed on" in command.run("decision", "show", "req-web").stdout
    path = tmp_path / "web.json"
    assert command.refused("decision", "save", "req-web", str(path)) == (
        "the decision cannot be saved: the hosts of the decision are lost: snapshot"
        f" {decided['web'].snapshot_number} of the log is missing"
    )
    assert not path.exists()


def test_a_decision_that_is_not_written_yet_is_waited_for(command, database, decided, monkeypatch):
    """The scheduler has answered, and writes down what it has decided a second later."""
    monkeypatch.setattr(decision, "WRITE_TIMEOUT", 0.4)
    query = sa.select(decision_inputs).where(decision_inputs.c.first >= 0)
    rows = database.read(lambda c: c.execute(query).mappings().all())
    database.write(lambda c: c.execute(WITHOUT_HOSTS))

    def written(_seconds):
        database.write(lambda c: c.execute(sa.insert(decision_inputs), [dict(row) for row in rows]))

    monkeypatch.setattr(decision, "sleep", written)
    assert "goes to" in command.run("explain", a_uuid("web 2")).stdout
