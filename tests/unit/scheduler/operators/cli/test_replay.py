# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the command decision replay."""

import json
from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.history.saved_decision import read_file, write_file
from tests.databases import a_node, a_uuid, save, serve
from tests.fixtures.command import Command
from tests.fixtures.keeping import KeepingScheduler, configured

FREE = {"h1": 4096, "h2": 8192, "h3": 6144}
LEAST = "[filter_scheduler]\nram_weight_multiplier = -10\n"


@pytest.fixture
def saved(database, command, tmp_path):
    """Return the files of two decisions: h2 was chosen for the one, and none for the other."""
    for host, mb in FREE.items():
        save(database, a_node(host, memory_mb=8192, free_ram_mb=mb))
    serve(database, *FREE)
    with KeepingScheduler(database, configured(command.config)) as scheduler:
        assert scheduler.ask("one") == ["h2"]
        assert scheduler.ask("big", memory_mb=10**6) == []
    paths = [tmp_path / "one.json", tmp_path / "big.json"]
    for path in paths:
        done = command.run("decision", "save", f"req-{path.stem}", str(path))
        assert done.status == 0, done
    database.close()
    return [*map(str, paths)]


@pytest.fixture
def replay(saved, tmp_path):
    """Return a function that runs the command where there is no database."""
    config = tmp_path / "elsewhere.conf"
    config.write_text("[database]\nconnection = sqlite:////nowhere/at/all\n")
    command = Command(config)
    return lambda *arguments: command.run("decision", "replay", *arguments)


@pytest.fixture
def settings(tmp_path):
    """Return a function that writes a configuration."""

    def write(text):
        path = tmp_path / "other.conf"
        path.write_text(text)
        return str(path)

    return write


def test_a_decision_is_made_again(replay, saved):
    done = replay(*saved)
    assert done.status == 0, done
    assert done.stdout.splitlines() == [
        f"{saved[0]}: the same decision with the settings of that time, to the last bit",
        f"{saved[1]}: the same decision with the settings of that time, to the last bit",
        "2 decisions: 2 the same, 0 different, 0 without a host",
    ]


def test_a_decision_in_the_database_is_made_again_without_a_file(command, saved):
    for text in ("1", a_uuid("one 0"), "req-one"):
        done = command.run("decision", "replay", text, saved[1])
        assert done.stdout.splitlines() == [
            f"{text}: the same decision with the settings of that time, to the last bit",
            f"{saved[1]}: the same decision with the settings of that time, to the last bit",
            "2 decisions: 2 the same, 0 different, 0 without a host",
        ]
    assert command.refused("decision", "replay", "9").startswith("no decision is saved for '9'; ")
    missing = command.refused("decision", "replay", "/nowhere/9")
    assert missing == "cannot read /nowhere/9: No such file or directory"


@pytest.mark.parametrize("way", ["--config-file {}", "--config-file={}", "--settings-file={}"])
def test_other_settings_choose_other_hosts(replay, saved, settings, way):
    done = replay(*saved, *way.format(settings(LEAST)).split())
    assert (done.status, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{saved[0]}: 1 of 1 instance on another host with the given settings"
    row = [cell.strip() for cell in lines[5].split("|")[1:-1]]
    assert row[:3] == [a_uuid("one 0"), "h2", "h1"]
    assert row[3].startswith("h2 is number 3 of 3 hosts, with weight ")
    assert lines[-2:] == [
        f"{saved[1]}: the same decision with the given settings, to the last bit",
        "2 decisions: 1 the same, 1 different, 0 without a host",
    ]


def test_programs_get_all_of_it(replay, saved, settings):
    done = replay(saved[0], "--config-file", settings(LEAST), "-f", "json")
    assert done.status == 1
    (document,) = json.loads(done.stdout)
    (change,) = document["instances"]
    assert (change["kept"], change["now"], change["same"]) == ("h2", "h1", False)
    assert (document["settings"], document["request_id"]) == ("given", "req-one")
    assert (document["same"], document["refused_now"], document["steps"]) == (False, False, [])


def test_settings_may_be_in_a_directory(replay, saved, tmp_path):
    directory = tmp_path / "conf.d"
    directory.mkdir()
    (directory / "weights.conf").write_text(LEAST)
    done = replay(saved[0], f"--config-dir={directory}")
    assert "1 of 1 instance on another host" in done.stdout


def test_other_filters_may_leave_no_host_or_the_same(replay, saved, settings):
    other = settings("[filter_scheduler]\nenabled_filters = ServerGroupAffinityFilter, RamFilter\n")
    done = replay(*saved, "--config-file", other)
    assert f"{saved[0]}: the same hosts with the given settings, but other weights" in done.stdout
    steps = "ServerGroupAffinityFilter 3->3, RamFilter 3->0"
    assert (
        f"{saved[1]}: no host with the given settings either, but for another reason" in done.stdout
    )
    assert steps in done.stdout
    other = settings(
        "[filter_scheduler]\nenabled_filters = IsolatedHostsFilter\n"
        "isolated_hosts = h1,h2,h3\nisolated_images = x\n"
    )
    done = replay(saved[0], "--config-file", other, "-f", "json")
    (document,) = json.loads(done.stdout)
    assert document["refused_now"]
    assert document["steps"][-1] == {"name": "IsolatedHostsFilter", "before": 3, "after": 0}
    assert document["instances"][0]["now"] is None


def test_what_cannot_be_decided_with(replay, saved, settings, tmp_path):
    for text, output in (
        ("[filter_scheduler]\nenabled_filters = TheirFilter\n", "'TheirFilter'"),
        ("[filter_scheduler]\nram_weight_multiplier = much\n", "ram_weight_multiplier"),
    ):
        done = replay(saved[0], "--config-file", settings(text))
        assert (done.status, done.stdout) == (1, "")
        assert output in done.stderr
        assert "other.conf" in done.stderr
        assert done.stderr.count("\n") == 1
    done = replay(saved[0], "--config-file", str(tmp_path / "none.conf"))
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "none.conf" in done.stderr


def test_files_that_hold_no_decision(replay, saved, tmp_path):
    broken = tmp_path / "broken.json"
    with open(saved[0]) as file:
        broken.write_text(file.read()[:5000])
    for path, output in (
        (broken, f"{broken}: it is cut off or damaged"),
        (
            tmp_path / "none.json",
            f"cannot read {tmp_path / 'none.json'}: No such file or directory",
        ),
        (tmp_path, f"cannot read {tmp_path}: Is a directory"),
    ):
        done = replay(saved[0], str(path))
        assert (done.status, done.stdout) == (1, "")
        assert done.stderr.startswith(output)
        assert done.stderr.count("\n") == 1


def test_a_plug_in_that_is_not_installed_here(replay, saved):
    kept = read_file(Path(saved[0]))
    kept.record.settings["filter_scheduler"] = {"enabled_filters": ["TheirFilter"]}
    write_file(Path(saved[0]), kept)
    done = replay(saved[0])
    assert done.status == 1
    assert done.stderr.startswith(
        f"{saved[0]}: the decision cannot be made again with the plug-ins"
    )
    assert done.stderr.count("\n") == 1


def test_another_release_may_have_decided_otherwise(replay, saved):
    kept = read_file(Path(saved[0]))
    settings = {"filter_scheduler": {"ram_weight_multiplier": -10.0}}
    record = replace(kept.record, release="0.1", settings=settings)
    write_file(Path(saved[0]), replace(kept, record=record))
    assert "  Release 0.1 made this decision; this is release " in replay(saved[0]).stdout


def test_a_file_may_begin_with_a_byte_order_mark(replay, saved, tmp_path):
    marked = tmp_path / "marked.json"
    text = BOM_UTF8 + Path(saved[0]).read_bytes()
    marked.write_bytes(text)
    assert replay(str(marked)).status == 0
    marked.write_bytes(text[:-100])
    assert "it is cut off or damaged" in replay(str(marked)).stderr
