# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot work ends a program with one line; what it does not use it does not import."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oslo_config import cfg

from conf import loading
from conf.daemon import process
from tests.fixtures.daemons.process import PATIENCE


def test_a_refusal_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, process.refusing("prog", KeyError, ValueError):
        raise ValueError("a\n  long   story")
    assert end.value.code == 1
    assert capsys.readouterr().err == "prog: a long story\n"


def test_other_errors_are_no_refusals() -> None:
    with pytest.raises(KeyError), process.refusing("prog", ValueError):
        raise KeyError


def test_a_good_start_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with process.refusing("prog", ValueError):
        pass
    assert capsys.readouterr().err == ""


def test_an_unknown_backend_is_refused() -> None:
    # In a process of its own: a daemon that begins blocks SIGINT and waits for it.
    program = "from conf.daemon import process; process.begin('prog', lambda: None)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "BERTHMASTER_CONCURRENCY_BACKEND": "fibres"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("prog: option [DEFAULT] concurrency_backend")


@pytest.mark.parametrize(
    "begin",
    [
        "from conf.daemon import process; process.begin('prog', lambda: None)",
        "from contextlib import suppress; from scheduler.operators.cli.cmd import main\n"
        "with suppress(SystemExit): main()",
    ],
)
# One of the threads is the main one, and there is none more than there are CPUs.
@pytest.mark.parametrize(
    ("threads", "started"), [(None, 0), ("2", min(2, os.cpu_count() or 1) - 1)]
)
def test_numpy_starts_the_threads_that_the_environment_asks_for_and_else_none(
    begin: str, threads: str | None, started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if threads:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    program = (
        f"{begin}\n"
        "import os\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "import numpy\n"
        "print(len(os.listdir('/proc/self/task')) - before)\n"
    )
    line = [sys.executable, "-c", program, "--version"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout.split()[-1] == str(started)


def test_a_package_can_be_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in [each for each in sys.modules if each.split(".")[0] == "colorsys"]:
        monkeypatch.delitem(sys.modules, name)
    process.refuse_import("colorsys")
    with pytest.raises(ImportError, match="not used in this process"):
        importlib.import_module("colorsys")
    assert importlib.import_module("sched")


def test_a_stop_logs_what_fails_and_does_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def fail() -> None:
        raise ConnectionResetError(104, "Connection reset by peer")

    process.stop_each(lambda: done.append(1), fail, lambda: done.append(2))
    assert done == [1, 2]
    assert caplog.messages == [
        "A step of the shutdown failed, continuing with the next:"
        " ConnectionResetError: [Errno 104] Connection reset by peer"
    ]


def test_an_option_that_is_read_during_a_reload_has_its_new_value_afterwards(
    tmp_path: Path,
) -> None:
    file, program = tmp_path / "berthmaster.conf", "berthmaster-compute-agent"
    file.write_text("[DEFAULT]\nreserved_host_memory_mb = 512\nwitness = 1\n")
    conf, arguments = cfg.ConfigOpts(), ["--config-file", str(file)]
    loading.read(conf, program, arguments, version="")
    seen: list[int] = []

    def witness(text: str) -> str:
        # As another thread may: the new file is being read, and the options are the old ones.
        seen.append(conf.reserved_host_memory_mb)
        return text

    conf.register_opt(cfg.Opt("witness", type=witness, required=True))
    reload = process.CheckedReload(conf, program, arguments)
    file.write_text("[DEFAULT]\nreserved_host_memory_mb = 1024\nwitness = 1\n")
    reload()
    assert seen[0] == 512
    assert conf.reserved_host_memory_mb == 1024
