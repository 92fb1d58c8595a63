# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks.machine: what is here is described, what is absent is none."""

import re
import sys

from benchmarks import machine


def test_the_machine_is_described_without_what_is_of_its_owner():
    found = machine.machine()
    assert found["cores"] >= 1
    assert found["memory_gib"] > 0
    assert found["cpu"]
    assert re.fullmatch(r"\w+ \d+(\.\d+)+", found["kernel"])


def test_what_is_absent_has_no_version(monkeypatch, tmp_path):
    prints = (sys.executable, "-c", "print('daemon 12.3.4-x (5.6)')")
    fails = (sys.executable, "-c", "import sys; print('1.2'); sys.exit(3)")
    monkeypatch.setattr(
        machine, "DAEMONS", {"here": prints, "gone": ("no-such-daemon",), "broken": fails}
    )
    monkeypatch.setattr(machine, "LIBRARIES", ("numpy", "no-such-library"))
    monkeypatch.setattr(machine, "PEER", tmp_path)
    found = machine.versions()
    assert (found["here"], found["gone"], found["broken"]) == ("12.3.4", None, None)
    assert found["numpy"]
    assert (found["no-such-library"], found["Nova"]) == (None, None)


def test_without_a_repository_our_version_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", machine.ours() or "")
