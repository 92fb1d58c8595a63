# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The virtual sizes of disks as libvirt knows them, for images that the agent may not open.

Of a running guest libvirt asks its QEMU, and one that is stuck never answers. So this has a thread
of its own, and whoever waits for it goes on without.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from compute_agent.virt.driver import DriverHung
from compute_agent.virt.libvirt.connection import Connection, Lane
from compute_agent.virt.libvirt.disks import REMEMBERED
from compute_agent.virt.libvirt.session import Link


class DiskSizes:
    """Asks libvirt for sizes, and again only now and then."""

    def __init__(
        self,
        libvirt: ModuleType,
        connection: Connection,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libvirt = libvirt
        self._connection = connection
        self._lane = Lane("the disks of guests", timeout)
        self._clock = clock
        # Bytes, None where libvirt does not tell either, and when it was asked.
        self._known: dict[str, tuple[int | None, float]] = {}

    def of(self, paths: Collection[str], owners: Mapping[str, bytes]) -> dict[str, int]:
        """Return the sizes in bytes that are known; owners has the uuid of the guest of each disk.

        Raises DriverUnavailable, but not for a guest that is stuck.
        """
        now = self._clock()
        # Lists, for a thread that hung may be adding to it.
        self._known = {path: each for path, each in list(self._known.items()) if path in paths}
        due = {
            path: owners[path]
            for path in paths
            if path not in self._known or now - self._known[path][1] >= REMEMBERED
        }
        if due:
            domains = self._connection.call(lambda link: self._domains(link, due))
            with suppress(DriverHung):
                self._lane.run(lambda: self._ask(domains, now))
        return {path: size for path, (size, _) in list(self._known.items()) if size is not None}

    def close(self) -> None:
        """Let the question that hangs, and every later one, fail at once."""
        self._lane.close()

    def _domains(self, link: Link, owners: Mapping[str, bytes]) -> dict[str, Any]:
        found = {}
        for path, uuid in owners.items():
            try:
                found[path] = link.lookupByUUID(uuid)
            except self._libvirt.libvirtError as error:
                if error.get_error_code() != self._libvirt.VIR_ERR_NO_DOMAIN:
                    raise
        return found

    def _ask(self, domains: Mapping[str, Any], now: float) -> None:
        known = self._known
        for path, domain in domains.items():
            try:
                known[path] = domain.blockInfo(path)[0], now
            except self._libvirt.libvirtError:
                known[path] = None, now
