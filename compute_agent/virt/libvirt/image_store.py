# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The size of an image store that is not a file system: an LVM volume group or a Ceph pool."""

import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from tempfile import TemporaryFile
from typing import IO, Any

from compute_agent.virt.driver import (
    DriverAnswerUnusable,
    DriverHung,
    DriverMisconfigured,
    DriverUnavailable,
)
from compute_agent.virt.libvirt.disks import GIB
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.storage import Sizes

# Seconds for which a size is cached: a cluster should not be asked at each event.
REMEMBERED = 60.0
# Seconds to wait for the end of a program that was killed.
KILL_TIMEOUT = 1.0
# Seconds between two checks of a running program.
PAUSE = 0.05


class ImageStore(ABC):
    """Asks a program for the size of a store, with a deadline, as Nova's driver does."""

    # What the store is called in messages; the program with its arguments, and its package.
    subject: str
    command: list[str]
    package: str

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._known: tuple[int, int] | None = None
        self._asked = 0.0
        self._closed = False

    @abstractmethod
    def parse(self, text: str) -> tuple[int, int]:
        """Return size and what is free in bytes, from what it printed; raises ValueError."""

    def look(self, disks: Collection[Disk], sizes: Sizes) -> tuple[int, int]:
        """Return the size of the store and what is free there, in GiB; files take nothing of it.

        Raises DriverUnavailable or DriverAnswerUnusable.
        """
        self._refuse()
        now = self._clock()
        if self._known is None or now - self._asked >= REMEMBERED:
            self._known = None
            self._known, self._asked = self._ask(), now
        size, free = self._known
        return size // GIB, free // GIB

    def close(self) -> None:
        self._closed = True

    def _ask(self) -> tuple[int, int]:
        text = self._output()
        try:
            return self.parse(text)
        except (ValueError, TypeError, LookupError) as error:
            raise DriverAnswerUnusable(" ".join(self.command), str(error)) from error

    def _output(self) -> str:
        # One that cannot be killed waits for a device that is gone.
        if self._process is not None and self._process.poll() is None:
            raise DriverHung(self.subject, self._timeout)
        with TemporaryFile() as output, TemporaryFile() as errors:
            process = self._process = self._start(output, errors)
            if not _ends(process, self._timeout, lambda: self._closed):
                process.kill()
                _ends(process, KILL_TIMEOUT)
                self._refuse()
                raise DriverHung(self.subject, self._timeout)
            if process.returncode:
                raise self._failed(_text(errors) or f"exit code {process.returncode}")
            return _text(output)

    def _refuse(self) -> None:
        if self._closed:
            raise DriverUnavailable(f"{self.subject} is closed: the agent is stopping")

    def _start(self, output: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
        null, env = subprocess.DEVNULL, os.environ | {"LC_ALL": "C"}
        try:
            return subprocess.Popen(self.command, stdin=null, stdout=output, stderr=errors, env=env)
        except OSError as error:
            why = f"{error.strerror or error}; the program is in the package {self.package}"
            raise self._failed(why) from error

    def _failed(self, why: str) -> DriverUnavailable:
        return DriverUnavailable(
            f"{self.subject}: {self.command[0]} failed as user {os.geteuid()}: {why}"
        )


def _ends(
    process: subprocess.Popen[bytes], seconds: float, given_up: Callable[[], bool] = lambda: False
) -> bool:
    """Wait for the end of a program; return whether it came in time.

    Popen can do it too, but under eventlet its TimeoutExpired is not the one of subprocess.
    """
    end = time.monotonic() + seconds
    while process.poll() is None:
        if given_up() or time.monotonic() >= end:
            return False
        time.sleep(PAUSE)
    return True


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return " ".join(file.read().decode(errors="replace").split())


class VolumeGroup(ImageStore):
    """A volume group of LVM."""

    package = "lvm2"

    def __init__(self, name: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.subject = f"volume group {name} ([libvirt] images_volume_group)"
        # Without locks, for which it would have to write, and without the device mapper.
        form = ["--noheadings", "--nosuffix", "--separator", "|", "--units", "b"]
        self.command = ["vgs", "--readonly", *form, "-o", "vg_size,vg_free", name]

    def parse(self, text: str) -> tuple[int, int]:
        size, free = text.split("|")
        return int(size), int(free)


class CephPool(ImageStore):
    """A pool of Ceph. As in Nova its size is that of the cluster, of which each host may fill all.

    What is free is what the pool may still take, replicas left out.
    """

    package = "ceph-common"

    def __init__(self, name: str, user: str | None, ceph_conf: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.subject = f"pool {name} of Ceph ([libvirt] images_rbd_pool)"
        self.command = ["ceph", "df", "--format=json"]
        self.command += ["--id", user] if user else []
        self.command += ["--conf", ceph_conf] if ceph_conf else []
        self._name = name

    def parse(self, text: str) -> tuple[int, int]:
        found = json.loads(text)
        pools = {pool["name"]: pool["stats"] for pool in found["pools"]}
        if self._name not in pools:
            raise ValueError(f"there is no pool {self._name} in the answer of Ceph")
        return int(found["stats"]["total_bytes"]), int(pools[self._name]["max_avail"])


def configured(conf: Any) -> ImageStore | None:
    """Return where [libvirt] images_type puts images, None where they are files.

    Raises DriverMisconfigured.
    """
    options = conf.libvirt
    if options.images_type == "lvm":
        if not options.images_volume_group:
            raise DriverMisconfigured(
                "option [libvirt] images_type = 'lvm' needs [libvirt] images_volume_group"
            )
        return VolumeGroup(options.images_volume_group, options.call_timeout)
    if options.images_type == "rbd":
        pool, ceph_conf = options.images_rbd_pool, options.images_rbd_ceph_conf
        return CephPool(pool, options.rbd_user, ceph_conf, options.call_timeout)
    return None
