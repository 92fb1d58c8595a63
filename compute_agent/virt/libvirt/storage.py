# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The file system that holds the disks of guests, and what it will have left for new ones."""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from oslo_log import log

from compute_agent.virt.driver import DriverHung, DriverUnavailable
from compute_agent.virt.libvirt.connection import SerialWorker
from compute_agent.virt.libvirt.disks import GIB, Growth, Image, available_least, growth
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.session import Timeouts

LOG = log.getLogger(__name__)
# Returns sizes in bytes by path, as far as they are known.
Sizes = Callable[[Collection[str]], Mapping[str, int]]
MOUNTINFO = Path("/proc/self/mountinfo")
# How the kernel writes blanks and backslashes in a path.
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system; its number changes when it is mounted again."""

    point: str
    number: str = ""


ROOT = Mount("/")


@dataclass(frozen=True, slots=True)
class _FileSystem:
    """A file system with a thread of its own: one that hangs must not hold up others."""

    worker: SerialWorker
    growth: Growth


class Storage:
    """Measures the file system of a directory, and disks on others; any of them may hang."""

    def __init__(
        self, path: Path, timeouts: Timeouts, status: Callable[[str], os.stat_result] = os.stat
    ) -> None:
        self._path = path
        self._timeouts = timeouts
        self._status = status
        self._worker = SerialWorker(f"the file system of {path}", timeouts.slow_answer)
        self._file_systems: dict[Mount, _FileSystem] = {}
        self._logged: frozenset[str] = frozenset()
        self._closed = False

    def look(self, disks: Collection[Disk], sizes: Sizes) -> tuple[int, int]:
        """Return its size and what is left if the disks that are on it fill up, in GiB.

        sizes is asked for the virtual sizes of images that the agent may not open. Disks that
        cannot be looked at do not count; those of a file system that hangs count as they were.
        Raises DriverUnavailable if it is the one of the directory that cannot be looked at.
        """
        try:
            found, device, mounted = self._worker.run(self._measure)
        except OSError as error:
            raise DriverUnavailable(f"the file system of {self._path}: {error}") from error
        images, skipped = self._images(disks, device, mounted)
        skipped |= _complete(images, sizes)
        self._log_skipped(skipped)
        growing = growth(images.values())
        free = found.f_frsize * found.f_bavail
        return found.f_frsize * found.f_blocks // GIB, available_least(free, growing)

    def close(self) -> None:
        self._closed = True
        workers = [each.worker for each in list(self._file_systems.values())]
        for worker in (self._worker, *workers):
            worker.close()

    def _measure(self) -> tuple[os.statvfs_result, int, Mapping[str, Mount]]:
        path = _existing(self._path)
        return os.statvfs(path), path.stat().st_dev, read_mounts()

    def _images(
        self, disks: Iterable[Disk], device: int, mounted: Mapping[str, Mount]
    ) -> tuple[dict[str, Image], dict[str, str]]:
        """Return what is known of the disks on a device, and why nothing is known of others."""
        # What is not mounted any more is dropped, even if a thread hangs there.
        for gone in self._file_systems.keys() - {*mounted.values()}:
            del self._file_systems[gone]
        own = mount_of(str(self._path.absolute()), mounted)
        images: dict[str, Image] = {}
        skipped: dict[str, str] = {}
        for mount, some in _by_mount(disks, mounted).items():
            file_system = self._file_system(mount)
            found = file_system.growth
            # Where most disks are, opening all of them for the first time may take a while.
            timeout = self._timeouts.slow_answer if mount == own else self._timeouts.answer
            try:
                file_system.worker.run(partial(found.look, some, device), timeout)
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
            worker = SerialWorker(f"the file system at {mount.point}", self._timeouts.answer)
            known = _FileSystem(worker, Growth(status=self._status))
            self._file_systems[mount] = known
            # close() may have gone through them just before.
            if self._closed:
                worker.close()
        return known

    def _log_skipped(self, skipped: Mapping[str, str]) -> None:
        """Warn of disks that could not be measured, once for each reason."""
        reasons = {reason: path for path, reason in skipped.items()}
        for reason in sorted(reasons.keys() - self._logged):
            LOG.warning(
                "disk_available_least does not count some disks of guests, such as %s: %s",
                reasons[reason],
                reason,
            )
        self._logged = frozenset(reasons)


def _complete(images: dict[str, Image], sizes: Sizes) -> dict[str, str]:
    """Add the virtual sizes that the agent may not read; return the disks that still lack it."""
    unread = {path: image for path, image in images.items() if image.virtual is None}
    known = sizes(unread) if unread else {}
    images |= {path: replace(unread[path], virtual=size) for path, size in known.items()}
    return dict.fromkeys(unread.keys() - known.keys(), os.strerror(errno.EACCES))


def _by_mount(disks: Iterable[Disk], mounted: Mapping[str, Mount]) -> dict[Mount, list[Disk]]:
    found: dict[Mount, list[Disk]] = {}
    for disk in disks:
        found.setdefault(mount_of(disk.path, mounted), []).append(disk)
    return found


def _existing(path: Path) -> Path:
    """Return the directory or, before it is there, the nearest one that it will be in."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def read_mounts() -> dict[str, Mount]:
    """Return the mounts by their directories; empty where the kernel does not list them."""
    with suppress(OSError):
        return parse_mounts(MOUNTINFO.read_text(errors="surrogateescape"))
    return {}


def parse_mounts(text: str) -> dict[str, Mount]:
    """Return the mounts of a mountinfo; of those on one directory the last one counts."""
    found = {}
    for line in text.splitlines():
        number, _, _, _, point, *_ = line.split(" ")
        point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), point)
        found[point] = Mount(point, number)
    return found


def mount_of(path: str, mounted: Mapping[str, Mount]) -> Mount:
    """Return the mount that a path leads into, without following links, which might hang."""
    while "/" in path and path not in mounted:
        path = path.rpartition("/")[0]
    return mounted.get(path) or mounted.get("/", ROOT)
