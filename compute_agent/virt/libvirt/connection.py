# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A connection to libvirt that cannot hang the agent.

libvirt is C code: a call into it cannot be interrupted, and under eventlet it holds up
all green threads. So every call, opening the connection included, runs in a thread of the kernel,
and the caller waits for its answer no longer than a deadline.
"""

import importlib
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Generic, TypeVar

from compute_agent.virt.driver import DriverHung, DriverMisconfigured, DriverUnavailable
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.session import Link, Session, Timeouts, native_threading
from conf.daemon.state_logger import one_line

T = TypeVar("T")

# A call that has hung for this many times its deadline is given up.
GIVE_UP_AFTER = 10


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


class SerialWorker:
    """Runs one call at a time in a native thread.

    While a call hangs, the next ones fail at once, so that no more than one thread is stuck, but
    for calls that were given up or abandoned.
    The work must keep off locks and logs: under eventlet those belong to green threads.
    """

    def __init__(self, subject: str, timeout: float) -> None:
        self._subject = subject
        self._timeout = timeout
        self._turn = threading.Lock()
        self._call: _Call[Any] | None = None
        self._abandoned: list[_Call[Any]] = []
        self._closed = False

    def run(self, work: Callable[[], T], timeout: float | None = None) -> T:
        """Return work(), or raise what it raises; DriverHung when that takes too long."""
        with self._turn:
            self._refuse()
            self._call = call = _Call(work, self._timeout if timeout is None else timeout)
            # close() may have looked for a call to interrupt just before there was one.
            if self._closed:
                call.cancel()
            else:
                call.start()
            call.wait()
            self._refuse()
            return call.result()

    def give_up(self) -> bool:
        """Abandon a call that has hung for too long; return whether there was one.

        Its thread stays, so each of them makes the next one wait twice as long: there are few of
        them even after a year.
        """
        self._abandoned = [call for call in self._abandoned if not call.finished]
        give_up_after = GIVE_UP_AFTER * 2 ** len(self._abandoned)
        call = self._call
        if call is None or call.finished:
            return False
        if time.monotonic() - call.began < give_up_after * call.timeout:
            return False
        self.abandon()
        return True

    def abandon(self) -> None:
        """Allow another call although the last one hangs."""
        self._abandoned = [call for call in self._abandoned if not call.finished]
        if self._call is not None:
            self._abandoned.append(self._call)
            self._call = None

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Fail the running call and all later ones at once.

        Unless a call hangs, last is called in a thread of its own, without waiting for it.
        """
        self._closed = True
        call = self._call
        if call is not None:
            call.interrupt()
        if last is not None and (call is None or call.finished):
            _start(last)

    def _refuse(self) -> None:
        if self._closed:
            raise DriverUnavailable(f"{self._subject} is closed: the agent is stopping")
        if self._call is not None and not self._call.finished:
            raise DriverHung(self._subject, self._call.timeout)


class _Call(Generic[T]):
    """One call in a native thread of its own, and the wait for its end."""

    def __init__(self, work: Callable[[], T], timeout: float) -> None:
        self.timeout = timeout
        self.finished = False
        self._work = work
        self.began = time.monotonic()
        self._value: T
        self._error: BaseException | None = None
        # A socket is closed at the end of the call: green threads and native ones can wait for it
        # with a deadline, and either kind can wake the other.
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs.detach()

    def start(self) -> None:
        try:
            _start(self._run)
        except RuntimeError as error:
            self.finished = True
            self.cancel()
            self._ours.close()
            raise DriverUnavailable(f"a call cannot be made: {error}") from error

    def cancel(self) -> None:
        """End the wait without a start."""
        os.close(self._theirs)

    def wait(self) -> None:
        """Wait until the call has ended, it was interrupted or the time is over."""
        self._ours.settimeout(self.timeout)
        with suppress(TimeoutError):
            self._ours.recv(1)
        self._ours.close()

    def interrupt(self) -> None:
        """End the wait, from another thread."""
        # Not connected any more, if the wait has just ended by itself.
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    def result(self) -> T:
        """Return the value of a finished call, or raise its error; once.

        A connection is not closed as long as something holds on to its domains.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        value = self._value
        del self._value
        return value

    def _run(self) -> None:
        try:
            self._value = self._work()
        # It is raised again where the answer is waited for.
        except BaseException as error:
            self._error = error
        self.finished = True
        os.close(self._theirs)


def _start(work: Callable[[], object]) -> None:
    native_threading().Thread(target=work, name="libvirt", daemon=True).start()


class Connection:
    """A read-only connection that is opened when it is needed, and again when it was lost."""

    def __init__(self, libvirt: ModuleType, uri: str, timeouts: Timeouts, events: Events) -> None:
        self._libvirt = libvirt
        self._uri = uri
        self._timeouts = timeouts
        self._events = events
        self._worker = SerialWorker(f"libvirt at {uri}", timeouts.answer)
        self._new_session = partial(Session, libvirt, uri, timeouts, events.attach)
        self._session = self._new_session()

    @property
    def opening(self) -> object:
        """Identify the connection: what was read through an older one is to be read again."""
        return self._session.opening

    def call(self, work: Callable[[Link], T], slow: bool = False) -> T:
        """Return work(connection), run in a native thread.

        A slow call is one for which libvirt may have to run other programs. Raises
        DriverUnavailable for every error of libvirt that work lets through. Whether the connection
        survived is asked of the connection: error codes are not reliable.
        """
        self._events.start()
        if self._worker.give_up():
            self._session.abandoned = True
            self._session = self._new_session()
        timeout = self._timeouts.slow_answer if slow else self._timeouts.answer
        try:
            return self._worker.run(partial(self._session.use, work), timeout)
        except self._libvirt.libvirtError as error:
            raise DriverUnavailable(self._explain(error)) from error

    def close(self) -> None:
        """Fail the running call and all later ones at once.

        The connection is closed in the background, for that asks the daemon, which may hang.
        """
        self._worker.close(self._session.drop)

    def _explain(self, error: Exception) -> str:
        text = one_line(error)
        if self._session.is_open:
            return f"libvirt at {self._uri} failed: {text}"
        return f"no connection to libvirt at {self._uri}: {text}; does its daemon run?"
