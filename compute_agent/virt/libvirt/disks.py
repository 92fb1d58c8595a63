# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How much the disks of guests may still grow.

Thin images promise more than they take of the file system, and a file system on which they all
fill up has to have room for the rest. This runs in a native thread: it takes no locks, writes no
logs and waits for nothing but the file system.
"""

import math
import os

# os.open may be that of green threads, which native ones must not call.
import posix
import stat
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from compute_agent.virt.libvirt.domain_xml import Disk

GIB = 1024**3
# What st_blocks counts, whatever the block size of the file system.
BLOCK = 512
# For so many seconds the virtual size of an image is taken for what it was. A resize is rare, while
# the times of a file tell nothing: they change with every write of its guest.
REMEMBERED = 300.0
# The least that the column, an INT, has room for.
LEAST = -(2**31)
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
        # The disk that was looked at last, which is the one that hangs if one does.
        self.at = ""
        self._clock = clock
        self._status = status

    def look(self, disks: Iterable[Disk], device: int) -> None:
        """Measure those of these disks that are on a device, by st_dev.

        What is elsewhere takes nothing of it. Disks that are gone or that cannot be measured are
        left out.
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
            # Opening anything else might wait for somebody, or rewind a tape.
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
    """Return the size in bytes that the header of an image tells; raises OSError or ValueError."""
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

    It is cut off toward zero as in Nova. Less than zero is a promise that cannot be kept if all
    disks fill up; one absurd image must not make a figure that the database refuses.
    """
    left = free - growth
    whole = abs(left) // GIB
    return max(whole if left >= 0 else -whole, LEAST)
