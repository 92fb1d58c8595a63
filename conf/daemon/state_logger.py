# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""One line in the log when something begins to fail, and one when it has recovered."""

from collections.abc import Callable
from typing import Any

from conf.daemon.log_records import note_problem


class StateLogger:
    """Logs changes of state only. activity names what fails, such as "Heartbeat"."""

    def __init__(self, logger: Any, activity: str) -> None:
        self._logger = logger
        self.activity = activity
        self._reasons: set[str] = set()

    def attempt(
        self, work: Callable[[], object], text: str, *values: object, reason: str = ""
    ) -> str:
        """Do work that is tried again if it fails; return how it failed, "" if it did not.

        A failure is logged: text has a %s for each value and, at its end, one for the failure.
        reason is as in failed(), by default the failure.
        """
        try:
            work()
        # Most callers are threads, whose end would be the end of their work.
        except Exception as error:
            failure = one_line(error)
            self.failed(reason or failure, text, *values, failure)
            return failure
        self.recovered()
        return ""

    def failed(
        self, reason: str, text: str, *values: object, exc_info: BaseException | None = None
    ) -> None:
        """Warn with a text, unless this reason was logged since the last recovery."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            self._logger.warning(text, *values, exc_info=exc_info)
            note_problem(text % values if values else text)

    def recovered(self, details: str = "") -> None:
        """Log a recovery if a failure was logged before."""
        if self._reasons:
            self._reasons.clear()
            self._logger.info("%s recovered%s", self.activity, details)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or repr(error)
