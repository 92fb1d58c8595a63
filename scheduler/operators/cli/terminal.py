# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What people at a terminal see besides results: colours and progress."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from cliff.app import App

from conf.plain_text import escaped

# Seconds after which progress is shown, and between two lines of it.
PROGRESS_AFTER, _INTERVAL = 1.0, 0.2
# What is said where the terminal does not know how wide it is.
_WIDTH = 80
# To the beginning of the line, which is cleared.
_CLEAR = "\r\033[K"
Progress = Callable[[int], None]


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal that knows control sequences."""
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def is_coloured(stream: Any) -> bool:
    """Return whether a stream is a terminal whose user wants colours."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


@contextmanager
def progress(
    app: App, what: str, total: int = 0, rest: Callable[[], str] | None = None
) -> Iterator[Progress]:
    """Show on a terminal that a command is at work; yield a function that is told how far it is.

    rest is what the line ends with, by default the seconds left if total is known, else those
    since the beginning. The line is gone when the block ends. What the block prints belongs behind
    it. Nothing is shown of what takes less than a second, nor in pipes and files.
    """
    if not is_terminal(app.stderr):
        yield lambda _: None
        return
    line = _Line(app.stderr, what, total, rest)
    handlers = [*logging.getLogger().handlers]
    for handler in handlers:
        handler.addFilter(line.give_way)
    thread = Thread(target=line.run, daemon=True)
    thread.start()
    try:
        yield line.tell
    finally:
        line.ended.set()
        thread.join()
        for handler in handlers:
            handler.removeFilter(line.give_way)


def clear_line(app: App) -> None:
    """Clear the line of progress for text that is printed now; it is written below again."""
    if is_terminal(app.stderr):
        print(_CLEAR, end="", file=app.stderr, flush=True)


class _Line:
    """A line of a terminal that is written again and again, by a thread of its own."""

    def __init__(self, stream: Any, what: str, total: int, rest: Callable[[], str] | None) -> None:
        self.ended = Event()
        self._stream, self._what, self._total = stream, what, total
        self._rest = rest or self._seconds
        self._done: int | None = None
        self._began = monotonic()
        self._writing = Lock()

    def tell(self, done: int) -> None:
        self._done = done

    def give_way(self, _: logging.LogRecord) -> bool:
        """Clear the line for a message of the log, which it may be written below again."""
        self._write("")
        return True

    def run(self) -> None:
        """Write the line until the work has ended, and clear it then."""
        if PROGRESS_AFTER and self.ended.wait(PROGRESS_AFTER):
            return
        self._write(self._text())
        while not self.ended.wait(_INTERVAL):
            self._write(self._text())
        self._write("")

    def _text(self) -> str:
        done = "" if self._done is None else f": {self._done}"
        of = f" of {self._total}" if done and self._total else ""
        return f"{self._what}{done}{of}, {self._rest()}"

    def _seconds(self) -> str:
        seconds = monotonic() - self._began
        if self._total and self._done:
            return f"{seconds / self._done * (self._total - self._done):.0f} s left"
        return f"{seconds:.0f} s"

    def _write(self, text: str) -> None:
        # One that is broken could not be cleared.
        text = escaped(text)[: self._width() - 1]
        with self._writing:
            print(f"{_CLEAR}{text}", end="", file=self._stream, flush=True)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        # Of tests, which have no file.
        except OSError:
            return _WIDTH
