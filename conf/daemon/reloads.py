# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Reloads on SIGHUP: one at a time, after the start, before the stop, and never the daemon's end.

oslo.service leaves gaps. A SIGHUP before its handlers are there ends the daemon; with eventlet a
second one or a SIGTERM does so during a reload, and a SIGHUP during a stop. With threads a SIGHUP
during a reload is lost. So SIGHUP is blocked from the beginning until somebody can take it.
"""

import os
import signal
import socket
from collections.abc import Callable
from threading import Event, Lock, Thread

from oslo_log import log

from conf.daemon.process import start_native_thread

LOG = log.getLogger(__name__)
_SIGNAL = {signal.SIGHUP}


def take_signals(handle: Callable[[], object]) -> None:
    """Call this for each SIGHUP from now on, which stays blocked and so ends nothing."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNAL)
    ours, theirs = socket.socketpair()

    def take() -> None:
        while True:
            signal.sigwait(_SIGNAL)
            # A native thread must not touch an event of green ones.
            os.write(theirs.fileno(), b"1")

    def relay() -> None:
        while ours.recv(64):
            handle()

    start_native_thread(take, ())
    Thread(target=relay, name="signals of reloads", daemon=True).start()


def call_handler() -> None:
    """Call the handler of SIGHUP, if any: a launcher removes it when it begins to stop."""
    handler = signal.getsignal(signal.SIGHUP)
    if callable(handler):
        handler(signal.SIGHUP, None)


class Reloads:
    """Reloads in a thread of its own. Made in the parent process before any fork."""

    def __init__(self, reload: Callable[[], None]) -> None:
        self._reload = reload
        # Whether nobody else makes SIGHUP a request, as the launcher of native workers does.
        self.takes_signals = True
        self._requested = Event()
        # Held by a reload, and by the stop that waits for it.
        self._lock = Lock()
        self._stopped = False

    def request(self) -> None:
        """Have the files read again, at once or when the reload under way is over."""
        self._requested.set()

    def start(self) -> None:
        """Begin with what was requested already."""
        if self.takes_signals:
            take_signals(self.request)
        Thread(target=self._run, name="reloads", daemon=True).start()

    def stop(self) -> None:
        """Begin no more reloads, and wait for the one under way."""
        with self._lock:
            self._stopped = True

    def _run(self) -> None:
        while self._requested.wait():
            self._requested.clear()
            with self._lock:
                if self._stopped:
                    return
                try:
                    self._reload()
                # Of plug-ins and libraries: the end of this thread would be that of all reloads.
                except Exception:
                    LOG.exception("The reload failed")
