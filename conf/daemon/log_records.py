# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Log records with one line per message, whatever characters a caller puts into a value.

All loggers make them, those of libraries too, and all handlers and formatters of oslo.log get them.
"""

import logging
import re

# A decision with all its hosts and filters has a tenth.
MAX_CHARACTERS = 4000
# Control characters, line ends of Unicode, changes of writing direction, surrogates.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escaped(text: str) -> str:
    r"""Return a text with line ends and the like escaped, such as \n, and truncated if too long."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}... ({len(text) - MAX_CHARACTERS} characters more)"
    return _UNPRINTABLE.sub(_escape, text)


def _words(text: str) -> str:
    return " ".join(text.split())


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


class OneLineRecord(logging.LogRecord):
    """A record whose message, and the summary of its error, are one line each.

    A traceback keeps its lines, each escaped and truncated. Formatters look for what they have set
    in the dictionary of a record.
    """

    def getMessage(self) -> str:
        """Return the message."""
        return escaped(super().getMessage())

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
        self.__dict__["error_summary"] = "" if is_said else escaped(text)

    @property
    def exc_text(self) -> str | None:
        """The traceback as the first formatter made it."""
        return self.__dict__.get("exc_text")

    @exc_text.setter
    def exc_text(self, text: str | None) -> None:
        self.__dict__["exc_text"] = text and "\n".join(map(escaped, text.split("\n")))
