# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Disk is that of the file system where guests are, less what thin images may still take."""

import errno
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import pytest

from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.libvirt import disks
from compute_agent.virt.libvirt import storage as module
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.session import Timeouts
from compute_agent.virt.libvirt.storage import Storage
from tests.fixtures.daemons.process import PATIENCE, wait_until

GIB = 2**30
TIMEOUTS = Timeouts(answer=PATIENCE, slow_answer=PATIENCE)
SHORT = Timeouts(answer=0.1, slow_answer=2)


def sparse(path: Path, size: int) -> Disk:
    with path.open("wb") as file:
        file.truncate(size)
    return Disk(str(path), "raw")


def test_disk_is_that_of_the_file_system_where_guests_will_be(tmp_path: Path) -> None:
    size, free = Storage(tmp_path / "not" / "yet", TIMEOUTS).look([], nothing)
    found = os.statvfs(tmp_path)
    assert size == found.f_frsize * found.f_blocks // GIB > 0
    assert 0 <= free <= size
    assert not (tmp_path / "not").exists()


def test_what_thin_disks_may_still_take_is_not_left(tmp_path: Path) -> None:
    storage = Storage(tmp_path, TIMEOUTS)
    size, free = storage.look([], nothing)
    thin = sparse(tmp_path / "thin", (free + 10) * GIB)
    assert storage.look([thin], nothing)[0] == size
    assert -11 <= storage.look([thin], nothing)[1] <= -8
    (tmp_path / "thin").unlink()
    assert free - 2 <= storage.look([thin], nothing)[1] <= free + 2


def nothing(_paths: Collection[str]) -> dict[str, int]:
    """Return what a libvirt that knows of no disks reports."""
    return {}


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A directory on another file system than that of the test's own files."""
    with TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def forbidden(disk: Disk) -> int:
    raise PermissionError(errno.EACCES, "Permission denied", disk.path)


class Stuck:
    """os.stat, which does not come to an end for what is below a directory, as of a dead NFS."""

    def __init__(self, below: Path) -> None:
        self._below = str(below)
        self.answers = Event()
        # Whether another file system is there by now.
        self.moved = False

    def __call__(self, path: str) -> os.stat_result:
        if path.startswith(self._below) and not self.moved:
            self.answers.wait(PATIENCE)
        return os.stat(path)


def test_disks_on_another_file_system_are_charged_to_that(tmp_path: Path, elsewhere: Path) -> None:
    storage = Storage(tmp_path, TIMEOUTS)
    _, free = storage.look([], nothing)
    volume = sparse(elsewhere / "volume", 131072 * GIB)
    assert free - 2 <= storage.look([volume], nothing)[1] <= free + 2
    assert storage.look([sparse(tmp_path / "thin", 10 * GIB), volume], nothing)[1] <= free - 8


def test_a_disk_on_a_file_system_that_hangs_holds_up_no_other(
    tmp_path: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = Stuck(elsewhere)
    storage = Storage(tmp_path, Timeouts(answer=0.1, slow_answer=PATIENCE), stuck)
    _, free = storage.look([], nothing)
    thin, volume = sparse(tmp_path / "thin", 10 * GIB), Disk(f"{elsewhere}/volume", "raw")
    for _ in range(2):
        assert free - 12 <= storage.look([volume, thin], nothing)[1] <= free - 8
    (warning,) = [each.getMessage() for each in caplog.records]
    assert warning == (
        f"disk_available_least does not count some disks of guests, such as {volume.path}: "
        "the file system at /dev/shm has not answered for 0.1 s"
    )
    stuck.answers.set()
    # It answers that there is no such file.
    assert wait_until(
        lambda: bool(storage.look([volume, thin], nothing)) and len(caplog.records) == 2
    )
    assert caplog.records[1].getMessage().endswith("volume: No such file or directory")


def test_disks_of_a_file_system_that_hangs_count_as_they_were(tmp_path: Path) -> None:
    stuck = Stuck(tmp_path)
    stuck.answers.set()
    storage = Storage(tmp_path, SHORT, stuck)
    _, free = storage.look([], nothing)
    thin = sparse(tmp_path / "thin", 10 * GIB)
    assert free - 12 <= storage.look([thin], nothing)[1] <= free - 8
    stuck.answers.clear()
    assert free - 12 <= storage.look([thin], nothing)[1] <= free - 8
    assert free - 2 <= storage.look([], nothing)[1] <= free + 2
    stuck.answers.set()


def test_what_is_mounted_anew_is_looked_at_although_the_old_one_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOUNTINFO", tmp_path / "mountinfo")
    line = f"{{}} 1 0:33 / {tmp_path} rw - nfs server:/a rw\n"
    (tmp_path / "mountinfo").write_text(line.format(40))
    stuck = Stuck(tmp_path)
    storage = Storage(tmp_path, SHORT, stuck)
    thin = sparse(tmp_path / "thin", 10 * GIB)
    free = storage.look([thin], nothing)[1]
    stuck.moved = True
    assert free - 2 <= storage.look([thin], nothing)[1] <= free + 2
    (tmp_path / "mountinfo").write_text(line.format(41))
    assert free - 12 <= storage.look([thin], nothing)[1] <= free - 8
    stuck.answers.set()


def test_disks_that_cannot_be_measured_are_logged_once_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Storage(tmp_path, TIMEOUTS)
    gone = [Disk(str(tmp_path / name), "raw") for name in "ab"]
    odd = Disk(str(tmp_path), "raw")

    def logged(some: Collection[Disk]) -> list[str]:
        caplog.clear()
        storage.look(some, nothing)
        return [each.getMessage() for each in caplog.records]

    (text,) = logged(gone)
    assert text.startswith("disk_available_least does not count some disks of guests, such as ")
    assert text.endswith("b: No such file or directory")
    assert logged(gone[:1]) == []
    (text,) = logged([*gone, odd])
    assert text.endswith(f"{tmp_path}: no regular file")
    assert logged([]) == []
    assert len(logged(gone)) == 1


def test_sizes_that_may_not_be_read_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Root may read all files, whatever their mode.
    monkeypatch.setattr(disks, "_virtual_size", forbidden)
    storage = Storage(tmp_path, TIMEOUTS)
    image = Disk(sparse(tmp_path / "image", GIB).path, "qcow2")
    other = Disk(sparse(tmp_path / "other", GIB).path, "qcow2")
    asked: list[set[str]] = []

    def sizes(paths: Collection[str]) -> dict[str, int]:
        asked.append({*paths})
        return {image.path: 10 * GIB}

    _, free = storage.look([sparse(tmp_path / "raw", 0)], sizes)
    assert asked == []
    assert free - 12 <= storage.look([image], sizes)[1] <= free - 8
    assert asked == [{image.path}]
    assert caplog.records == []
    assert free - 12 <= storage.look([image, other], sizes)[1] <= free - 8
    assert caplog.records[0].getMessage().endswith("other: Permission denied")


def test_a_file_system_that_fails_is_an_error_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_path: Path) -> os.statvfs_result:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "statvfs", fails)
    with pytest.raises(DriverUnavailable, match=f"file system of {tmp_path}: .*Stale file handle"):
        Storage(tmp_path, TIMEOUTS).look([], nothing)


def test_after_the_end_it_is_not_looked_at(tmp_path: Path) -> None:
    storage = Storage(tmp_path, TIMEOUTS)
    storage.close()
    with pytest.raises(DriverUnavailable, match=r"^the file system of .* is closed"):
        storage.look([], nothing)


def test_the_end_is_that_of_all_file_systems(tmp_path: Path) -> None:
    stuck = Stuck(tmp_path)
    storage = Storage(tmp_path, TIMEOUTS, stuck)
    ends: list[Exception] = []

    def look() -> None:
        try:
            storage.look([Disk(f"{tmp_path}/a", "raw")], nothing)
        except DriverUnavailable as error:
            ends.append(error)

    thread = Thread(target=look)
    thread.start()
    storage.close()
    thread.join(PATIENCE / 2)
    stuck.answers.set()
    assert "the agent is stopping" in str(ends[0])


def test_the_nearest_existing_directory(tmp_path: Path) -> None:
    assert module._existing(tmp_path / "a" / "b") == tmp_path
    assert module._existing(tmp_path) == tmp_path
    assert module._existing(Path("surely/not/here")) == Path.cwd()
