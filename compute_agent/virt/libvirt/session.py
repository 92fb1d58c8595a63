# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A connection to libvirt as it is opened, used, lost and opened again, in native threads."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# A connection or a domain of libvirt-python, which ships no types.
Link = Any


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds libvirt may take for what it knows, and for what it has to find out.

    With a keepalive_interval it is also asked for a sign of life that often. The connection is lost
    when keepalive_count of them in a row have stayed away.
    """

    answer: float
    dear_answer: float
    keepalive_interval: int = 0
    keepalive_count: int = 0


class Listener(Protocol):
    """Who is called back by connections."""

    def start(self) -> None:
        """Get ready; called before every call of a connection."""

    def attach(self, link: Link) -> Callable[[], None]:
        """Listen to a new connection, in a native thread; return what ends that."""


class Session:
    """A connection that one native thread at a time uses, opened when that is needed."""

    def __init__(
        self, libvirt: ModuleType, uri: str, patience: Patience, listener: Listener
    ) -> None:
        self.opening = object()
        # Nobody waits for its call any more.
        self.left = False
        self._libvirt = libvirt
        self._uri = uri
        self._patience = patience
        self._listener = listener
        self._link: Link = None
        self._detach: Callable[[], None] | None = None

    @property
    def is_open(self) -> bool:
        return self._link is not None

    def use(self, work: Callable[[Link], T]) -> T:
        """Return work(connection), on a new connection if there is no living one."""
        try:
            if not self._alive():
                self.drop()
                self._open()
            return work(self._link)
        finally:
            if self.left or not self._alive():
                self.drop()

    def drop(self) -> None:
        """Close the connection, if there is one."""
        link, self._link = self._link, None
        detach, self._detach = self._detach, None
        # A connection stays open as long as it has somebody to call back.
        if detach is not None:
            detach()
        if link is not None:
            with suppress(self._libvirt.libvirtError):
                link.close()

    def _open(self) -> None:
        self._link = link = self._libvirt.openReadOnly(self._uri)
        self.opening = object()
        if self._patience.keepalive_interval:
            # Not every kind of connection can, and most of those that cannot need not.
            with suppress(self._libvirt.libvirtError):
                link.setKeepAlive(self._patience.keepalive_interval, self._patience.keepalive_count)
        self._detach = self._listener.attach(link)

    def _alive(self) -> bool:
        try:
            return self._link is not None and bool(self._link.isAlive() == 1)
        except self._libvirt.libvirtError:
            return False


def asked(libvirt: ModuleType, link: Link, question: Callable[[], T], otherwise: T) -> T:
    """Return question(), or otherwise where this kind of hypervisor has no answer to it."""
    try:
        return question()
    except libvirt.libvirtError:
        if link.isAlive() != 1:
            raise
        return otherwise
