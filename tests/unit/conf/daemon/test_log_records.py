# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What strangers write into values stays in the line of the message, by every formatter."""

import logging
import time

import pytest
from oslo_config import cfg
from oslo_log import formatters, log

from conf.daemon import log_records
from conf.daemon.log_records import MAX_CHARACTERS, OneLineRecord
from conf.daemon.state_logger import one_line

FORGED = "2026-11-22 03:40:00.000 1 INFO scheduler.service [-] Stopped"


@pytest.fixture
def conf():
    found = cfg.ConfigOpts()
    log.register_options(found)
    found([])
    return found


@pytest.fixture(params=["plain", "oslo.log", "JSON"])
def formatted(request, conf):
    """Return a function that formats a message as one of the formatters does."""
    made = {
        "plain": logging.Formatter("%(levelname)s %(message)s"),
        "oslo.log": formatters.ContextFormatter(config=conf),
        "JSON": formatters.JSONFormatter(),
    }[request.param]

    def formatting(message, *arguments, error=None):
        level = logging.ERROR
        trace = (type(error), error, error.__traceback__) if error else None
        return made.format(OneLineRecord("name", level, "file", 1, message, arguments, trace))

    return formatting


def _traceback_of(text):
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"ask\n{FORGED}", rf"ask\n{FORGED}"),
        (f"ask\r{FORGED}", rf"ask\r{FORGED}"),
        ("\x1b[2J\x00\x7f\x9b", r"\x1b[2J\x00\x7f\x9b"),
        ("\u2028\u202e\x85\ud800", r"\u2028\u202e\x85\ud800"),
        ("Zürich, 東京 \\n", "Zürich, 東京 \\n"),
    ],
)
def test_a_message_is_one_line(formatted, value, shown):
    line = formatted("Refused a call: %s.", value)
    assert len(line.splitlines()) == 1
    # JSON escapes the backslash, and what is beyond ASCII.
    assert f"Refused a call: {shown}." in line or line.startswith("{")
    assert line.encode()


def test_a_message_is_cut(formatted):
    line = formatted("%s", "x" * 70_000)
    assert "x" * MAX_CHARACTERS + "... (66000 characters more)" in line
    # JSON has the arguments besides.
    assert len(line) < MAX_CHARACTERS + 500 or line.startswith("{")


def test_a_traceback_keeps_its_lines(formatted):
    error = _traceback_of(f"no\x1b[2J\n{FORGED}")
    text = formatted("Failed", error=error)
    assert "\x1b" not in text
    assert "Traceback (most recent call last):" in text
    assert len(text.splitlines()) > 4 or text.startswith("{")


def test_the_summary_of_an_error_is_one_line(conf):
    error = _traceback_of(f"no\n{FORGED}")
    text = formatters.ContextFormatter(config=conf).format(
        OneLineRecord("name", logging.ERROR, "f", 1, "Failed", (), (type(error), error, None))
    )
    assert rf"Failed: ValueError: no\n{FORGED}" in text.splitlines()[0]


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("Gone: {}", "Gone: no server here"),
        ("Trying again", r"Trying again: OSError: no  server\there"),
    ],
)
def test_an_error_that_is_being_handled_stands_in_the_line_once(conf, message, line):
    try:
        raise OSError("no  server\there")
    except OSError as error:
        written = message.format(one_line(error))
        record = OneLineRecord("name", logging.WARNING, "file", 1, written, (), None)
        text = formatters.ContextFormatter(config=conf).format(record)
    assert text.endswith(f" {line}")


class _WithoutText:
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("level", "message", "arguments", "error", "noted"),
    [
        (logging.ERROR, "Cannot %s", ("read\nit",), None, r"Cannot read\nit"),
        (logging.CRITICAL, "Failed", (), OSError("no route\nSELECT 1"), "Failed: no route"),
        (logging.ERROR, "Failed: no route", (), OSError("no route"), "Failed: no route"),
        (logging.ERROR, "Failed", (), OSError(), "Failed"),
        (logging.ERROR, "%d of %d", ("x",), None, "%d of %d"),
        (logging.ERROR, "%(host)s is gone", ({"node": 1},), None, "%(host)s is gone"),
        (logging.ERROR, "%s is gone", (_WithoutText(),), None, "%s is gone"),
        (logging.ERROR, _WithoutText(), (), None, "_WithoutText"),
        (logging.WARNING, "Eventlet is deprecated", (), None, None),
    ],
)
def test_the_newest_error_is_remembered(level, message, arguments, error, noted):
    log_records.note_problem("before")
    began = time.time()
    trace = error and (type(error), error, None)
    OneLineRecord("name", level, "file", 1, message, arguments, trace)
    found = log_records.last_problem()
    assert found.text == (noted or "before")
    assert noted is None or found.at >= began


def test_a_record_that_is_made_of_a_dictionary_is_no_error(monkeypatch):
    monkeypatch.setattr(logging, "_logRecordFactory", OneLineRecord)
    log_records.note_problem("before")
    assert logging.makeLogRecord({"levelno": logging.ERROR, "msg": "late"}).getMessage() == "late"
    assert log_records.last_problem().text == "before"
