# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A service whose failure to start ends the daemon, in whatever process it starts.

Left alone, oslo.service ends a daemon of one process, but forks a worker that cannot start again
and again, each time with a traceback. A worker that takes the place of another one is let try: the
others work, and what it lacks may come back.
"""

import mmap
import os
import signal
from typing import Any

from oslo_log import log
from oslo_service.service import ServiceBase

LOG = log.getLogger(__name__)
# Bytes of the memory that all processes of a daemon share.
_SERVED, _LOST = range(2)


class GuardedService(ServiceBase):  # type: ignore[misc]  # oslo.service ships no types
    """A service as it is given to oslo.service, made in the parent of whatever is forked.

    What start() raises is told in one line if it is one of refusals, else with its traceback.
    """

    def __init__(self, service: Any, *refusals: type[Exception]) -> None:
        self._service = service
        self._refusals = refusals
        self._parent = os.getpid()
        self._shared = mmap.mmap(-1, 2)

    @property
    def lost(self) -> bool:
        """Whether no process could start."""
        return bool(self._shared[_LOST])

    def start(self) -> None:
        """Start the service or end the daemon; raises SystemExit where it does not start."""
        # A last fork may come before the signal.
        failure = None if self.lost else self._failure()
        if failure is None and not self.lost:
            self._shared[_SERVED] = 1
            return
        # All workers meet the same; one of them says so and has the daemon ended.
        if not self.lost:
            unforeseen = None if isinstance(failure, self._refusals) else failure
            text = " ".join(str(failure).split()) or repr(failure)
            LOG.error("Cannot start: %s", text, exc_info=unforeseen)
            self._end()
        raise SystemExit(1)

    def stop(self) -> None:
        """Stop the service."""
        self._service.stop()

    def wait(self) -> None:
        """Return when the service has stopped."""
        self._service.wait()

    def reset(self) -> None:
        """Let the service take over what changed."""
        self._service.reset()

    def _failure(self) -> Exception | None:
        """Start the service; return what went wrong."""
        try:
            self._service.start()
        except Exception as error:
            return error
        return None

    def _end(self) -> None:
        if not self._shared[_SERVED]:
            self._shared[_LOST] = 1
            if os.getpid() != self._parent:
                os.kill(self._parent, signal.SIGTERM)
