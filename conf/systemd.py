# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tell systemd when the service is ready, alive and stopping.

The protocol is that of sd_notify(3): datagrams to the socket named in NOTIFY_SOCKET. oslo.service
would send READY=1 before the service has started, so the variable is taken away from it.
"""

import socket
from collections.abc import Callable, MutableMapping
from threading import Event, Thread


class Notifier:
    """Sends states to systemd; does nothing where there is none."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        self._watchdog = int(environ.get("WATCHDOG_USEC", "0") or 0) / 1_000_000
        self._stopped = Event()

    def ready(self, status: str) -> None:
        """Say that requests are served from now on."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that the configuration is being read again; ready() ends this state."""
        self._send("RELOADING=1")

    def stopping(self) -> None:
        """Say that the service drains and ends."""
        self._stopped.set()
        self._send("STOPPING=1")

    def watch(self, progressing: Callable[[], bool]) -> None:
        """Feed the watchdog, if the unit has one, for as long as progressing() says so."""
        if self._address and self._watchdog:
            Thread(target=self._feed, args=(progressing,), name="watchdog", daemon=True).start()

    def _feed(self, progressing: Callable[[], bool]) -> None:
        while not self._stopped.wait(self._watchdog / 3):
            if progressing():
                self._send("WATCHDOG=1")

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
                # A manager that went away is no reason to stop serving.
                return
