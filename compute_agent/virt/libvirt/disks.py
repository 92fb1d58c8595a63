# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How large the disks of guests are, and how much they may still grow.

Thin images are larger than what they use of the file system. Growth runs in a native thread: it
takes no locks, writes no logs and waits for nothing but the file system.
"""

import math
import os

# os.open may be that of green threads, which native ones must not call.
import posix
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from compute_agent.virt.driver import DriverHung
from compute_agent.virt.libvirt.connection import Connection, SerialWorker
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.session import Link, skipping_gone

GIB = 1024**3
# What st_blocks counts, whatever the block size of the file system.
BLOCK = 512
# Seconds for which a virtual size is cached. A resize is rare, and the times of a file do not
# show it: they change with every write of its guest.
REMEMBERED = 300.0
MAGIC = b"QFI\xfb"
VERSIONS = {"qcow": (1,), "qcow2": (2, 3)}
# Magic, version and virtual size, which all versions have in the same places.
_HEADER = struct.Struct(">4sI16xQ")


@dataclass(frozen=True, slots=True)
class Image:
    """What was found of an image: device and inode, its sizes in bytes and when it was opened.

    virtual is None if the agent may not open it.
    """

    file: tuple[int, int]
    virtual: int | None
    allocated: int
    opened: float = -math.inf

    @property
    def growth(self) -> int:
        # Metadata, snapshots and preallocated space can make a file larger than its disk.
        return max((self.virtual or 0) - self.allocated, 0)


class Growth:
    """Measures images, and opens them only now and then."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        status: Callable[[str], os.stat_result] = os.stat,
    ) -> None:
        # What the last look that came to an end has found, and why it left out a disk, by path.
        self.images: Mapping[str, Image] = {}
        self.skipped: Mapping[str, str] = {}
        # The disk that was measured last: the one that hangs, if one does.
        self.at = ""
        self._clock = clock
        self._status = status

    def look(self, disks: Iterable[Disk], device: int) -> None:
        """Measure those of these disks that are on a device, by st_dev.

        Disks that are gone or cannot be measured are left out.
        """
        images: dict[str, Image] = {}
        skipped: dict[str, str] = {}
        for disk in disks:
            self.at = disk.path
            found = self._look_at(disk, device)
            if isinstance(found, Image):
                images[disk.path] = found
            elif found:
                skipped[disk.path] = found
        self.images, self.skipped = images, skipped

    def _look_at(self, disk: Disk, device: int) -> Image | str | None:
        """Return an image, why it cannot be measured, or None if it is elsewhere."""
        try:
            status = self._status(disk.path)
            # Opening anything else might block, or rewind a tape.
            if not stat.S_ISREG(status.st_mode):
                return "no regular file"
            return self._measured(disk, status) if status.st_dev == device else None
        except OSError as error:
            return error.strerror or str(error)
        # A path that cannot be one, or a header that makes no sense.
        except ValueError as error:
            return str(error)

    def _measured(self, disk: Disk, status: os.stat_result) -> Image:
        file, allocated = (status.st_dev, status.st_ino), status.st_blocks * BLOCK
        if disk.format == "raw":
            return Image(file, status.st_size, allocated)
        known, now = self.images.get(disk.path), self._clock()
        if known is not None and known.file == file and now - known.opened < REMEMBERED:
            return Image(file, known.virtual, allocated, known.opened)
        try:
            return Image(file, _virtual_size(disk), allocated, now)
        except PermissionError:
            return Image(file, None, allocated)


def _virtual_size(disk: Disk) -> int:
    """Return the size in bytes in the header of an image; raises OSError or ValueError."""
    if disk.format not in VERSIONS:
        raise ValueError(f"the size of {disk.format or 'unnamed'} images is not known here")
    descriptor = posix.open(disk.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        header = os.pread(descriptor, _HEADER.size, 0)
    finally:
        os.close(descriptor)
    if len(header) == _HEADER.size:
        magic, version, size = _HEADER.unpack(header)
        if magic == MAGIC and version in VERSIONS[disk.format]:
            return int(size)
    raise ValueError(f"no {disk.format} image")


def growth(images: Iterable[Image]) -> int:
    """Return how many bytes images may still take of the file system.

    Of an image on top of others only the top grows, and a file that several guests share grows
    once.
    """
    growths = {image.file: image.growth for image in images}
    return sum(growths.values())


def available_least(free: int, growth: int) -> int:
    """Return disk_available_least in GiB, from bytes: what is free less what disks may still take.

    It is cut off toward zero as in Nova, and negative where full disks would not fit.
    """
    left = free - growth
    whole = abs(left) // GIB
    return whole if left >= 0 else -whole


class DiskSizes:
    """Caches the sizes that libvirt reports, for images that the agent may not open.

    Of a running guest libvirt asks its QEMU, and one that is stuck never answers. So this has a
    thread of its own, and the audit goes on without its answer.
    """

    def __init__(
        self,
        libvirt: ModuleType,
        connection: Connection,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._libvirt = libvirt
        self._connection = connection
        self._worker = SerialWorker("the disks of guests", timeout)
        self._clock = clock
        # Bytes, None where libvirt does not know either, and when it was asked.
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
                self._worker.run(lambda: self._ask(domains, now))
        return {path: size for path, (size, _) in list(self._known.items()) if size is not None}

    def close(self) -> None:
        self._worker.close()

    def _domains(self, link: Link, owners: Mapping[str, bytes]) -> dict[str, Any]:
        found = {}
        for path, uuid in owners.items():
            with skipping_gone(self._libvirt):
                found[path] = link.lookupByUUID(uuid)
        return found

    def _ask(self, domains: Mapping[str, Any], now: float) -> None:
        known = self._known
        for path, domain in domains.items():
            try:
                known[path] = domain.blockInfo(path)[0], now
            except self._libvirt.libvirtError:
                known[path] = None, now
