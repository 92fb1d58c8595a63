# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.loading."""

import pytest
from oslo_config import cfg

from conf import loading


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
    ],
)
def test_the_last_file_is_the_one_whose_value_counts(home, arguments, read):
    option = cfg.StrOpt("x", deprecated_name="y")
    conf = cfg.ConfigOpts()
    conf.register_opts([option])
    given = [each if each.startswith("--") else str(home / each) for each in arguments]
    conf(given, project="berthmaster", prog="berthmaster-test")
    assert loading.paths(conf) == [str(home / each) for each in read]
    found = loading.setting(conf, loading.option_names("DEFAULT", option))
    assert found == (str(home / read[-1]), "DEFAULT", conf.x)
    assert loading.setting(conf, [("DEFAULT", "z"), ("elsewhere", "x")]) is None
    assert loading.setting(conf, [("", "x")]) == found
    # An option that has a newer name, too.
    (home / read[-1]).write_text("[DEFAULT]\ny = old\nx = new\n")
    found = loading.setting(conf, loading.option_names("DEFAULT", option))
    assert found is not None
    assert found.text == "new"
