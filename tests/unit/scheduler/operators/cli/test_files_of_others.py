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
