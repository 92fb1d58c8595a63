# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.loading: what a bad value is answered with."""

import oslo_messaging
import pytest
from oslo_config import cfg

from conf import loading, opts
from conf.loading import ConfigError

NUMBER = "invalid literal for int() with base 10: "
FLOAT = "could not convert string to float: "


@pytest.mark.parametrize(
    ("section", "name", "value", "why"),
    [
        ("scheduler", "workers", "zero", NUMBER + "'zero'"),
        ("scheduler", "workers", "0", "Should be greater than or equal to 1"),
        ("scheduler", "max_attempts", "1.5", NUMBER + "'1.5'"),
        ("scheduler", "view_max_age", "-1", "Should be greater than or equal to 0"),
        ("scheduler", "request_timeout", "never", NUMBER + "'never'"),
        ("filter_scheduler", "ram_weight_multiplier", "x", FLOAT + "'x'"),
        ("filter_scheduler", "host_subset_size", "-1", "Should be greater than or equal to 0"),
        ("filter_scheduler", "max_io_ops_per_host", "-1", "Should be greater than or equal to 0"),
        ("filter_scheduler", "max_instances_per_host", "0", "Should be greater than or equal to 1"),
        (
            "filter_scheduler",
            "shuffle_best_same_weighed_hosts",
            "maybe",
            "Unexpected boolean value 'maybe'",
        ),
        ("DEFAULT", "report_interval", "0", "Should be greater than or equal to 1"),
        ("DEFAULT", "host", "not a host!", "not a host! is not a valid host address"),
        ("DEFAULT", "reserved_host_memory_mb", "-1", "Should be greater than or equal to 0"),
        ("DEFAULT", "cpu_allocation_ratio", "-0.5", "Should be greater than or equal to 0"),
        (
            "DEFAULT",
            "concurrency_backend",
            "asyncio",
            "Valid values are [eventlet, threading, auto], but found 'asyncio'",
        ),
        (
            "notifications",
            "notification_format",
            "loud",
            "Valid values are [unversioned, versioned, both], but found 'loud'",
        ),
        ("libvirt", "call_timeout", "0", "Should be greater than or equal to 1"),
        ("fake", "hosts", "0", "Should be greater than or equal to 1"),
        ("database", "max_retries", "often", NUMBER + "'often'"),
    ],
)
def test_a_bad_value_names_option_value_and_file(loaded, tmp_path, section, name, value, why):
    with pytest.raises(ConfigError) as caught:
        loaded(f"[{section}]\n{name} = {value}\n")
    path = tmp_path / "berthmaster.conf"
    assert str(caught.value) == f"option [{section}] {name} = {value!r} in {path}: {why}"


@pytest.mark.parametrize("option", opts.list_opts(), ids=lambda pair: pair[0])
def test_no_number_of_any_group_may_be_nonsense(loaded, option):
    group, options = option
    for each in options:
        if isinstance(each, cfg.IntOpt | cfg.FloatOpt):
            with pytest.raises(ConfigError, match=rf"option \[{group}\] {each.name} = 'twelve' in"):
                loaded(f"[{group}]\n{each.name} = twelve\n")


@pytest.mark.parametrize(
    ("section", "name", "value", "why"),
    [
        ("filter_scheduler", "ram_weight_multiplier", "nan", "nan in {}: Must be a finite number"),
        ("filter_scheduler", "cpu_weight_multiplier", "inf", "inf in {}: Must be a finite number"),
        ("scheduler", "view_reload_interval", "", "None in {}: Needs a value"),
        ("DEFAULT", "service_down_time", "", "None in {}: Needs a value"),
        ("claims", "lease", "", "None in {}: Needs a value"),
        ("claims", "lease", "2147483648", "2147483648 in {}: Must be no more than 2147483647"),
    ],
)
def test_what_oslo_config_accepts_and_nothing_can_use(loaded, tmp_path, section, name, value, why):
    with pytest.raises(ConfigError) as caught:
        loaded(f"[{section}]\n{name} = {value}\n")
    expected = why.format(tmp_path / "berthmaster.conf")
    assert str(caught.value) == f"option [{section}] {name} = {expected}"


@pytest.mark.parametrize(
    ("password", "why"),
    [
        ("Top@Secret99", "in the user name and the password, write @ as %40"),
        ("Top$Secret99", "write a literal $ as $$"),
    ],
)
def test_no_error_shows_the_password_of_a_url_that_is_no_good(loaded, tmp_path, password, why):
    with pytest.raises(ConfigError) as caught:
        loaded(f"[database]\nconnection = mysql+pymysql://nova:{password}@host/nova\n")
    path = tmp_path / "berthmaster.conf"
    assert str(caught.value).startswith(f"option [database] connection in {path}: ")
    assert why in str(caught.value)
    assert "Secret" not in str(caught.value)


def test_a_bad_value_of_the_environment_names_its_variable(loaded, monkeypatch):
    monkeypatch.setenv("OS_CLAIMS__LEASE", "soon")
    with pytest.raises(
        ConfigError, match=r"option \[claims\] lease = 'soon' in OS_CLAIMS__LEASE: "
    ):
        loaded("")


def test_an_option_without_default_may_stay_without_value(loaded):
    assert loaded("[DEFAULT]\ncpu_allocation_ratio =\n").cpu_allocation_ratio is None


@pytest.mark.parametrize(
    ("old", "new", "value", "why"),
    [
        ("scheduler_max_attempts", "max_attempts", "many", NUMBER + "'many'"),
        ("scheduler_host_subset_size", "host_subset_size", "x", NUMBER + "'x'"),
        ("ram_weight_multiplier", "ram_weight_multiplier", "x", FLOAT + "'x'"),
    ],
)
def test_a_bad_value_under_an_old_name_is_found_too(loaded, tmp_path, old, new, value, why):
    with pytest.raises(ConfigError) as caught:
        loaded(f"[DEFAULT]\n{old} = {value}\n")
    path = tmp_path / "berthmaster.conf"
    assert str(caught.value) == f"option [DEFAULT] {new} = {value!r} in {path}: {why}"


def test_the_same_name_in_another_section_is_not_blamed(loaded):
    text = "[elsewhere]\nworkers = fine\n[scheduler]\nworkers = 0\n"
    with pytest.raises(ConfigError, match=r"option \[scheduler\] workers = '0' in"):
        loaded(text)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("[scheduler]\nworkers = many\n", "option [scheduler] workers = 'many'"),
        ("[scheduler]\nview_max_age = nan\n", "option [scheduler] view_max_age = nan"),
        ("[SCHEDULER]\nworkers = many\n", "option [SCHEDULER] workers = 'many'"),
        ("[DEFAULT]\nscheduler_max_attempts = many\n", "option [DEFAULT] max_attempts = 'many'"),
    ],
)
def test_of_several_files_the_one_that_has_the_option_is_named(loaded, tmp_path, text, option):
    later = tmp_path / "later"
    later.mkdir()
    (later / "10.conf").write_text("[scheduler]\nview_reload_interval = 60\n[DEFAULT]\nhost = h\n")
    with pytest.raises(ConfigError) as caught:
        loaded(text, "--config-dir", str(later))
    assert str(caught.value).startswith(f"{option} in {tmp_path / 'berthmaster.conf'}: ")
    # The last one counts where several have it.
    (later / "20.conf").write_text(text)
    with pytest.raises(ConfigError) as caught:
        loaded(text, "--config-dir", str(later))
    assert str(caught.value).startswith(f"{option} in {later / '20.conf'}: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[scheduler\nworkers = 1\n", "Invalid section"),
        ("workers = 1\n", "Section must be started before assignment"),
        ("[scheduler]\nworkers 1\n", "No ':' or '=' found in assignment"),
        ("[DEFAULT]\ndefault_log_levels = x\n", r"default_log_levels = 'x': Unknown level"),
        (
            "[DEFAULT]\nlog_file = /nowhere/b.log\n",
            "log_dir and log_file: cannot write /nowhere/b.log: No such file or directory",
        ),
        (
            "[DEFAULT]\nlog_config_append = /nowhere\n",
            "log_config_append = '/nowhere' cannot be used",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_said_in_one_line(loaded, text, why):
    with pytest.raises(ConfigError, match=why) as caught:
        loaded(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--config-file", "/nowhere/b.conf"], "Failed to find some config files: /nowhere/b.conf"),
        (["--config-dir", "/nowhere"], "Failed to read config file directory: /nowhere"),
    ],
)
def test_files_that_are_not_there(process_state, arguments, why):
    with pytest.raises(ConfigError, match=why):
        loading.load(cfg.ConfigOpts(), "berthmaster-test", arguments, "1.0")


def test_an_error_about_no_option_is_shown_as_it_is():
    assert loading.explain(ValueError("two\n lines")) == "two lines"


def test_a_file_that_is_gone_by_now_leaves_the_value_open():
    text = "Value for option x from LocationInfo(location=1, detail='/nowhere') is not valid: bad"
    assert loading.explain(ValueError(text)) == "option [?] x = ? in /nowhere: bad"


def test_a_name_that_the_file_no_longer_has_leaves_the_value_open(tmp_path):
    path = tmp_path / "now.conf"
    path.write_text("[scheduler]\nanother = 1\n")
    text = f"Value for option x from LocationInfo(location=1, detail='{path}') is not valid: bad"
    assert loading.explain(ValueError(text)) == f"option [?] x = ? in {path}: bad"


def test_files_can_be_rehearsed_before_they_are_taken_over(tmp_path):
    path = tmp_path / "berthmaster.conf"
    path.write_text("[scheduler]\nworkers = 3\n")
    loading.read_apart("berthmaster-test", ["--config-file", str(path)])
    path.write_text("[scheduler]\nworkers = three\n")
    with pytest.raises(ConfigError, match="workers = 'three'"):
        loading.read_apart("berthmaster-test", ["--config-file", str(path)])


def test_the_source_of_a_value(loaded, tmp_path):
    conf = loaded("[scheduler]\nworkers = 3\n[DEFAULT]\nscheduler_max_attempts = 4\n")
    path = str(tmp_path / "berthmaster.conf")
    assert loading.source(conf, "scheduler", "workers") == path
    assert loading.source(conf, "scheduler", "max_attempts") == path
    assert loading.source(conf, "DEFAULT", "state_path") != path


def test_the_source_of_a_value_is_not_a_later_file_with_the_same_section(loaded, tmp_path):
    text = "[DEFAULT]\ntransport_url = rabbit://\nscheduler_max_attempts = 4\n"
    later = tmp_path / "later.conf"
    later.write_text("[DEFAULT]\nhost = h\n[scheduler]\nworkers = 2\n")
    conf = loaded(text, "--config-file", str(later))
    oslo_messaging.get_rpc_transport(conf)
    path = str(tmp_path / "berthmaster.conf")
    assert loading.source(conf, "DEFAULT", "transport_url") == path
    assert loading.source(conf, "scheduler", "max_attempts") == path
    assert loading.source(conf, "DEFAULT", "host") == str(later)


def test_defaults_pass_the_check(loaded):
    conf = loaded("")
    assert conf.scheduler.workers == 1
    assert conf.database.connection == "sqlite:////var/lib/berthmaster/berthmaster.sqlite"
    assert "stevedore=WARN" in conf.default_log_levels


def test_the_last_file_wins(loaded, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "10.conf").write_text("[scheduler]\nworkers = 3\n")
    conf = loaded("[scheduler]\nworkers = 2\n", "--config-dir", str(tmp_path / "more"))
    assert conf.scheduler.workers == 3
