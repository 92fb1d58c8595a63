# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where drivers note what has changed, and the agent waits for it.

Notes may come from threads of the kernel in a process of green threads, such as those that call
back from C. So they take no lock, and the end of the wait travels through a socket: it can be
waited for by green threads and by native ones.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Any


class Changes:
    """A mailbox: any thread notes, one waits."""

    def __init__(self) -> None:
        self._noted: deque[Any] = deque()
        self._rung = self._closed = False
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs.detach()

    def note(self, what: Hashable) -> None:
        """Say that something about a node changed."""
        self._noted.append(what)
        self._ring()

    def wait(self, seconds: float | None, settle: float = 0.0) -> frozenset[Any]:
        """Return what was noted, as soon as there is something; nothing after so many seconds.

        None waits for ever. Notes come in bursts: those of the next settle seconds are returned
        with the first one. After close() it returns at once.
        """
        self._ours.settimeout(None if seconds is None else max(seconds, 0.001))
        with suppress(TimeoutError):
            self._ours.recv(64)
            if settle and not self._closed:
                time.sleep(settle)
        self._rung = self._closed
        found = set()
        while self._noted:
            found.add(self._noted.popleft())
        return frozenset(found)

    def close(self) -> None:
        """Let the wait, and every later one, end at once."""
        self._closed = True
        self._ours.shutdown(socket.SHUT_RD)

    def __del__(self) -> None:
        self._ours.close()
        os.close(self._theirs)

    def _ring(self) -> None:
        # Once until somebody has looked: a socket that is full would hold up the caller.
        if not self._rung:
            self._rung = True
            with suppress(OSError):
                os.write(self._theirs, b"!")
