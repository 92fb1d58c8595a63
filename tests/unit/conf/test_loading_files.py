# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.loading."""

import os
import subprocess
import sys

import pytest
from oslo_config import cfg

from conf import config_files, loading

# Root may read everything, unless it has lost that right.
AS_A_USER = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
READ = """
import sys
from oslo_config import cfg
from conf import loading
try:
    loading.read(cfg.ConfigOpts(), "berthmaster-scheduler", sys.argv[1:], "1.0")
except loading.ConfigError as error:
    print(error)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a home directory of our own, with a file and a directory in the usual places."""
    monkeypatch.setenv("HOME", str(tmp_path))
    usual = tmp_path / ".berthmaster"
    for name in ("berthmaster.conf", "berthmaster.conf.d/10.conf", "conf.d/20.conf", "a.conf"):
        (usual / name).parent.mkdir(parents=True, exist_ok=True)
        (usual / name).write_text(f"[DEFAULT]\nx = {name}\n")
    return usual


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ([], ["berthmaster.conf", "berthmaster.conf.d/10.conf"]),
        (["--config-file", "a.conf"], ["berthmaster.conf.d/10.conf", "a.conf"]),
        (["--config-dir", "conf.d"], ["berthmaster.conf", "conf.d/20.conf"]),
        (["--config-file", "a.conf", "--config-dir", "conf.d"], ["a.conf", "conf.d/20.conf"]),
        (["--config-dir", "conf.d", "--config-file", "a.conf"], ["conf.d/20.conf", "a.conf"]),
    ],
)
def test_the_last_file_is_the_one_whose_value_counts(home, arguments, read):
    option = cfg.StrOpt("x", deprecated_name="y")
    conf = cfg.ConfigOpts()
    conf.register_opts([option])
    given = [each if each.startswith("--") else str(home / each) for each in arguments]
    conf(given, project="berthmaster", prog="berthmaster-test")
    expected = [home / each for each in read]
    assert config_files.paths(conf) == [*map(str, expected)]
    assert config_files.default_and_named("berthmaster-test", given) == expected
    assert conf.x == read[-1]
    found = loading.setting(conf, loading.option_names("DEFAULT", option))
    assert found == (str(home / read[-1]), "DEFAULT", conf.x)
    assert loading.setting(conf, [("DEFAULT", "z"), ("elsewhere", "x")]) is None
    assert loading.setting(conf, [("", "x")]) == found
    # An option that has a newer name, too.
    (home / read[-1]).write_text("[DEFAULT]\ny = old\nx = new\n")
    found = loading.setting(conf, loading.option_names("DEFAULT", option))
    assert found is not None
    assert found.text == "new"


def read_by_a_user(home, *arguments):
    """Return what is said of files that a user without special rights reads."""
    prefix = AS_A_USER if os.geteuid() == 0 else []
    command = [*prefix, sys.executable, "-c", READ, *map(str, arguments)]
    environment = {**os.environ, "HOME": str(home.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


@pytest.mark.parametrize(
    ("locked", "arguments", "named"),
    [
        # What is in there is not known, and there is nothing else.
        (".", [], [".", "berthmaster.conf.d", "berthmaster-scheduler.conf"]),
        ("berthmaster.conf", [], ["berthmaster.conf"]),
        ("berthmaster.conf.d", [], ["berthmaster.conf.d"]),
        ("berthmaster.conf.d", ["--config-file", "a.conf"], ["berthmaster.conf.d"]),
        ("conf.d", ["--config-dir", "conf.d"], ["conf.d"]),
        ("a.conf", ["--config-file=a.conf"], ["a.conf"]),
    ],
)
def test_files_that_may_not_be_read_are_named(home, monkeypatch, locked, arguments, named):
    monkeypatch.chdir(home)
    path = home / locked
    path.chmod(0)
    said = read_by_a_user(home, *arguments)
    path.chmod(0o700)
    assert said.startswith("this user may not read ")
    # The owner may have the right to read again.
    assert "root:root, " in said or os.geteuid() != 0
    for name in named:
        assert name in said
    assert "--config-file" in said


def test_a_home_that_may_not_be_looked_into_matters_only_where_nothing_else_is_named(home):
    home.chmod(0)
    other = home.parent / "other.conf"
    other.write_text("[DEFAULT]\nhost = here\n")
    said = read_by_a_user(home, "--config-file", other)
    home.chmod(0o700)
    assert said == ""
