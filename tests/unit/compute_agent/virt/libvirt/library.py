# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for libvirt-python whose daemon dies, hangs and comes back as a test wants."""

from collections.abc import Callable
from threading import Event
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from tests.fixtures.agent import sample

NO_DOMAIN, OPERATION_INVALID, OPERATION_TIMEOUT, NO_SUPPORT, NO_METADATA = 42, 55, 68, 3, 80


class Error(Exception):
    """libvirtError, as far as it is looked at."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self._code = code

    def get_error_code(self) -> int | None:
        return self._code


class Link:
    """One connection to the daemon; it dies with it for good."""

    def __init__(self, daemon: "Daemon") -> None:
        self._daemon = daemon
        self.dead = False
        self.closed = False

    def isAlive(self) -> int:
        return int(not self.dead)

    def close(self) -> int:
        self.closed = True
        return 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._daemon.answers:
            raise AttributeError(name)
        return lambda *arguments: self._daemon.answer(self, name, arguments)


class Daemon:
    """Answers by the name of the call: a value, an error to raise, or a function to ask."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = dict(answers)
        self.links: list[Link] = []
        self.calls: list[str] = []
        self.running = True
        self.awake = Event()
        self.awake.set()

    @property
    def library(self) -> ModuleType:
        names = SimpleNamespace(
            openReadOnly=self.open,
            libvirtError=Error,
            VIR_ERR_NO_DOMAIN=NO_DOMAIN,
            VIR_ERR_OPERATION_INVALID=OPERATION_INVALID,
            VIR_ERR_OPERATION_TIMEOUT=OPERATION_TIMEOUT,
            VIR_ERR_NO_SUPPORT=NO_SUPPORT,
            VIR_ERR_NO_DOMAIN_METADATA=NO_METADATA,
            VIR_DOMAIN_METADATA_ELEMENT=2,
        )
        return cast(ModuleType, names)

    def open(self, uri: str) -> Link:
        self.awake.wait()
        if not self.running:
            raise Error(38, "Failed to connect socket to '...': Connection refused")
        self.links.append(Link(self))
        return self.links[-1]

    def answer(self, link: Link, name: str, arguments: tuple[Any, ...]) -> Any:
        self.calls.append(name)
        self.awake.wait()
        if link.dead:
            raise Error(1, "internal error: client socket is closed")
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer(*arguments) if callable(answer) else answer

    def die(self) -> None:
        """Break all connections, as a killed daemon does."""
        self.running = False
        for link in self.links:
            link.dead = True

    def freeze(self) -> None:
        self.awake.clear()

    def thaw(self) -> None:
        self.awake.set()


def a_host(**changes: Any) -> Daemon:
    """Return a daemon that answers what was captured on a real host."""
    captured = sample("nodeinfo-qemu-system.json")["calls"]
    answers = {
        "getHostname": captured["getHostname"],
        "getType": captured["getType"],
        "getVersion": captured["getVersion"],
        "getInfo": captured["getInfo"],
        "getCPUMap": tuple(captured["getCPUMap"]),
        "getMemoryStats": captured["getMemoryStats(-1)"],
        "getCapabilities": sample("capabilities-qemu-system.xml"),
        "baselineCPU": Error(NO_SUPPORT, "this function is not supported"),
        "listAllDomains": [],
    }
    return Daemon(**answers | changes)
