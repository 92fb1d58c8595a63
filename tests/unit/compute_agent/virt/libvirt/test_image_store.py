# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where images are no files, the size is that of their store, as a program prints it."""

import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from compute_agent.virt.driver import (
    DriverAnswerUnusable,
    DriverHung,
    DriverMisconfigured,
    DriverUnavailable,
)
from compute_agent.virt.libvirt import image_store
from compute_agent.virt.libvirt.domain_xml import Disk
from compute_agent.virt.libvirt.driver import LibvirtDriver
from compute_agent.virt.libvirt.image_store import REMEMBERED, CephPool, ImageStore, VolumeGroup
from tests.fixtures import agent
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.unit.compute_agent.virt.libvirt.library import a_host

GIB = 2**30
LVM = {"images_type": "lvm", "images_volume_group": "guests"}
RBD = {"images_type": "rbd", "images_rbd_pool": "vms", "rbd_user": "nova"}
# What ceph df prints, without what is not read.
CEPH = {
    "stats": {"total_bytes": 3000 * GIB, "total_avail_bytes": 2400 * GIB},
    "pools": [
        {"name": "rbd", "id": 1, "stats": {"bytes_used": 0, "max_avail": 1}},
        {"name": "vms", "id": 2, "stats": {"bytes_used": 600 * GIB, "max_avail": 760 * GIB}},
    ],
}

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function from a name and a line of shell to a program of that name."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def program(name: str, script: str) -> None:
        (programs / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{script}\n')
        (programs / name).chmod(0o755)

    return program


def nothing(_paths: Collection[str]) -> dict[str, int]:
    return {}


def ask(directory: Path) -> list[str]:
    """Return the arguments that the programs have been run with."""
    return (directory / "asked").read_text().splitlines()


def store(directory: Path, **options: Any) -> ImageStore:
    found = image_store.configured(agent.options(directory, libvirt=options))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["default", "raw", "flat", "qcow2", "ploop"])
def test_files_are_in_no_store(tmp_path: Path, kind: str) -> None:
    conf = agent.options(tmp_path, libvirt={"images_type": kind})
    assert image_store.configured(conf) is None


def test_the_size_of_a_volume_group(tmp_path: Path, install: Install) -> None:
    install("vgs", f"echo '  {100 * GIB}|{30 * GIB}'")
    thin = Disk("/dev/null", "raw")
    assert store(tmp_path, **LVM).look([thin], nothing) == (100, 30)
    assert ask(tmp_path) == [
        "--readonly --noheadings --nosuffix --separator | --units b -o vg_size,vg_free guests"
    ]


def test_the_size_of_a_cluster_and_what_a_pool_may_take_of_it(
    tmp_path: Path, install: Install
) -> None:
    install("ceph", f"echo '{json.dumps(CEPH)}'")
    assert store(tmp_path, **RBD).look([], nothing) == (3000, 760)
    assert store(tmp_path, images_type="rbd").look([], nothing) == (3000, 0)
    store(tmp_path, **RBD, images_rbd_ceph_conf="/etc/ceph/other.conf").look([], nothing)
    assert ask(tmp_path) == [
        "df --format=json --id nova",
        "df --format=json",
        "df --format=json --id nova --conf /etc/ceph/other.conf",
    ]


def test_the_driver_reports_it_and_says_so_at_the_start(
    tmp_path: Path, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("ceph", f"echo '{json.dumps(CEPH)}'")
    with caplog.at_level("INFO"):
        driver = LibvirtDriver(agent.options(tmp_path, libvirt=RBD), a_host().library)
    assert "local_gb is the size of pool vms of Ceph ([libvirt] images_rbd_pool)" in caplog.text
    (node,) = driver.nodes()
    found = driver.facts(node)
    assert (found.local_gb, found.disk_available_least) == (3000, 760)
    driver.close()


def test_a_volume_group_needs_a_name(tmp_path: Path) -> None:
    with pytest.raises(DriverMisconfigured, match=r"needs \[libvirt\] images_volume_group"):
        store(tmp_path, images_type="lvm")


def test_a_store_is_not_asked_at_each_event(tmp_path: Path, install: Install) -> None:
    moments = iter([0, REMEMBERED - 1, REMEMBERED, REMEMBERED + 1])
    group = VolumeGroup("guests", PATIENCE, lambda: next(moments))
    install("vgs", f"echo '{100 * GIB}|{30 * GIB}'")
    group.look([], nothing)
    install("vgs", f"echo '{100 * GIB}|{20 * GIB}'")
    assert [group.look([], nothing)[1] for _ in range(3)] == [30, 20, 20]


def test_a_program_that_fails_is_quoted(tmp_path: Path, install: Install) -> None:
    install("vgs", "echo '  Volume group \"guests\" not found' >&2; exit 5")
    group = store(tmp_path, **LVM)
    with pytest.raises(DriverUnavailable) as caught:
        group.look([], nothing)
    assert str(caught.value) == (
        "volume group guests ([libvirt] images_volume_group): vgs failed as user "
        f'{os.geteuid()}: Volume group "guests" not found'
    )
    install("vgs", "exit 5")
    with pytest.raises(DriverUnavailable, match="exit code 5"):
        group.look([], nothing)
    install("vgs", f"echo '{GIB}|0'")
    assert group.look([], nothing) == (1, 0)


def test_a_program_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DriverUnavailable, match=r"No such file .*in the package ceph-common"):
        store(tmp_path, **RBD).look([], nothing)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "no JSON", '{"pools": [], "stats": {"total_bytes": 1}}']
)
def test_an_answer_that_makes_no_sense(tmp_path: Path, install: Install, text: str) -> None:
    install("ceph", f"echo '{text}'")
    with pytest.raises(DriverAnswerUnusable, match=r"the answer to ceph df .* cannot be used"):
        store(tmp_path, **RBD).look([], nothing)


def test_a_program_that_hangs_is_ended(tmp_path: Path, install: Install) -> None:
    install("ceph", "exec sleep 1000")
    pool = CephPool("vms", None, "", 0.2)
    for _ in range(2):
        with pytest.raises(DriverHung, match=r"pool vms of Ceph .* has not answered for 0.2 s"):
            pool.look([], nothing)
    assert len(ask(tmp_path)) == 2


def test_close_ends_a_look(tmp_path: Path, install: Install) -> None:
    install("ceph", "exec sleep 1000")
    pool = CephPool("vms", None, "", PATIENCE)
    ends: list[Exception] = []

    def look() -> None:
        try:
            pool.look([], nothing)
        except DriverUnavailable as error:
            ends.append(error)

    thread = Thread(target=look)
    thread.start()
    assert wait_until((tmp_path / "asked").exists)
    began = time.monotonic()
    pool.close()
    thread.join(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    assert "is closed: the agent is stopping" in str(ends[0])
    with pytest.raises(DriverUnavailable, match=r"pool vms.* is closed"):
        pool.look([], nothing)
