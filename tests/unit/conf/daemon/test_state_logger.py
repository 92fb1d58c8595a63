# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A failure is logged when it begins and when it is over, and not in between."""

import logging

from oslo_log import log

from conf.daemon.log_records import last_problem
from conf.daemon.state_logger import StateLogger, one_line


def test_each_reason_is_logged_once_until_the_recovery(caplog):
    caplog.set_level(logging.INFO)
    state = StateLogger(log.getLogger(__name__), "Heartbeat")
    state.recovered()
    for reason in ("gone", "slow", "gone"):
        state.failed(reason, "Heartbeat failed: %s", reason)
    state.recovered("; 2 were missed")
    state.recovered()
    state.failed("gone", "Heartbeat failed: %s", "gone")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "Heartbeat failed: gone"),
        ("WARNING", "Heartbeat failed: slow"),
        ("INFO", "Heartbeat recovered; 2 were missed"),
        ("WARNING", "Heartbeat failed: gone"),
    ]


def test_the_traceback_of_an_unexpected_error_is_logged(caplog):
    state = StateLogger(log.getLogger(__name__), "Audits")
    try:
        raise ZeroDivisionError("of a monitor")
    except ZeroDivisionError as error:
        unexpected = error
    state.failed("why", "Audit failed", exc_info=unexpected)
    assert "ZeroDivisionError: of a monitor" in caplog.text


def test_an_error_is_one_line():
    assert one_line(OSError("the broker\n  is gone")) == "the broker is gone"
    assert one_line(OSError()) == "OSError()"


def test_an_attempt_logs_its_failure_without_a_traceback_and_its_recovery(caplog):
    caplog.set_level(logging.INFO)
    state = StateLogger(log.getLogger(__name__), "Pruning")
    outcomes = iter([OSError("is\ngone"), OSError("is late"), None])

    def work():
        if error := next(outcomes):
            raise error

    tries = [state.attempt(work, "%s failed: %s", "Pruning", reason="one") for _ in range(3)]
    assert tries == ["is gone", "is late", ""]
    assert [(each.getMessage(), each.exc_info) for each in caplog.records] == [
        ("Pruning failed: is gone", None),
        ("Pruning recovered", None),
    ]
    assert last_problem().text == "Pruning failed: is gone"
