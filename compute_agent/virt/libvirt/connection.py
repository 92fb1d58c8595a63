# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A connection to libvirt that cannot hang the agent.

libvirt is C code: a call into it gives nobody a chance to say stop, and under eventlet it holds up
all green threads. So every call, opening the connection included, runs in a thread of the kernel,
and the caller waits for its answer no longer than a deadline.
"""

import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Generic, TypeVar

from compute_agent.virt.driver import DriverHung, DriverMisconfigured, DriverUnavailable

T = TypeVar("T")

# A connection or a domain of libvirt-python, which ships no types.
Link = Any


def library() -> ModuleType:
    """Return libvirt-python; raises DriverMisconfigured, with the cure, where it is missing."""
    try:
        libvirt = importlib.import_module("libvirt")
    except ImportError as error:
        raise DriverMisconfigured(
            f"the libvirt driver needs libvirt-python ({error}): pip install 'berthmaster[libvirt]'"
            ", for which pip needs libvirt-dev, pkg-config and a C compiler"
        ) from error
    # Without a handler the library prints every error to standard error by itself.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    return libvirt


class Lane:
    """Runs one call at a time in a native thread.

    While a call hangs, the next ones fail at once, so there is never more than one stuck thread.
    The work must keep off locks and logs: under eventlet those belong to green threads.
    """

    def __init__(self, subject: str, timeout: float) -> None:
        self._subject = subject
        self._timeout = timeout
        self._turn = threading.Lock()
        self._call: _Call[Any] | None = None
        self._closed = False

    def run(self, work: Callable[[], T]) -> T:
        """Return work(), or raise what it raises; DriverHung when that takes too long."""
        with self._turn:
            self._refuse()
            self._call = call = _Call(work)
            # close() may have looked for a call to interrupt just before there was one.
            if self._closed:
                call.interrupt()
            call.wait(self._timeout)
            self._refuse()
            return call.result()

    def close(self) -> None:
        """Let the call that is being waited for, and every later one, fail at once."""
        self._closed = True
        if self._call is not None:
            self._call.interrupt()

    def _refuse(self) -> None:
        if self._closed:
            raise DriverUnavailable(f"the agent is leaving {self._subject}")
        if self._call is not None and not self._call.finished:
            raise DriverHung(self._subject, self._timeout)


class _Call(Generic[T]):
    """One call in a native thread of its own, and the wait for its end."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.finished = False
        self._work = work
        self._value: T
        self._error: BaseException | None = None
        # The end of the call is the end of this pipe: a socket can be waited for with a deadline
        # by green threads and by native ones, and either kind can be told of it by the other.
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs.detach()
        _native_threading().Thread(target=self._run, name="libvirt", daemon=True).start()

    def wait(self, timeout: float) -> None:
        """Wait until the call has ended, it was interrupted or the time is over."""
        self._ours.settimeout(timeout)
        with suppress(TimeoutError):
            self._ours.recv(1)
        self._ours.close()

    def interrupt(self) -> None:
        """End the wait, from another thread."""
        # Not connected any more, if the wait has just ended by itself.
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    def result(self) -> T:
        """Return the value of a finished call, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._work()
        # It is raised again where the answer is waited for.
        except BaseException as error:
            self._error = error
        self.finished = True
        os.close(self._theirs)


class Connection:
    """A read-only connection that is opened when it is needed, and again when it was lost."""

    def __init__(self, libvirt: ModuleType, uri: str, timeout: float) -> None:
        # Counts up with every new connection: facts of an older one have to be asked for again.
        self.openings = 0
        self._libvirt = libvirt
        self._uri = uri
        self._lane = Lane(f"libvirt at {uri}", timeout)
        self._link: Link = None
        self._suspect = False

    def call(self, work: Callable[[Link], T]) -> T:
        """Return work(connection), run in a native thread.

        Raises DriverUnavailable for every error of libvirt that work lets through. Whether the
        connection survived it is asked of the connection: error codes do not tell reliably.
        """
        try:
            return self._lane.run(partial(self._use, work))
        except DriverHung:
            self._suspect = True
            raise
        except self._libvirt.libvirtError as error:
            raise DriverUnavailable(self._explain(error)) from error

    def close(self) -> None:
        """Let the running call and all later ones fail at once.

        The connection itself goes with the process: closing it asks the daemon, which may hang.
        """
        self._lane.close()

    def _use(self, work: Callable[[Link], T]) -> T:
        if self._suspect:
            self._drop()
        if self._link is None:
            self._link = self._libvirt.openReadOnly(self._uri)
            self.openings += 1
        try:
            return work(self._link)
        except self._libvirt.libvirtError:
            if not self._alive():
                self._drop()
            raise

    def _alive(self) -> bool:
        try:
            return bool(self._link.isAlive() == 1)
        except self._libvirt.libvirtError:
            return False

    def _drop(self) -> None:
        link, self._link, self._suspect = self._link, None, False
        if link is not None:
            with suppress(self._libvirt.libvirtError):
                link.close()

    def _explain(self, error: Any) -> str:
        text = " ".join(str(error).split())
        if self._link is None:
            return f"no connection to libvirt at {self._uri}: {text}; does its daemon run?"
        return f"libvirt at {self._uri} failed: {text}"


def _native_threading() -> ModuleType:
    """Return the threading module whose threads are the kernel's, under eventlet too."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        native: ModuleType = patcher.original("threading")
        return native
    return threading
