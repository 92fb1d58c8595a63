# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A mailbox in which drivers note changed nodes, and the agent waits for them.

Notes may come from threads of the kernel in a process of green threads, such as those that call
back from C. So they take no lock, and the end of the wait travels through a socket: it can be
waited for by green threads and by native ones.
"""

import os
import posix
import socket
import time
import weakref
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Any


class EventMailbox:
    """Any thread notes, one waits."""

    def __init__(self) -> None:
        self._noted: deque[Any] = deque()
        self.closed = False
        self._woken = self._rung = False
        # Made by the first wait: a process that is forked off must not share them with its parent.
        self._ours: socket.socket | None = None
        self._theirs: int | None = None

    def note(self, what: Hashable) -> None:
        """Note a node that changed."""
        self._noted.append(what)
        self.wake()

    def wake(self) -> None:
        """End the wait, or else the next one, although nothing may have changed."""
        # First: a wait() that opens the socket after this line sees it.
        self._woken = True
        # Once per wait(): a socket that is full would block the caller.
        if self._theirs is not None and not self._rung:
            self._rung = True
            with suppress(OSError):
                # Not os.write(): that of green threads makes them switch, in a thread of C too.
                posix.write(self._theirs, b"!")

    def wait(self, seconds: float | None, debounce: float = 0.0) -> frozenset[Any]:
        """Return what was noted, as soon as there is something; nothing when the seconds are over.

        None waits without a limit. Notes come in bursts: those of the next debounce seconds are
        returned with the first one. After close() it returns at once.
        """
        ours = self._opened()
        if self._woken or self.closed:
            # Only read what may have been sent.
            seconds = 0
        ours.settimeout(None if seconds is None else max(seconds, 0.001))
        with suppress(TimeoutError):
            ours.recv(64)
        if debounce and self._noted and not self.closed:
            time.sleep(debounce)
        self._rung = self._woken = False
        found = set()
        while self._noted:
            found.add(self._noted.popleft())
        return frozenset(found)

    def close(self) -> None:
        """End the wait and all later ones at once; may be called again."""
        self.closed = True
        if self._ours is not None:
            self._ours.shutdown(socket.SHUT_RD)

    def _opened(self) -> socket.socket:
        if self._ours is None:
            self._ours, other = socket.socketpair()
            theirs = other.detach()
            # Not __del__: of what is dropped together the order is unknown.
            weakref.finalize(self, _close, self._ours, theirs)
            # Last: from now on notes wake the waiter.
            self._theirs = theirs
        return self._ours


def _close(ours: socket.socket, theirs: int) -> None:
    ours.close()
    os.close(theirs)
