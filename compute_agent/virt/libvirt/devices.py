# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The PCI devices of a libvirt host, looked at again when something was plugged in or out."""

import time
from collections.abc import Callable
from types import ModuleType

from compute_agent.virt.driver import PciDevice
from compute_agent.virt.libvirt import nodedevs
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.events import Events, taken

# All of them are read anew after so many seconds, whatever was heard.
REREAD_AFTER = 3600.0


class Devices:
    """What is known of the devices of a host."""

    def __init__(
        self,
        libvirt: ModuleType,
        connection: Connection,
        events: Events,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libvirt = libvirt
        self._connection = connection
        self._events = events
        self._clock = clock
        self._known: nodedevs.Known = {}
        self._found: tuple[PciDevice, ...] = ()
        self._changed: set[str] = set()
        self._opening: object = None
        self._due = clock()

    def look(self) -> tuple[PciDevice, ...]:
        """Return all devices, asking only if they may have changed; raises DriverUnavailable."""
        self._changed |= taken(self._events.devices)
        opening, now = self._connection.opening, self._clock()
        anew = opening is not self._opening or now >= self._due
        if not anew and self._events.hears_devices and not self._changed:
            return self._found
        # A copy: a call that hangs may go on with it after everybody has left.
        known = {name: part for name, part in self._known.items() if name not in self._changed}
        if anew:
            known.clear()
            self._due = now + REREAD_AFTER
        self._found = self._connection.call(lambda link: nodedevs.read(link, self._libvirt, known))
        self._known, self._opening = known, opening
        self._changed.clear()
        return self._found
