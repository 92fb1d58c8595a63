# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The file system that holds the disks of guests, and what it will have left for new ones."""

import errno
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from oslo_log import log

from compute_agent.virt.driver import DriverHung, DriverUnavailable
from compute_agent.virt.libvirt import mounts
from compute_agent.virt.libvirt.connection import Lane
from compute_agent.virt.libvirt.disks import GIB, Growth, Image, available_least, growth
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.mounts import Mount
from compute_agent.virt.libvirt.session import Patience

LOG = log.getLogger(__name__)
# Returns sizes in bytes by path, as far as they are known.
Sizes = Callable[[Collection[str]], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class _FileSystem:
    """Where some disks are, with a thread of its own: one that hangs must not hold up others."""

    lane: Lane
    growth: Growth


class Storage:
    """Looks at the file system of a directory, and at those of disks, any of which may hang."""

    def __init__(
        self, path: Path, patience: Patience, status: Callable[[str], os.stat_result] = os.stat
    ) -> None:
        self._path = path
        self._patience = patience
        self._status = status
        self._lane = Lane(f"the file system of {path}", patience.dear_answer)
        self._file_systems: dict[Mount, _FileSystem] = {}
        self._said: frozenset[str] = frozenset()
        self._closed = False

    def look(self, disks: Collection[Disk], sizes: Sizes) -> tuple[int, int]:
        """Return its size and what is left if the disks that are on it fill up, in GiB.

        sizes is asked for the virtual sizes of images that the agent may not open. Disks that
        cannot be looked at do not count; those of a file system that hangs count as they were.
        Raises DriverUnavailable if it is the one of the directory that cannot be looked at.
        """
        try:
            found, device, mounted = self._lane.run(self._measure)
        except OSError as error:
            raise DriverUnavailable(f"the file system of {self._path}: {error}") from error
        images, skipped = self._images(disks, device, mounted)
        skipped |= _complete(images, sizes)
        self._say_skipped(skipped)
        growing = growth(images.values())
        free = found.f_frsize * found.f_bavail
        return found.f_frsize * found.f_blocks // GIB, available_least(free, growing)

    def close(self) -> None:
        """Let the look that hangs, and every later one, fail at once."""
        self._closed = True
        for lane in (self._lane, *(each.lane for each in list(self._file_systems.values()))):
            lane.close()

    def _measure(self) -> tuple[os.statvfs_result, int, Mapping[str, Mount]]:
        path = _existing(self._path)
        return os.statvfs(path), path.stat().st_dev, mounts.read()

    def _images(
        self, disks: Iterable[Disk], device: int, mounted: Mapping[str, Mount]
    ) -> tuple[dict[str, Image], dict[str, str]]:
        """Return what is known of the disks on a device, and why nothing is known of others."""
        self._forget({*mounted.values()})
        own = mounts.of(str(self._path.absolute()), mounted)
        images: dict[str, Image] = {}
        skipped: dict[str, str] = {}
        for mount, some in _by_mount(disks, mounted).items():
            file_system = self._file_system(mount)
            found = file_system.growth
            # Where most disks are, opening all of them for the first time may take a while.
            timeout = self._patience.dear_answer if mount == own else self._patience.answer
            try:
                file_system.lane.run(partial(found.look, some, device), timeout)
            except DriverHung as error:
                skipped[found.at] = str(error)
            else:
                skipped |= found.skipped
            here = {disk.path for disk in some}
            images |= {path: image for path, image in found.images.items() if path in here}
        return images, skipped

    def _file_system(self, mount: Mount) -> _FileSystem:
        known = self._file_systems.get(mount)
        if known is None:
            lane = Lane(f"the file system at {mount.point}", self._patience.answer)
            known = _FileSystem(lane, Growth(status=self._status))
            self._file_systems[mount] = known
            # close() may have gone through them just before.
            if self._closed:
                lane.close()
        return known

    def _forget(self, mounted: Collection[Mount]) -> None:
        """Drop what is not mounted any more, whoever still hangs there."""
        for mount in self._file_systems.keys() - mounted:
            del self._file_systems[mount]

    def _say_skipped(self, skipped: Mapping[str, str]) -> None:
        """Warn of disks that could not be measured, once for each reason."""
        reasons = {reason: path for path, reason in skipped.items()}
        for reason in sorted(reasons.keys() - self._said):
            LOG.warning(
                "disk_available_least leaves out disks of guests, such as %s: %s",
                reasons[reason],
                reason,
            )
        self._said = frozenset(reasons)


def _complete(images: dict[str, Image], sizes: Sizes) -> dict[str, str]:
    """Add the virtual sizes that the agent may not read; return the disks that still lack it."""
    unread = {path: image for path, image in images.items() if image.virtual is None}
    told = sizes(unread) if unread else {}
    images |= {path: replace(unread[path], virtual=size) for path, size in told.items()}
    return dict.fromkeys(unread.keys() - told.keys(), os.strerror(errno.EACCES))


def _by_mount(disks: Iterable[Disk], mounted: Mapping[str, Mount]) -> dict[Mount, list[Disk]]:
    found: dict[Mount, list[Disk]] = {}
    for disk in disks:
        found.setdefault(mounts.of(disk.path, mounted), []).append(disk)
    return found


def _existing(path: Path) -> Path:
    """Return the directory or, before it is there, the nearest one that it will be in."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())
