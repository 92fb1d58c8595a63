# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for libvirt-python whose daemon dies, hangs and comes back as a test wants."""

from collections.abc import Callable
from threading import Event
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.fixtures import agent
from tests.fixtures.agent import sample
from tests.unit.compute_agent.virt.libvirt.domain import a_domain

NO_DOMAIN, OPERATION_TIMEOUT, NO_SUPPORT = 42, 68, 3


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
        self.keepalive: tuple[int, int] | None = None
        # Whom to call back, by the number of the registration: what of, which event, the function.
        self.callbacks: dict[int, tuple[str, int, Callable[..., None]]] = {}

    def isAlive(self) -> int:
        return int(not self.dead)

    def close(self) -> int:
        # libvirt keeps the socket open as long as there is somebody to call back.
        self.closed = not self.callbacks
        return len(self.callbacks)

    def setKeepAlive(self, interval: int, count: int) -> int:
        if not self._daemon.hears:
            raise Error(NO_SUPPORT, "this function is not supported")
        self.keepalive = (interval, count)
        return 0

    def domainEventRegisterAny(self, _: Any, event: int, callback: Any, opaque: Any) -> int:
        return self._register("guests", event, callback)

    def nodeDeviceEventRegisterAny(self, _: Any, event: int, callback: Any, opaque: Any) -> int:
        return self._register("devices", event, callback)

    def registerCloseCallback(self, callback: Any, opaque: Any) -> int:
        self._register("close", 0, callback)
        return 0

    def domainEventDeregisterAny(self, number: int) -> None:
        del self.callbacks[number]
        if self.dead:
            raise Error(1, "internal error: client socket is closed")

    nodeDeviceEventDeregisterAny = domainEventDeregisterAny

    def unregisterCloseCallback(self) -> int:
        for number in [n for n, (what, *_) in self.callbacks.items() if what == "close"]:
            del self.callbacks[number]
        return 0

    def _register(self, what: str, event: int, callback: Any) -> int:
        if what not in self._daemon.hears or event > self._daemon.newest_event:
            raise Error(NO_SUPPORT, "this function is not supported")
        number = len(self.callbacks)
        self.callbacks[number] = what, event, callback
        return number

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._daemon.answers:
            raise AttributeError(name)
        return lambda *arguments: self._daemon.answer(self, name, arguments)


class Domain:
    """A guest whose description is a text, an error to raise, or a function to ask."""

    def __init__(self, number: int, state: int = 1, xml: Any = None) -> None:
        self.uuid = UUID(agent.UUID.format(number))
        self.number = number
        self.state_and_reason: Any = [state, 1]
        self.xml = a_domain().replace(agent.UUID.format(1), str(self.uuid)) if xml is None else xml
        self.reads = 0
        # [state, KiB at most, KiB now, vCPUs, time], or an error.
        self.figures: Any = Error(1, "no figures either")
        self.link: Any = None
        # Bytes of a disk by its path: a size, an error to raise, or a function to ask.
        self.disk_sizes: dict[str, Any] = {}

    def UUID(self) -> bytes:
        return self.uuid.bytes

    def UUIDString(self) -> str:
        return str(self.uuid)

    def name(self) -> str:
        return f"guest{self.number}"

    def ID(self) -> int:
        return self.number

    def info(self) -> list[int]:
        if isinstance(self.figures, Exception):
            raise self.figures
        return list(self.figures)

    def connect(self) -> Any:
        return self.link

    def state(self) -> list[int]:
        if isinstance(self.state_and_reason, Exception):
            raise self.state_and_reason
        return list(self.state_and_reason)

    def blockInfo(self, path: str) -> list[int]:
        found = self.disk_sizes.get(path, Error(8, f"invalid path {path}"))
        found = found() if callable(found) else found
        if isinstance(found, Exception):
            raise found
        return [found, 0, 0]

    def XMLDesc(self, _flags: int) -> str:
        self.reads += 1
        found = self.xml() if callable(self.xml) else self.xml
        if isinstance(found, Exception):
            raise found
        return str(found)


class Daemon:
    """Answers by the name of the call: a value, an error to raise, or a function to ask."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = dict(answers)
        self.links: list[Link] = []
        self.calls: list[str] = []
        self.running = True
        self.awake = Event()
        self.awake.set()
        self.loops = 0
        # What it tells of unasked, and which kinds of events it knows.
        self.hears = {"guests", "devices", "close"}
        self.newest_event = 26

    @property
    def library(self) -> ModuleType:
        names = SimpleNamespace(
            openReadOnly=self.open,
            libvirtError=Error,
            virEventRegisterDefaultImpl=self._register_loop,
            virEventRunDefaultImpl=self._run_loop,
            VIR_ERR_NO_DOMAIN=NO_DOMAIN,
            VIR_ERR_OPERATION_TIMEOUT=OPERATION_TIMEOUT,
            VIR_ERR_NO_SUPPORT=NO_SUPPORT,
            VIR_DOMAIN_STATS_STATE=1,
            VIR_CONNECT_LIST_DOMAINS_ACTIVE=1,
            VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV=2,
            VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET=16,
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
        self.send_event("close", 0, 1)

    def host(self, *domains: Domain) -> None:
        """Let these be all guests."""

        def states(_stats: int, _flags: int) -> list[tuple[Domain, dict[str, int]]]:
            for domain in domains:
                domain.link = self.links[-1]
            names = ("state.state", "state.reason")
            return [
                (each, dict(zip(names, each.state_and_reason, strict=True))) for each in domains
            ]

        def find(uuid: bytes) -> Domain:
            for domain in domains:
                if domain.UUID() == uuid:
                    return domain
            raise Error(NO_DOMAIN, "Domain not found")

        self.answers["getAllDomainStats"] = states
        self.answers["listAllDomains"] = lambda _: list(domains)
        self.answers["lookupByUUID"] = find

    def send_event(self, what: str, event: int, subject: object) -> None:
        """Call back whoever registered for an event."""
        for link in self.links:
            for registered, number, callback in list(link.callbacks.values()):
                if (registered, number) == (what, event):
                    callback(link, subject, *([0, 0] if what != "close" else []), None)

    def _register_loop(self) -> None:
        self.loops += 1

    def _run_loop(self) -> None:
        # Tests call back by themselves.
        Event().wait()

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
        "getAllDomainStats": [],
        "listAllDevices": [],
        "getCPUStats": captured["getCPUStats(-1)"],
    }
    return Daemon(**answers | changes)
