# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.daemon.concurrency."""

import pytest
from oslo_config import cfg

from conf.config_files import default_and_named
from conf.daemon.concurrency import VARIABLE, chosen_backend

PROGRAM = "berthmaster-test"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a home directory of our own, which is where programs look first."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".berthmaster").mkdir()
    return tmp_path


def choosing(path, backend, section="DEFAULT"):
    """Write a file that chooses a backend and return its path as text."""
    path.write_text(f"[{section}]\nconcurrency_backend = {backend}\n")
    return str(path)


def test_eventlet_is_the_default(home):
    assert chosen_backend(PROGRAM, [], {}) == "eventlet"
    assert chosen_backend(PROGRAM, [], {VARIABLE: ""}) == "eventlet"


def test_auto_is_the_default(home):
    path = choosing(home / "a.conf", "auto")
    assert chosen_backend(PROGRAM, ["--config-file", path], {}) == "eventlet"
    assert chosen_backend(PROGRAM, ["--config-file", path], {VARIABLE: "threading"}) == "threading"
    assert chosen_backend(PROGRAM, [], {VARIABLE: "auto"}) == "eventlet"


def test_the_environment_comes_first(home):
    path = choosing(home / "a.conf", "eventlet")
    assert chosen_backend(PROGRAM, ["--config-file", path], {VARIABLE: "threading"}) == "threading"


def test_the_files_of_the_command_line_in_their_order(home):
    first, second = choosing(home / "1", "threading"), choosing(home / "2", "eventlet")
    silent = home / "3"
    silent.write_text("[DEFAULT]\nhost = h\n")
    for arguments, expected in [
        (["--config-file", first], "threading"),
        ([f"--config-file={first}"], "threading"),
        (["--config-file", first, f"--config-file={second}"], "eventlet"),
        (["--config-file", second, "--config-file", first, "--debug"], "threading"),
        (["--config-file", first, "--config-file", str(silent)], "threading"),
        (["--config-file"], "eventlet"),
    ]:
        assert chosen_backend(PROGRAM, arguments, {}) == expected


def what_oslo_config_says(*arguments):
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("concurrency_backend")])
    conf([*arguments], project="berthmaster", prog=PROGRAM)
    return conf.concurrency_backend


def test_files_and_directories_count_in_the_order_of_oslo_config(home):
    directory, usual = home / "conf.d", home / ".berthmaster" / "berthmaster.conf.d"
    for each, last in ((directory, "threading"), (usual, "threading")):
        each.mkdir()
        choosing(each / "20.conf", last)
        choosing(each / "10.conf", "eventlet")
        choosing(each / "30.conf.old", "eventlet")
    choosing(home / ".berthmaster" / "berthmaster.conf", "eventlet")
    file = choosing(home / "a.conf", "eventlet")
    for arguments, expected in (
        (["--config-file", file, "--config-dir", str(directory)], "threading"),
        (["--config-dir", str(directory), "--config-file", file], "eventlet"),
        (["--config-file", file], "eventlet"),
        (["--config-dir", str(directory)], "threading"),
        ([], "threading"),
    ):
        assert chosen_backend(PROGRAM, arguments, {}) == expected
        assert what_oslo_config_says(*arguments) == expected


def test_without_arguments_the_usual_places_are_looked_at(home):
    choosing(home / "berthmaster.conf", "eventlet")
    choosing(home / ".berthmaster" / "berthmaster.conf", "threading")
    # The first place that has a file of this name is the only one.
    assert chosen_backend(PROGRAM, [], {}) == "threading"
    choosing(home / f"{PROGRAM}.conf", "eventlet")
    assert chosen_backend(PROGRAM, [], {}) == "eventlet"
    assert chosen_backend("another-program", [], {}) == "threading"


def test_the_usual_places_are_those_of_oslo_config(home):
    for name in (
        ".berthmaster/berthmaster.conf",
        f"{PROGRAM}.conf",
        f".berthmaster/{PROGRAM}.conf",
    ):
        (home / name).touch()
    theirs = cfg.find_config_files(project="berthmaster", prog=PROGRAM)
    assert [str(path) for path in default_and_named(PROGRAM, [])] == theirs


def test_a_home_that_cannot_be_looked_into_has_no_files(monkeypatch):
    # Root may look into all others.
    monkeypatch.setenv("HOME", "/" + "x" * 300)
    assert chosen_backend(PROGRAM, [], {}) == "eventlet"


@pytest.mark.parametrize(
    "odd",
    [
        b"concurrency_backend = threading\n",
        b"[DEFAULT\nconcurrency_backend = threading\n",
        b"[DEFAULT]\n= nothing\n",
        b"\xff\xfe\x00[DEFAULT]",
        b"",
        b"[DEFAULT]\nconcurrency_backend\n",
        b"[other]\nconcurrency_backend = threading\n",
    ],
)
def test_odd_files_are_left_to_oslo_config(home, odd):
    path = home / "odd.conf"
    path.write_bytes(odd)
    assert chosen_backend(PROGRAM, ["--config-file", str(path)], {}) == "eventlet"


def test_files_that_configparser_alone_would_refuse(home):
    path = home / "lax.conf"
    path.write_text(
        "[DEFAULT]\nhost = %(nope)s 100%\nhost = twice\nconcurrency_backend = threading\n[a]\n[a]\n"
    )
    assert chosen_backend(PROGRAM, ["--config-file", str(path)], {}) == "threading"


def test_what_cannot_be_read_is_passed_over(home):
    assert chosen_backend(PROGRAM, ["--config-file", str(home)], {}) == "eventlet"
    assert chosen_backend(PROGRAM, ["--config-file", "/nowhere"], {}) == "eventlet"


def test_a_wrong_name_is_refused_with_its_source(home):
    path = choosing(home / "a.conf", "asyncio")
    with pytest.raises(ValueError, match="must be one of eventlet, threading, auto") as caught:
        chosen_backend(PROGRAM, ["--config-file", path], {})
    assert f"option [DEFAULT] concurrency_backend = 'asyncio' in {path}" in str(caught.value)
    with pytest.raises(ValueError, match=f"'twisted' in {VARIABLE}"):
        chosen_backend(PROGRAM, ["--config-file", path], {VARIABLE: "twisted"})
