# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Mounts are read from the kernel: a look at a file system that hangs would hang, too."""

import os
from pathlib import Path

import pytest

from compute_agent.virt.libvirt import storage
from compute_agent.virt.libvirt.storage import ROOT, Mount

TEXT = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:33 / /mnt rw,relatime - nfs server:/old rw
41 22 0:34 / /mnt/big\040disk rw - nfs server:/a\040b rw
42 22 0:35 / /mnt rw,relatime shared:9 master:1 - nfs4 server:/new rw
"""


def test_what_is_mounted_last_covers_what_was_there() -> None:
    assert storage.parse_mounts(TEXT) == {
        "/": Mount("/", "22"),
        "/mnt": Mount("/mnt", "42"),
        "/mnt/big disk": Mount("/mnt/big disk", "41"),
    }


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/mnt/big disk/a/b", "41"),
        ("/mnt/big disk", "41"),
        ("/mnt/big", "42"),
        ("/mnt/", "42"),
        ("/mntx/a", "22"),
        ("/", "22"),
        ("relative", "22"),
        ("", "22"),
        ("//", "22"),
    ],
)
def test_the_mount_of_a_path(path: str, number: str) -> None:
    assert storage.mount_of(path, storage.parse_mounts(TEXT)).number == number


def test_the_kernel_knows_what_is_read_mounts() -> None:
    found = storage.mount_of("/dev/shm/x", storage.read_mounts())
    assert found.point == "/dev/shm"
    assert os.path.ismount(found.point)


def test_without_a_word_of_the_kernel_all_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MOUNTINFO", tmp_path / "gone")
    assert storage.read_mounts() == {}
    assert storage.mount_of("/mnt/a", {}) is ROOT
