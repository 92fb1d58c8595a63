# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What a process says of its options: values, what has set them, and nothing that is secret."""

import logging

import pytest
from oslo_config import cfg
from oslo_reports.generators.conf import ConfigReportGenerator

from conf import secrets
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


SECRETS = """
[database]
connection_parameters = password=s3cret&ssl_ca=/ca.pem
[libvirt]
connection_uri = qemu+tls://user:s3cret@host/system?password=s3cret&no_verify=s3cret#s3cret
[plugin]
api_token = s3cret
client_secret = s3cret
memcache_secret_key = s3cret
dsn = host=db user=me password=s3cret
servers = http://h/?auth=s3cret, plain
headers = x-token:s3cret,accept:text
json = {"password": "s3cret", "user": "me"}
token_age = 60
key_file = /etc/key.pem
password_file = /etc/password
"""


@pytest.fixture
def with_plugin(loaded):
    """A configuration with the options of a plug-in that marks none of them as secret."""
    conf = loaded(SECRETS)
    texts = ("api_token", "client-secret", "memcache_secret_key", "dsn", "json", "key_file")
    more = [cfg.ListOpt("servers"), cfg.DictOpt("headers"), cfg.IntOpt("token_age")]
    conf.register_opts([*map(cfg.StrOpt, (*texts, "password_file")), *more], group="plugin")
    return conf


def test_what_is_secret_is_known_by_its_name_or_its_place_in_a_url(with_plugin):
    found = {name: value for (group, name), (value, _) in by_name(with_plugin).items()}
    assert found["connection_uri"] == "qemu+tls://***@host/system?password=***&no_verify=***#***"
    assert found["connection_parameters"] == found["api_token"] == found["client_secret"] == "***"
    assert found["dsn"] == "host=db user=me password=***"
    assert found["servers"] == ["http://h/?auth=***", "plain"]
    assert found["headers"] == {"x-token": "***", "accept": "text"}
    assert found["json"] == '{"password": ***, "user": "me"}'
    assert (found["token_age"], found["key_file"]) == (60, "/etc/key.pem")
    assert found["password_file"] == "/etc/password"
    assert "s3cret" not in str(found)


def test_options_of_libraries_are_secret_once_they_are_read(with_plugin, caplog):
    with caplog.at_level(logging.DEBUG):
        with_plugin.log_opt_values(logging.getLogger("options"), logging.DEBUG)
    (line,) = [line for line in caplog.text.splitlines() if ".connection_parameters" in line]
    assert "s3cret" not in line


def test_no_report_and_no_log_of_options_has_a_secret(with_plugin, caplog):
    secrets.mark_secrets(with_plugin)
    report = ConfigReportGenerator(with_plugin)()
    report.set_current_view_type("text")
    with caplog.at_level(logging.DEBUG):
        with_plugin.log_opt_values(logging.getLogger("options"), logging.DEBUG)
    for text in (str(report), caplog.text):
        assert "connection_uri" in text
        for name in ("api_token", "connection_parameters", "memcache_secret_key", "connection_uri"):
            assert not [line for line in text.splitlines() if name in line and "s3cret" in line]
