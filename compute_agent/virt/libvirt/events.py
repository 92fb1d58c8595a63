# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What libvirt tells unasked: that guests or devices changed, or that a connection is lost.

libvirt calls back in a native thread. All that happens there is that names are kept and the agent
is woken: no locks, no logs, and no questions to libvirt. Events are hints. What they name is looked
at again, and what they do not tell the audits find out, if later.
"""

import os
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from compute_agent.virt.libvirt.connection import native_threading
from compute_agent.virt.libvirt.session import Link

T = TypeVar("T")
LIFECYCLE = 0
# Besides, of a guest: a device removed (15) or added (19), a block job that may have replaced a
# disk (16), pinning (17), metadata (23), memory that was plugged in or out (26).
MORE_OF_GUESTS = (15, 16, 17, 19, 23, 26)
UPDATE_OF_DEVICE = 1
# A guest whose QEMU died while the daemon was away is still listed for a moment when it is back,
# and no event tells that it is gone then.
SECOND_LOOK = 5.0
PAUSE = 1.0

# In which process a loop runs: a fork does not take threads along. A second one would crash.
_running: dict[Callable[[], object], int] = {}
_starting = threading.Lock()


class Events:
    """Hears what changes on the hosts of its connections, and wakes who looks after them.

    guests holds the uuids of guests that changed, as bytes, and devices the names of node devices.
    Who looks at them takes them away. Both say nothing where hears_guests and hears_devices are
    false.
    """

    def __init__(self, libvirt: ModuleType, wake: Callable[[], None]) -> None:
        self.guests: set[bytes] = set()
        self.devices: set[str] = set()
        self.hears_guests = self.hears_devices = False
        self._libvirt = libvirt
        self._wake = wake
        self._timer: Any = None

    def start(self) -> None:
        """See to it that callbacks are called; connections opened before are never heard of."""
        run_loop(self._libvirt)

    def attach(self, link: Link) -> Callable[[], None]:
        """Register callbacks as far as the hypervisor supports them; return what removes them."""
        subscription = _Subscription(self._libvirt)
        subscription.add(
            lambda: link.registerCloseCallback(self._lost, None),
            lambda _: link.unregisterCloseCallback(),
        )
        of_guests = [
            subscription.add(
                partial(link.domainEventRegisterAny, None, event, self._guest_changed, None),
                link.domainEventDeregisterAny,
            )
            for event in (LIFECYCLE, *MORE_OF_GUESTS)
        ]
        of_devices = [
            subscription.add(
                partial(link.nodeDeviceEventRegisterAny, None, event, self._device_changed, None),
                link.nodeDeviceEventDeregisterAny,
            )
            for event in (LIFECYCLE, UPDATE_OF_DEVICE)
        ]
        # Older daemons do not know all kinds, and other hypervisors have fewer.
        self.hears_guests = of_guests[0]
        self.hears_devices = all(of_devices)
        self._look_again_later()
        return subscription.remove

    def close(self) -> None:
        """Wake nobody any more for the sake of time alone."""
        if self._timer is not None:
            self._timer.cancel()

    def _guest_changed(self, _link: Link, domain: Any, *_details: object) -> None:
        self.guests.add(domain.UUID())
        self._wake()

    def _device_changed(self, _link: Link, device: Any, *_details: object) -> None:
        self.devices.add(device.name())
        self._wake()

    def _lost(self, _link: Link, _reason: int, _opaque: object) -> None:
        self._wake()

    def _look_again_later(self) -> None:
        self.close()
        self._timer = native_threading().Timer(SECOND_LOOK, self._wake)
        self._timer.name, self._timer.daemon = "second look", True
        self._timer.start()


def taken(names: set[T]) -> set[T]:
    """Take what a set holds; what is added to it meanwhile may be left for the next time."""
    found = set()
    while names:
        found.add(names.pop())
    return found


class _Subscription:
    """Callbacks that were registered at one connection, and how to remove them."""

    def __init__(self, libvirt: ModuleType) -> None:
        self._libvirt = libvirt
        self._removals: list[Callable[[], object]] = []

    def add(self, register: Callable[[], Any], deregister: Callable[[Any], object]) -> bool:
        """Tell whether a registration succeeded."""
        try:
            number = register()
        except self._libvirt.libvirtError:
            return False
        self._removals.append(partial(deregister, number))
        return True

    def remove(self) -> None:
        """Remove all callbacks, with a connection that is lost as well."""
        for removal in self._removals:
            # The library has forgotten it before it tells the daemon, which may be gone.
            try:
                removal()
            except self._libvirt.libvirtError:
                continue


def run_loop(libvirt: ModuleType) -> None:
    """Start the loop of this process that calls back, unless it runs."""
    loop = libvirt.virEventRunDefaultImpl
    with _starting:
        if _running.get(loop) == os.getpid():
            return
        libvirt.virEventRegisterDefaultImpl()
        thread = native_threading().Thread(
            target=_run, args=(libvirt,), name="libvirt events", daemon=True
        )
        thread.start()
        _running[loop] = os.getpid()


def _run(libvirt: ModuleType) -> None:
    pause = native_threading().Event()
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            # It should not fail, but if it does it must not do so all the time.
            pause.wait(PAUSE)
