# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Log records with one line per message, whatever characters a caller puts into a value.

All loggers make them, those of libraries too, and all handlers and formatters of oslo.log get them.
"""

import logging
import time
from dataclasses import dataclass
from typing import Any

from conf.plain_text import escaped

# A decision with all its hosts and filters has a tenth.
MAX_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong, in one line, and when, in seconds since 1970."""

    text: str
    at: float


# The newest one of this process, which has one log.
_last: list[Problem] = []


def note_problem(text: str) -> None:
    """Remember what has gone wrong now in place of what did before."""
    _last[:] = [Problem(in_one_line(text), time.time())]


def last_problem() -> Problem | None:
    """Return the newest error of the log, or failure of something that is tried again."""
    return _last[0] if _last else None


def in_one_line(text: str) -> str:
    r"""Return a text with line ends and the like escaped, such as \n, and truncated if too long."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}... ({len(text) - MAX_CHARACTERS} characters more)"
    return escaped(text)


def _words(text: str) -> str:
    return " ".join(text.split())


class OneLineRecord(logging.LogRecord):
    """A record whose message, and the summary of its error, are one line each.

    A traceback keeps its lines, each escaped and truncated. Formatters look for what they have set
    in the dictionary of a record.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # makeLogRecord() fills it in later.
        if self.levelno and self.levelno >= logging.ERROR:
            note_problem(self._problem())

    def _problem(self) -> str:
        """Return the message, with the first line of its error if that is not in it."""
        try:
            text = super().getMessage()
            error = self.exc_info and self.exc_info[1]
            first = (str(error).strip().splitlines() or [""])[0] if error else ""
        # A format that does not suit its values, or a value without a text, which handlers report:
        # whoever logs is not to fail for that.
        except Exception:
            return self.msg if isinstance(self.msg, str) else type(self.msg).__name__
        return text if first in text else f"{text}: {first}"

    def getMessage(self) -> str:
        return in_one_line(super().getMessage())

    @property
    def error_summary(self) -> str:
        """The text that oslo.log appends to a message while an error is handled.

        It is empty where the message says it: whoever handles an error may log its text.
        """
        return str(self.__dict__.get("error_summary", ""))

    @error_summary.setter
    def error_summary(self, text: str) -> None:
        # Without the name of its class.
        error = _words(text.partition(": ")[2] or text)
        is_said = error and not self.exc_info and error in _words(super().getMessage())
        self.__dict__["error_summary"] = "" if is_said else in_one_line(text)

    @property
    def exc_text(self) -> str | None:
        """The traceback as the first formatter made it."""
        return self.__dict__.get("exc_text")

    @exc_text.setter
    def exc_text(self, text: str | None) -> None:
        self.__dict__["exc_text"] = text and "\n".join(map(in_one_line, text.split("\n")))
