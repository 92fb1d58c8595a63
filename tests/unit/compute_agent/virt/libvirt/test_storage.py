# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Disk is that of the file system where guests are, less what thin images may still take."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest

from compute_agent.virt.driver import DriverUnavailable
from compute_agent.virt.libvirt import storage as module
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.storage import Storage

GIB = 2**30
LONG = 20


def sparse(path: Path, size: int) -> Disk:
    with path.open("wb") as file:
        file.truncate(size)
    return Disk(str(path), "raw")


def test_disk_is_that_of_the_file_system_where_guests_will_be(tmp_path: Path) -> None:
    size, free = Storage(tmp_path / "not" / "yet", LONG).look([])
    found = os.statvfs(tmp_path)
    assert size == found.f_frsize * found.f_blocks // GIB > 0
    assert 0 <= free <= size
    assert not (tmp_path / "not").exists()


def test_what_thin_disks_may_still_take_is_not_left(tmp_path: Path) -> None:
    storage = Storage(tmp_path, LONG)
    size, free = storage.look([])
    thin = sparse(tmp_path / "thin", (free + 10) * GIB)
    assert storage.look([thin])[0] == size
    assert -11 <= storage.look([thin])[1] <= -8
    (tmp_path / "thin").unlink()
    assert free - 2 <= storage.look([thin])[1] <= free + 2


def test_disks_that_cannot_be_measured_are_told_once_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Storage(tmp_path, LONG)
    gone = [Disk(str(tmp_path / name), "raw") for name in "ab"]
    odd = Disk(str(tmp_path), "raw")

    def told(disks: Collection[Disk]) -> list[str]:
        caplog.clear()
        storage.look(disks)
        return [each.getMessage() for each in caplog.records]

    (text,) = told(gone)
    assert text.startswith("disk_available_least leaves out disks of guests, such as ")
    assert text.endswith("b: No such file or directory")
    assert told(gone[:1]) == []
    (text,) = told([*gone, odd])
    assert text.endswith(f"{tmp_path}: no regular file")
    assert told([]) == []
    assert len(told(gone)) == 1


def test_a_file_system_that_fails_is_an_error_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_path: Path) -> os.statvfs_result:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "statvfs", fails)
    with pytest.raises(DriverUnavailable, match=f"file system of {tmp_path}: .*Stale file handle"):
        Storage(tmp_path, LONG).look([])


def test_after_the_end_it_is_not_looked_at(tmp_path: Path) -> None:
    storage = Storage(tmp_path, LONG)
    storage.close()
    with pytest.raises(DriverUnavailable, match="leaving the file system of"):
        storage.look([])


def test_the_nearest_existing_directory(tmp_path: Path) -> None:
    assert module._existing(tmp_path / "a" / "b") == tmp_path
    assert module._existing(tmp_path) == tmp_path
    assert module._existing(Path("surely/not/here")) == Path.cwd()
