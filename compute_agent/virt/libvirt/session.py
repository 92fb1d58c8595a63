# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A connection to libvirt: on which machine, and opened, used, lost and opened again."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")

# A connection or a domain of libvirt-python, which ships no types.
Link = Any
LOCALHOST = {"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds of calls that libvirt answers at once, and of calls that take long.

    With a keepalive_interval libvirt is probed that often; the connection is lost when
    keepalive_count probes in a row have no answer.
    """

    answer: float
    slow_answer: float
    keepalive_interval: int = 0
    keepalive_count: int = 0


def native_threading() -> ModuleType:
    """Return the threading module whose threads are the kernel's, under eventlet too."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        native: ModuleType = patcher.original("threading")
        return native
    return threading


class Session:
    """A connection that one native thread at a time uses, opened when that is needed.

    attach registers callbacks at a new connection and returns a function that removes them.
    """

    def __init__(
        self,
        libvirt: ModuleType,
        uri: str,
        timeouts: Timeouts,
        attach: Callable[[Link], Callable[[], None]],
    ) -> None:
        self.opening = object()
        # Set when no caller waits for its call any more.
        self.abandoned = False
        self._libvirt = libvirt
        self._uri = uri
        self._timeouts = timeouts
        self._attach = attach
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
            if self.abandoned or not self._alive():
                self.drop()

    def drop(self) -> None:
        """Close the connection, if there is one."""
        link, self._link = self._link, None
        detach, self._detach = self._detach, None
        # A connection stays open as long as it has callbacks.
        if detach is not None:
            detach()
        if link is not None:
            with suppress(self._libvirt.libvirtError):
                link.close()

    def _open(self) -> None:
        self._link = link = self._libvirt.openReadOnly(self._uri)
        self.opening = object()
        if self._timeouts.keepalive_interval:
            # Not every kind of connection can, and most of those that cannot need not.
            with suppress(self._libvirt.libvirtError):
                link.setKeepAlive(self._timeouts.keepalive_interval, self._timeouts.keepalive_count)
        self._detach = self._attach(link)

    def _alive(self) -> bool:
        try:
            return self._link is not None and bool(self._link.isAlive() == 1)
        except self._libvirt.libvirtError:
            return False


def ask(libvirt: ModuleType, link: Link, question: Callable[[], T], otherwise: T) -> T:
    """Return question(), or otherwise where this kind of hypervisor does not support it."""
    try:
        return question()
    except libvirt.libvirtError:
        if link.isAlive() != 1:
            raise
        return otherwise


@contextmanager
def skipping_gone(libvirt: ModuleType) -> Iterator[None]:
    """Suppress the error of a domain that does not exist any more."""
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise


def is_local(uri: str, host: str, my_ip: str) -> bool:
    """Return whether a URI names no machine or certainly this one, without a name server.

    host and my_ip are options of this machine. The former may be any text, so it
    counts only if it begins as the machine's own name does.
    """
    named = (urlsplit(uri).hostname or "").rstrip(".")
    if not named or named in LOCALHOST or _is_loopback(named):
        return True
    own = socket.gethostname().lower()
    short = own.partition(".")[0]
    names = {own, short, my_ip.lower()}
    if host.lower().partition(".")[0] == short:
        names.add(host.lower())
    return named in names


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
