# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The file system that holds the disks of guests, and what it will have left for new ones."""

import os
from collections.abc import Collection
from pathlib import Path

from oslo_log import log

from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.libvirt.connection import Lane
from compute_agent.virt.libvirt.disks import GIB, Growth, available_least
from compute_agent.virt.libvirt.domain_xml import Disk

LOG = log.getLogger(__name__)


class Storage:
    """Looks at the file system of a directory, which may be one of a network that hangs."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._lane = Lane(f"the file system of {path}", timeout)
        self._growth = Growth()
        self._said: frozenset[str] = frozenset()

    def look(self, disks: Collection[Disk]) -> tuple[int, int]:
        """Return its size and what is left if these disks fill up, in GiB.

        Raises DriverUnavailable.
        """
        try:
            found, growth = self._lane.run(lambda: self._measure(disks))
        except OSError as error:
            raise DriverUnavailable(f"the file system of {self._path}: {error}") from error
        self._say_skipped()
        free = found.f_frsize * found.f_bavail
        return found.f_frsize * found.f_blocks // GIB, available_least(free, growth)

    def close(self) -> None:
        """Let the look that hangs, and every later one, fail at once."""
        self._lane.close()

    def _measure(self, disks: Collection[Disk]) -> tuple[os.statvfs_result, int]:
        return os.statvfs(_existing(self._path)), self._growth.measure(disks)

    def _say_skipped(self) -> None:
        """Warn of disks that could not be measured, once for each reason."""
        skipped = self._growth.skipped
        reasons = {reason: path for path, reason in skipped.items()}
        for reason in sorted(reasons.keys() - self._said):
            LOG.warning(
                "disk_available_least leaves out disks of guests, such as %s: %s",
                reasons[reason],
                reason,
            )
        self._said = frozenset(reasons)


def _existing(path: Path) -> Path:
    """Return the directory or, before it is there, the nearest one that it will be in."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())
