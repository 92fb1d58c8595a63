# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Thin disks are counted with what they may still take of the file system."""

import errno
import os
import posix
import struct
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute_agent.virt.libvirt.disks import GIB, REMEMBERED, Growth, available_least
from compute_agent.virt.libvirt.disks import growth as still_takes
from compute_agent.virt.libvirt.domain_xml import Disk

MIB = 2**20


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def image(path: Path, virtual: int, data: int = 0, version: int = 3) -> Disk:
    """Make an image with the header of qcow2 and some bytes that are really there."""
    path.write_bytes(header(virtual, version))
    allocate(path, data)
    return Disk(str(path), "qcow" if version == 1 else "qcow2")


def header(virtual: int, version: int = 3, magic: bytes = b"QFI\xfb") -> bytes:
    # Name and length of the file beneath, and the size of clusters, stand between.
    return struct.pack(">4sIQIIQ", magic, version, 4096, 30, 16, virtual) + bytes(72)


def raw(path: Path, size: int, data: int = 0) -> Disk:
    """Make a sparse file of this size."""
    path.touch()
    os.truncate(path, size)
    allocate(path, data)
    return Disk(str(path), "raw")


def allocate(path: Path, data: int) -> None:
    """Let at least so many bytes of a file be allocated."""
    if data:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, data)


def measure(growth: Growth, disks: Sequence[Disk]) -> int:
    """Return what disks may still take of the file system of the last one that is there."""
    there = [Path(disk.path) for disk in disks if os.path.exists(disk.path)]
    growth.look(disks, there[-1].stat().st_dev if there else 0)
    return still_takes(growth.images.values())


def forbidden(path: str, _flags: int) -> int:
    raise PermissionError(errno.EACCES, "Permission denied", path)


def allocated(disk: Disk) -> int:
    return os.stat(disk.path).st_blocks * 512


def test_the_worked_example() -> None:
    free = round(77.2 * GIB)
    growth = (40 - 6) * GIB + (100 - 20) * GIB
    assert available_least(free, growth) == -36
    # Newton, which did not know of raw images, had 43.
    assert available_least(free, (40 - 6) * GIB) == 43


def test_the_worked_example_as_files(tmp_path: Path) -> None:
    # With a MiB for each GiB.
    disks = [image(tmp_path / "a", 40 * MIB, 6 * MIB), raw(tmp_path / "b", 100 * MIB, 20 * MIB)]
    growth = Growth()
    assert measure(growth, disks) == 140 * MIB - sum(map(allocated, disks))
    assert measure(growth, disks) == pytest.approx(114 * MIB, abs=MIB / 8)
    assert growth.skipped == {}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_all_versions_of_the_header_are_read(tmp_path: Path, version: int) -> None:
    disk = image(tmp_path / "a", 5 * GIB, version=version)
    assert measure(Growth(), [disk]) == 5 * GIB - allocated(disk)


def test_a_file_that_is_larger_than_its_disk_does_not_shrink(tmp_path: Path) -> None:
    thick = raw(tmp_path / "b", MIB)
    # Allocated beyond the end, as some ways to preallocate do.
    with open(thick.path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * MIB)
    os.truncate(thick.path, 4 * MIB)
    disks = [image(tmp_path / "a", MIB, 4 * MIB), thick, raw(tmp_path / "c", 3 * MIB)]
    assert measure(Growth(), disks) == 3 * MIB - allocated(disks[2])


def test_no_disks_do_not_grow() -> None:
    assert measure(Growth(), []) == 0


def test_a_file_that_guests_share_grows_once(tmp_path: Path) -> None:
    disk = image(tmp_path / "a", GIB)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.link(tmp_path / "a", tmp_path / "other")
    shared = [
        disk,
        disk,
        Disk(str(tmp_path / "link"), "qcow2"),
        Disk(str(tmp_path / "other"), "qcow2"),
    ]
    assert measure(Growth(), shared) == GIB - allocated(disk)


def test_an_image_is_opened_only_now_and_then(tmp_path: Path) -> None:
    clock = Clock()
    growth = Growth(clock)
    disk = image(tmp_path / "a", GIB)
    measure(growth, [disk])
    with open(disk.path, "r+b") as file:
        file.write(header(2 * GIB))
    clock.now += REMEMBERED - 1
    assert measure(growth, [disk]) == GIB - allocated(disk)
    # What it takes is looked at always.
    allocate(tmp_path / "a", 8 * MIB)
    assert measure(growth, [disk]) == GIB - allocated(disk)
    clock.now += 1
    assert measure(growth, [disk]) == 2 * GIB - allocated(disk)
    assert measure(growth, [disk]) == 2 * GIB - allocated(disk)


def test_another_file_of_the_same_name_is_opened_at_once(tmp_path: Path) -> None:
    growth = Growth(Clock())
    disk = image(tmp_path / "a", GIB)
    measure(growth, [disk])
    image(tmp_path / "b", 3 * GIB)
    (tmp_path / "b").rename(tmp_path / "a")
    assert measure(growth, [disk]) == 3 * GIB - allocated(disk)


def test_a_disk_that_was_raw_is_opened(tmp_path: Path) -> None:
    growth = Growth(Clock())
    disk = image(tmp_path / "a", GIB)
    measure(growth, [Disk(disk.path, "raw")])
    assert measure(growth, [disk]) == GIB - allocated(disk)


def test_a_disk_that_was_away_is_opened_again(tmp_path: Path) -> None:
    growth = Growth(Clock())
    disk = image(tmp_path / "a", GIB)
    measure(growth, [disk])
    measure(growth, [])
    (tmp_path / "a").write_bytes(header(2 * GIB))
    assert measure(growth, [disk]) == 2 * GIB - allocated(disk)


def test_what_cannot_be_measured_is_left_out_with_its_reason(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no image, but longer than the header of one")
    (tmp_path / "future").write_bytes(header(GIB, version=4))
    (tmp_path / "old").write_bytes(header(GIB, version=1))
    (tmp_path / "vmdk").touch()
    (tmp_path / "nothing").touch()
    # The words depend on the release of Python.
    with pytest.raises(ValueError, match="embedded null") as no_path:
        (tmp_path / "\0").stat()
    reasons = {
        "missing": "No such file or directory",
        "": "no regular file",
        "fifo": "no regular file",
        "loop": "Too many levels of symbolic links",
        "empty/a": "Not a directory",
        "x" * 300: "File name too long",
        "\0": str(no_path.value),
        "empty": "no qcow2 image",
        "text": "no qcow2 image",
        "future": "no qcow2 image",
        "old": "no qcow2 image",
        "vmdk": "the size of vmdk images is not known here",
        "nothing": "the size of unnamed images is not known here",
    }
    formats = {"vmdk": "vmdk", "nothing": "", "fifo": "raw"}
    bad = [Disk(f"{tmp_path}/{name}", formats.get(name, "qcow2")) for name in reasons]
    good = image(tmp_path / "good", GIB)
    growth = Growth()
    assert measure(growth, [*bad, good]) == GIB - allocated(good)
    assert growth.skipped == {f"{tmp_path}/{name}": reason for name, reason in reasons.items()}
    assert measure(growth, [good]) == GIB - allocated(good)
    assert growth.skipped == {}


def test_devices_are_not_opened() -> None:
    growth = Growth()
    assert measure(growth, [Disk("/dev/null", "qcow2"), Disk("/dev/zero", "raw")]) == 0
    assert set(growth.skipped.values()) == {"no regular file"}


def test_the_size_of_a_file_that_may_not_be_read_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = image(tmp_path / "a", GIB)
    growth = Growth()
    # Root may read all files, whatever their mode.
    monkeypatch.setattr(posix, "open", forbidden)
    assert measure(growth, [secret]) == 0
    assert growth.skipped == {}
    assert growth.images[secret.path].virtual is None
    monkeypatch.undo()
    assert measure(growth, [secret]) == GIB - allocated(secret)


def test_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no image")
    disks = [Disk(f"{tmp_path}/text", "qcow2"), image(tmp_path / "a", GIB)]
    before = os.listdir("/proc/self/fd")
    measure(Growth(), disks)
    assert os.listdir("/proc/self/fd") == before


def test_what_green_threads_would_open_with_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # eventlet replaces it by one that must not be called in a native thread.
    monkeypatch.delattr(os, "open")
    disk = image(tmp_path / "a", GIB)
    assert measure(Growth(), [disk]) == GIB - allocated(disk)


@pytest.mark.parametrize(
    ("free", "growth", "least"),
    [(0, 0, 0), (GIB, 1, 0), (0, 1, 0), (0, GIB - 1, 0), (0, GIB, -1), (2 * GIB - 1, 0, 1)],
)
def test_parts_of_a_gib_are_cut_off(free: int, growth: int, least: int) -> None:
    assert available_least(free, growth) == least


@given(st.integers(0, 2**63), st.integers(0, 2**70))
def test_no_more_is_available_than_is_free(free: int, growth: int) -> None:
    least = available_least(free, growth)
    assert least <= free // GIB
    assert abs(free - growth - least * GIB) < GIB


def test_what_is_on_another_device_takes_nothing_here(tmp_path: Path) -> None:
    here = raw(tmp_path / "here", MIB)
    with NamedTemporaryFile(dir="/dev/shm") as elsewhere:
        os.chmod(elsewhere.name, 0)
        (tmp_path / "link").symlink_to(elsewhere.name)
        disks = [raw(Path(elsewhere.name), GIB), Disk(str(tmp_path / "link"), "qcow2"), here]
        growth = Growth()
        assert measure(growth, disks) == MIB - allocated(here)
    # Nor does anybody have to be able to read it.
    assert growth.skipped == {}
