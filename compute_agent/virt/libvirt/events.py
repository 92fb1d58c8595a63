# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Events of libvirt: guests or devices changed, or a connection is lost.

libvirt calls back in a native thread, which only stores names and wakes the agent: no locks, no
logs, no calls of libvirt. Events are hints: what they name is read again, and audits find the rest.
"""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from compute_agent.virt.libvirt.session import Link, native_threading

T = TypeVar("T")
LIFECYCLE = 0
# Besides, of a guest: a device removed (15) or added (19), a block job that may have replaced a
# disk (16), pinning (17), metadata (23), memory that was plugged in or out (26).
MORE_OF_GUESTS = (15, 16, 17, 19, 23, 26)
UPDATE_OF_DEVICE = 1
# A guest whose QEMU died while the daemon was down is listed shortly after its restart, and no
# event reports its end.
SECOND_AUDIT = 5.0
PAUSE = 1.0

# In which process a loop runs: a fork does not take threads along. A second one would crash.
_running: dict[Callable[[], object], int] = {}
_starting = threading.Lock()


class Events:
    """Receives the events of connections, and wakes the agent.

    guests holds the uuids of guests that changed, as bytes, and devices the names of node devices,
    until their reader removes them. hears_guests and hears_devices say whether there are events;
    those of devices are not asked for unless listens_to_devices.
    """

    def __init__(
        self, libvirt: ModuleType, wake: Callable[[], None], listens_to_devices: bool = True
    ) -> None:
        self.guests: set[bytes] = set()
        self.devices: set[str] = set()
        self.hears_guests = self.hears_devices = False
        self._libvirt = libvirt
        self._wake = wake
        self._listens_to_devices = listens_to_devices
        self._timer: Any = None

    def start(self) -> None:
        """Start the event loop of this process, unless it runs.

        Connections opened before get no callbacks.
        """
        loop = self._libvirt.virEventRunDefaultImpl
        with _starting:
            if _running.get(loop) == os.getpid():
                return
            self._libvirt.virEventRegisterDefaultImpl()
            thread = native_threading().Thread(
                target=_run, args=(self._libvirt,), name="libvirt events", daemon=True
            )
            thread.start()
            _running[loop] = os.getpid()

    def attach(self, link: Link) -> Callable[[], None]:
        """Register callbacks as far as the hypervisor supports them; return what removes them."""
        removals = ExitStack()
        self._add(
            removals,
            lambda: link.registerCloseCallback(lambda *_: self._wake(), None),
            lambda _: link.unregisterCloseCallback(),
        )
        of_guests = [
            self._add(
                removals,
                partial(link.domainEventRegisterAny, None, event, self._guest_changed, None),
                link.domainEventDeregisterAny,
            )
            for event in (LIFECYCLE, *MORE_OF_GUESTS)
        ]
        of_devices = [
            self._add(
                removals,
                partial(link.nodeDeviceEventRegisterAny, None, event, self._device_changed, None),
                link.nodeDeviceEventDeregisterAny,
            )
            for event in (LIFECYCLE, UPDATE_OF_DEVICE)
            if self._listens_to_devices
        ]
        self.hears_guests = of_guests[0]
        self.hears_devices = self._listens_to_devices and all(of_devices)
        self._audit_again_later()
        return removals.close

    def _add(
        self, removals: ExitStack, register: Callable[[], Any], deregister: Callable[[Any], object]
    ) -> bool:
        """Register a callback until removals are closed; return whether that succeeded."""
        try:
            number = register()
        # Older daemons do not know all kinds, and other hypervisors have fewer.
        except self._libvirt.libvirtError:
            return False
        # The library removes it before it calls the daemon, which may be gone.
        removals.enter_context(suppress(self._libvirt.libvirtError))
        removals.callback(deregister, number)
        return True

    def close(self) -> None:
        """Cancel the pending second audit."""
        if self._timer is not None:
            self._timer.cancel()

    def _guest_changed(self, _link: Link, domain: Any, *_details: object) -> None:
        self.guests.add(domain.UUID())
        self._wake()

    def _device_changed(self, _link: Link, device: Any, *_details: object) -> None:
        self.devices.add(device.name())
        self._wake()

    def _audit_again_later(self) -> None:
        self.close()
        self._timer = native_threading().Timer(SECOND_AUDIT, self._wake)
        self._timer.name, self._timer.daemon = "second audit", True
        self._timer.start()


def drain(names: set[T]) -> set[T]:
    """Remove and return what a set holds; what is added meanwhile may stay in it."""
    found = set()
    while names:
        found.add(names.pop())
    return found


def _run(libvirt: ModuleType) -> None:
    pause = native_threading().Event()
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            # Should it fail, it must not do so in a busy loop.
            pause.wait(PAUSE)
