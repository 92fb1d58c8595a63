# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of python -m benchmarks: parts that do and do not work, and what is kept of them."""

import importlib
import json

import pytest

from benchmarks import tables
from benchmarks.document import Document

benchmarks = importlib.import_module("benchmarks.__main__")

PART = """
from benchmarks import program
from benchmarks.figures import Figure

def measure(asked):
    return [Figure("{name}", who, "ms", [number], {{"quick": asked.quick}})
            for who, number in (("ours", {number}), ("nova", 3 * {number}))]

program.run(program.parser(""), measure, lambda found: "{name} has found something")
"""


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Yield a function that makes a part."""
    package = tmp_path / "parts_of_a_test"
    package.mkdir()
    monkeypatch.setattr(benchmarks, "PACKAGE", package.name)
    monkeypatch.setattr(benchmarks, "PARTS", {"one": True, "other": False})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    # Python would take bytecode of another text for that of a file of its size and second.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def make(name, number, more=""):
        (package / f"{name}.py").write_text(PART.format(name=name, number=number) + more)

    make("one", 1.23456789)
    make("other", 2.0)
    return make


@pytest.fixture
def run(tmp_path):
    results = tmp_path / "results"
    return lambda *arguments: benchmarks.main([*arguments, "--results", str(results)])


@pytest.fixture
def written(tmp_path):
    return lambda name="latest": json.loads((tmp_path / "results" / f"{name}.json").read_text())


def medians(found):
    return {
        name: [each["median"] for each in part["figures"]] for name, part in found["parts"].items()
    }


def test_a_run_writes_what_its_parts_have_found(parts, run, written, tmp_path, capfd):
    assert run() == 0
    found = written()
    assert (found["schema"], found["quick"]) == (1, False)
    assert {"cpu", "cores", "memory_gib", "kernel", "distribution"} == set(found["machine"])
    assert {"Python", "numpy", "RabbitMQ", "Nova", "Berthmaster"} <= set(found["versions"])
    assert medians(found) == {"one": [1.2346, 3.7037], "other": [2.0, 6.0]}
    (ratio,) = found["parts"]["one"]["ratios"]
    assert (ratio["other"], ratio["median"]) == ("nova", pytest.approx(3, rel=1e-3))
    assert found["parts"]["one"]["failed"] is None
    printed = capfd.readouterr().out
    assert "=== one\none has found something\n=== one: " in printed
    assert "4 figures; failed: none" in printed
    document = Document.read(tmp_path / "results" / "latest.json")
    assert (tmp_path / "results" / "latest.rst").read_text() == tables.report(document)
    assert {each.name for each in (tmp_path / "results").iterdir()} == {
        "latest.json", "latest.rst", "latest.sizing.rst",
    }  # fmt: skip


def test_a_quick_run_leaves_parts_out_and_latest_alone(parts, run, written, tmp_path):
    assert run("--quick") == 0
    found = written("quick")
    assert found["quick"]
    assert [each["case"] for each in found["parts"].pop("one")["figures"]] == 2 * [{"quick": True}]
    assert not found["parts"]
    assert not (tmp_path / "results" / "latest.json").exists()


def test_only_what_is_asked_for_is_measured_again(parts, run, written):
    run()
    before = written()["parts"]["one"]
    parts("one", 7.0)
    parts("other", 8.0)
    assert run("--only", "other") == 0
    assert list(written()["parts"]) == ["one", "other"]
    assert medians(written()) == {"one": [1.2346, 3.7037], "other": [8.0, 24.0]}
    assert written()["parts"]["one"] == before


def test_a_part_that_fails_does_not_keep_others_from_running(parts, run, written, capfd):
    parts("one", 1.0, more='raise SystemExit("no\\nbroker")')
    assert run() == 1
    found = written()
    # What it has found until then is kept.
    assert medians(found) == {"one": [1.0, 3.0], "other": [2.0, 6.0]}
    assert found["parts"]["one"]["failed"] == "status 1: broker"
    captured = capfd.readouterr()
    assert "no\nbroker" in captured.err
    assert "failed: one" in captured.out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "it has written no figures: FileNotFoundError"),
        ("raise ValueError(3)", "status 1: ValueError: 3"),
        (
            "import sys\nopen(sys.argv[2], 'w').write('[{}]')",
            "it has written no figures: KeyError('what')",
        ),
        ("import time\ntime.sleep(60)", "not done after 0.5 s"),
    ],
)
def test_a_part_that_finds_nothing(code, reason, parts, run, written, tmp_path, monkeypatch):
    if "sleep" in code:
        monkeypatch.setattr(benchmarks, "PATIENCE", 0.5)
    (tmp_path / "parts_of_a_test" / "one.py").write_text(code)
    assert run("--only", "one") == 1
    part = written()["parts"]["one"]
    assert part["failed"].startswith(reason)
    assert part["figures"] == []
