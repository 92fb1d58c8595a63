# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a process says of its options: values, what has set them, and nothing that is secret."""

import pytest
from oslo_config import cfg

from conf.settings_in_effect import BY_DEFAULT, settings_in_effect


def by_name(conf):
    return {
        (each["group"], each["option"]): (each["value"], each["set_by"])
        for each in settings_in_effect(conf)
    }


def test_each_place_is_named(loaded, tmp_path, monkeypatch):
    monkeypatch.setenv("OS_CLAIMS__LEASE", "600")
    last = tmp_path / "last.conf"
    last.write_text("[scheduler]\nmax_attempts = 7\n")
    text = "[scheduler]\nmax_attempts = 5\nworkers = 2\n[claims]\nlease = 30\n"
    conf = loaded(text, f"--config-file={last}", "--debug")
    conf.set_override("view_max_age", 3.0, group="scheduler")
    found = by_name(conf)
    assert found["scheduler", "max_attempts"] == (7, str(last))
    assert found["scheduler", "workers"] == (2, str(tmp_path / "berthmaster.conf"))
    assert found["claims", "lease"] == (600, "OS_CLAIMS__LEASE")
    assert found["DEFAULT", "debug"] == (True, "command line")
    assert found["scheduler", "view_max_age"] == (3.0, "the program")
    assert found["claims", "enabled"] == (True, BY_DEFAULT)


def test_a_former_name_is_found_in_its_file(loaded, tmp_path):
    found = by_name(loaded("[DEFAULT]\nscheduler_max_attempts = 9\n"))
    assert found["scheduler", "max_attempts"] == (9, str(tmp_path / "berthmaster.conf"))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql+pymysql://me:s3cret@db:3306/b?password=s3cret", "mysql+pymysql://***@db:3306/b"),
        ("mysql+pymysql://me:s3%40cret@db/b", "mysql+pymysql://***@db/b"),
        ("mysql+pymysql://db/b?password=s3cret", "***"),
        ("mysql+pymysql://me:s3cret@db/b?password=s3cret@s3cret", "***"),
        ("sqlite:////var/lib/s3cret.sqlite", "***"),
    ],
)
def test_of_a_secret_url_only_the_server_is_shown(loaded, url, shown):
    found = by_name(loaded(f"[api_database]\nconnection = {url}\n"))
    assert found["api_database", "connection"][0] == shown


def test_no_other_secret_is_shown(loaded):
    conf = loaded("[nova]\ncell_password = s3cret\n[proxies]\nurls = http://me:s3cret@p/x,y\n")
    conf.register_opts(
        [cfg.ListOpt("urls"), cfg.StrOpt("blob", secret=True, default="a://s3cret@s3cret")],
        group="proxies",
    )
    found = by_name(conf)
    assert found["nova", "cell_password"][0] == found["proxies", "blob"][0] == "***"
    assert found["proxies", "urls"][0] == ["http://***@p/x", "y"]
    assert "s3cret" not in str(found)


def test_an_option_that_cannot_be_read_hides_no_other(loaded):
    conf = loaded("[plugin]\nsize = large\n")
    conf.register_opts([cfg.IntOpt("size")], group="plugin")
    found = by_name(conf)
    assert found["plugin", "size"] == (None, "cannot be read: ConfigFileValueError")
    assert found["claims", "enabled"][0] is True
