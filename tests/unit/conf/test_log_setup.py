# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.log_setup: files of logging that were made for Nova, and what cannot be used."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_log import handlers

from conf import loading, log_setup
from conf.loading import ConfigError

Loaded = Callable[..., cfg.ConfigOpts]
# As openstack-helm and others write it for Nova; {root} and {more} are what differs.
FOR_NOVA = """\
[loggers]
keys = root,nova,amqp
[handlers]
keys = file,null
[formatters]
keys = plain
[logger_root]
level = WARNING
handlers = {root}
[logger_nova]
level = {level}
handlers = file
qualname = {name}
[logger_amqp]
level = WARNING
handlers = file
qualname = amqp
[handler_null]
class = logging.NullHandler
formatter = plain
args = ()
[handler_file]
class = {handler}
formatter = plain
args = ({file!r}, 'a', None, True)
[formatter_plain]
format = %(name)s %(message)s
"""


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "nova.log"
    # The handlers open it with their first line.
    path.touch()
    return path


@pytest.fixture
def written(tmp_path: Path, log_file: Path) -> Iterator[Callable[..., str]]:
    """Return what writes a file of logging and returns the text of a file that names it."""

    def write(**changes: str) -> str:
        usual = {"root": "null", "level": "INFO", "name": "nova", "handler": "logging.FileHandler"}
        path = tmp_path / "logging.conf"
        path.write_text(FOR_NOVA.format(file=str(log_file), **(usual | changes)))
        return f"[DEFAULT]\nlog_config_append = {path}\n"

    names = [*log_setup.OURS, "nova", "amqp"]
    yield write
    for name in names:
        logger = logging.getLogger(name)
        for each in logger.handlers:
            each.close()
        logger.handlers[:], logger.propagate = [], True


@pytest.mark.parametrize(("level", "said"), [("INFO", True), ("WARNING", False)])
def test_our_loggers_follow_that_of_nova(
    loaded: Loaded, written: Callable[..., str], log_file: Path, level: str, said: bool
) -> None:
    conf = loaded(written(level=level))
    for name in ("scheduler.service", "compute_agent.manager"):
        logging.getLogger(name).info("decided")
        assert (f"{name} decided" in log_file.read_text()) is said
    # As when SIGHUP has read the file again.
    log_setup.follow_nova(conf)
    logging.getLogger("scheduler.service").warning("once")
    assert log_file.read_text().count("scheduler.service once") == 1


@pytest.mark.parametrize(
    "changes",
    [{"handler": "fluent.handler.FluentHandler"}, {"level": "LOUD"}, {"root": "nowhere"}, None],
    ids=["a class", "a level", "a name", "no file"],
)
def test_a_file_that_cannot_be_read_again_changes_nothing(
    loaded: Loaded, written: Callable[..., str], log_file: Path, changes: dict[str, str] | None
) -> None:
    conf = loaded(written())
    if changes is None:
        Path(conf.log_config_append).unlink()
    else:
        written(**changes)
        os.utime(conf.log_config_append, (1, 1))
    log_setup.reload(conf, conf.mutate_config_files)
    logging.getLogger("scheduler.service").info("decided")
    refusal, decided = log_file.read_text().splitlines()[-2:]
    assert refusal.startswith("conf.log_setup Logging goes on as before: option [DEFAULT] log_conf")
    assert decided == "scheduler.service decided"
    # Once it is mended it counts, although its time may be that of the first one.
    written(level="ERROR")
    log_setup.reload(conf, conf.mutate_config_files)
    logging.getLogger("scheduler.service").info("hardly")
    assert "hardly" not in log_file.read_text()


def test_a_reload_prints_nothing_that_is_logged_to_a_file(
    loaded: Loaded, written: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = written(root="")
    conf = loaded(text)
    loading.read_apart("berthmaster-test", ["--config-file", conf.config_file[0]])
    log_setup.reload(conf, conf.mutate_config_files)
    logging.getLogger("scheduler.service").info("decided")
    assert capsys.readouterr().err == ""


def test_a_file_that_names_ours_is_followed_to_the_letter(
    loaded: Loaded, written: Callable[..., str], log_file: Path
) -> None:
    loaded(written(name="scheduler", level="ERROR"))
    logging.getLogger("scheduler.service").warning("hardly")
    assert "hardly" not in log_file.read_text()


@pytest.mark.parametrize(
    "changes", [{"name": "cinder"}, {"root": "file", "name": "cinder"}, {"level": "ERROR"}]
)
def test_a_file_that_leaves_decisions_out_is_said_at_the_start(
    loaded: Loaded,
    written: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, str],
) -> None:
    loaded(written(**changes))
    (line,) = capsys.readouterr().err.splitlines()
    assert "no messages of level INFO are logged" in line
    assert "qualname = scheduler" in line


def test_a_file_that_has_them_is_not(
    loaded: Loaded, written: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(written())
    assert capsys.readouterr().err == ""


def test_a_handler_that_is_not_there_is_named_with_the_file(
    loaded: Loaded, written: Callable[..., str]
) -> None:
    with pytest.raises(ConfigError, match=r"log_config_append = '\S+' cannot be used: .*fluent"):
        loaded(written(handler="fluent.handler.FluentHandler"))


def test_the_journal_without_its_bindings_is_refused_with_the_cure(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "journal", None)
    with pytest.raises(ConfigError, match="use_journal needs the Python bindings of systemd"):
        loaded("[DEFAULT]\nuse_journal = true\n")


def test_an_unknown_facility_is_named(loaded: Loaded) -> None:
    with pytest.raises(ConfigError, match=r"syslog_log_facility = 'nowhere': .*must be one of"):
        loaded("[DEFAULT]\nuse_syslog = true\nsyslog_log_facility = nowhere\n")


@pytest.mark.parametrize("more", ["", "log_file = nova-compute.log\n"])
def test_a_directory_of_another_service_leaves_the_log_on_standard_output(
    loaded: Loaded, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    loaded(f"[DEFAULT]\nlog_dir = /nowhere/kolla/nova\n{more}")
    said = capsys.readouterr().out
    assert "Logging to standard output instead of [DEFAULT] log_dir: cannot write /nowhere" in said
