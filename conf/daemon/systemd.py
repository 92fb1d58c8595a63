# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Notify systemd when the service is ready, alive and stopping, as sd_notify(3) does.

oslo.service would send READY=1 before the service has started, so NOTIFY_SOCKET is removed from its
environment.
"""

import socket
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager

from conf.daemon.periodic_thread import PeriodicThread


class Notifier:
    """Sends states to systemd, if it is there."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        self._watchdog = int(environ.get("WATCHDOG_USEC", "0") or 0) / 1_000_000
        self._feeding: PeriodicThread | None = None

    def ready(self, status: str) -> None:
        """Report that requests are served."""
        self._send(f"READY=1\nSTATUS={status}")

    @contextmanager
    def reloading(self, status: str) -> Iterator[None]:
        """Report that the block reloads the configuration, and then that requests are served."""
        self._send("RELOADING=1")
        try:
            yield
        finally:
            self.ready(status)

    def stopping(self) -> None:
        """Report that the service drains and ends."""
        if self._feeding:
            self._feeding.stop(0)
        self._send("STOPPING=1")

    def watch(self, progressing: Callable[[], bool]) -> None:
        """Feed the watchdog, if the unit has one, as long as progressing() returns true."""
        if self._address and self._watchdog:

            def feed() -> None:
                if progressing():
                    self._send("WATCHDOG=1")

            self._feeding = PeriodicThread("watchdog", feed, self._watchdog / 3)
            self._feeding.start()

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # A leading @ stands for the abstract namespace.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            try:
                connection.connect(address)
                connection.sendall(message.encode())
            except OSError:
                # The service goes on without its manager.
                return
