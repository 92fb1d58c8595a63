# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Files that other programs have written: spreadsheets, and parts of public traces."""

import pytest


@pytest.mark.parametrize("start", ["\ufeff", ""])
def test_a_trace_may_begin_with_a_byte_order_mark(command, tmp_path, start):
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{start}time,lifetime,vcpus,memory_mb\n0,60,1,512\n")
    hosts = "--hosts=2:8,32768,0"
    assert command.json("simulate", hosts, f"--trace={trace}")["runs"][0]["placed_instances"] == 1
    assert "plan of version" in command.refused("plan", "check", _plan(tmp_path, start))


def _plan(directory, start):
    path = directory / "plan.json"
    path.write_text(f'{start}{{"version": 0}}')
    return str(path)


def test_a_public_trace_without_times_is_known_for_what_it_is(command, tmp_path):
    trace = tmp_path / "openb_pod_list_multigpu20.csv"
    trace.write_text("name,cpu_milli,memory_mib,num_gpu\nopenb-pod-0000,12000,16384,1\n")
    refused = command.refused("simulate", "--hosts=2:8,32768,0", f"--trace={trace}")
    assert "it has the columns cpu_milli, memory_mib of a public trace and no creation_time" in (
        refused
    )


def test_a_configuration_with_a_byte_order_mark_is_refused_for_it(command):
    command.config.write_text(f"\ufeff{command.config.read_text()}")
    refused = command.refused("host", "list")
    assert "the file begins with a byte order mark: save it as UTF-8 without one" in refused


@pytest.mark.parametrize("text", ["# Zürich\n".encode("latin-1"), "[DEFAULT]\n".encode("utf-16")])
def test_a_configuration_that_is_not_in_utf_8_is_named(command, text):
    command.config.write_bytes(text + command.config.read_bytes())
    refused = command.refused("host", "list")
    assert refused.startswith(f"berthmaster: {command.config}: save it as UTF-8: ")


def test_a_plan_that_is_nested_too_deep_is_refused_with_its_name(command, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("[" * 100_000)
    refused = command.refused("plan", "check", str(path))
    assert refused == f"{path} cannot be used: its JSON is nested too deep"
