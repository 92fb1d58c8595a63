# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A service that ends the daemon if no process can start it.

oslo.service forks a worker that cannot start again and again, each time with a traceback. If other
workers have started it goes on to do so: what the new one lacks may come back.
"""

import mmap
import os
import signal
from collections.abc import Callable
from typing import Any

from oslo_log import log
from oslo_service.service import ServiceBase

from conf.daemon.reloads import Reloads
from conf.daemon.state_logger import one_line

LOG = log.getLogger(__name__)
# Bytes of the memory that all processes of a daemon share: one has started, none could start.
_SERVED, _LOST = range(2)


class GuardedService(ServiceBase):  # type: ignore[misc]  # oslo.service ships no types
    """A service for oslo.service, made in the parent process before any fork.

    Errors of start() are logged in one line if they are among refusals, else with a traceback.
    read_again reads the files and returns why they were rejected, "" if they were not.
    """

    def __init__(
        self, service: Any, read_again: Callable[[], str], *refusals: type[Exception]
    ) -> None:
        self._service = service
        self._read_again = read_again
        self._refusals = refusals
        self.reloads = Reloads(self._reload)
        self._parent = os.getpid()
        self._shared = mmap.mmap(-1, 2)
        # One byte for all processes: whoever reads it is the first that could not start.
        self._first_loss, writer = os.pipe()
        os.write(writer, b"1")
        os.close(writer)

    @property
    def lost(self) -> bool:
        """Whether no process could start the service."""
        return bool(self._shared[_LOST])

    def start(self) -> None:
        """Start the service; otherwise end the daemon and raise SystemExit."""
        failure: Exception | None = None
        try:
            # A last fork may come before the signal.
            if not self.lost:
                self._service.start()
        except Exception as error:
            failure = error
        if self.lost:
            raise SystemExit(1)
        if failure is None:
            self._shared[_SERVED] = 1
            self.reloads.start()
            return
        is_lost = not self._shared[_SERVED]
        # All workers fail alike; the first of them logs it and ends the daemon. oslo.service
        # handles one signal only: a second one would kill the daemon without a status.
        if is_lost and not os.read(self._first_loss, 1):
            raise SystemExit(1)
        unforeseen = None if isinstance(failure, self._refusals) else failure
        LOG.error("Cannot start: %s", one_line(failure), exc_info=unforeseen)
        if is_lost:
            self._shared[_LOST] = 1
            if os.getpid() != self._parent:
                os.kill(self._parent, signal.SIGTERM)
        raise SystemExit(1)

    def stop(self) -> None:
        """Stop the service, after a reload that is under way."""
        self.reloads.stop()
        self._service.stop()

    def wait(self) -> None:
        self._service.wait()

    def reset(self) -> None:
        """Do nothing: oslo.service resets only the parent of workers, which reads the files."""

    def _reload(self) -> None:
        if problem := self._read_again():
            LOG.error("Reload rejected, keeping the current configuration: %s", problem)
        else:
            self._service.reset()
