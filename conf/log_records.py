# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Log records of which each message is one line, whatever a stranger has put into a value.

They are made for all loggers, those of libraries too, and look the same to every handler and
formatter that the options of oslo.log ask for.
"""

import logging
import re

# A decision with all its hosts and filters is a tenth of it.
MAX_CHARACTERS = 4000
# Control characters of both sets, what else ends a line somewhere, what turns the direction of
# writing, and what cannot be encoded.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def use() -> None:
    """Have all loggers of this process make such records from now on."""
    logging.setLogRecordFactory(OneLineRecord)


def one_line(text: str) -> str:
    r"""Return a text with \n and its like for what would end a line, cut where it is too long."""
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}... ({len(text) - MAX_CHARACTERS} characters more)"
    return _UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


class OneLineRecord(logging.LogRecord):
    """A record whose message, and the summary of its error, are one line each.

    A traceback stays as many lines as it has; each of them is escaped and cut as well. Formatters
    look for what they have set in the dictionary of a record.
    """

    def getMessage(self) -> str:
        """Return the message."""
        return one_line(super().getMessage())

    @property
    def error_summary(self) -> str:
        """What oslo.log appends to a message while an error is handled."""
        return str(self.__dict__.get("error_summary", ""))

    @error_summary.setter
    def error_summary(self, text: str) -> None:
        self.__dict__["error_summary"] = one_line(text)

    @property
    def exc_text(self) -> str | None:
        """The traceback, as the formatter has made it that came first."""
        return self.__dict__.get("exc_text")

    @exc_text.setter
    def exc_text(self, text: str | None) -> None:
        self.__dict__["exc_text"] = text and "\n".join(map(one_line, text.split("\n")))
