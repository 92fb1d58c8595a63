# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The image is built of the distribution's packages, and its programs run in it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import availability
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.machines import wheels
from tests.fixtures.machines.root import base_archive
from tests.fixtures.releases import TREE

pytestmark = pytest.mark.release

DAEMONS = ["berthmaster-scheduler", "berthmaster-agent"]


class Images:
    """Images and containers in a directory of their own, without a daemon or a registry."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run buildah, which needs neither a network of its own nor control groups for this."""
        store = ["--storage-driver=overlay", f"--root={self._directory}/store"]
        return subprocess.run(
            ["buildah", *store, f"--runroot={self._directory}/run", *arguments],
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * PATIENCE,
        )

    def checked(self, *arguments: str) -> str:
        """Return what buildah prints, the last line of it, where it succeeds."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
        return done.stdout.strip().rpartition("\n")[2]

    def inspected(self, image: str) -> Any:
        return json.loads(self.run("inspect", "--type=image", image).stdout)["Docker"]["config"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """A store with the image, built as the page says but for the base."""
    availability.require(availability.IMAGES)
    availability.require_root()
    directory = tmp_path_factory.mktemp("images")
    context = directory / "build" / "wheels"
    shutil.copytree(wheels.requirements(), context)
    wheels.wheel(TREE, context)
    found = Images(directory)
    base = found.checked("from", "scratch")
    found.checked("add", base, str(base_archive()), "/")
    found.checked("commit", "--rm", base, "base")
    build = ("build", "--isolation=chroot", "--format=docker", "--tag=berthmaster")
    file = f"--file={TREE / 'Containerfile'}"
    found.checked(*build, "--build-arg=BASE=localhost/base", file, str(directory))
    yield found
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def container(images: Images) -> Iterator[str]:
    """A container of the image in which commands are run."""
    name = images.checked("from", "localhost/berthmaster")
    yield name
    images.checked("rm", name)


def test_every_program_runs_in_it_as_an_ordinary_user(images: Images, container: str) -> None:
    for program in ("berthmaster", *DAEMONS):
        shown = images.checked("run", "--isolation=chroot", container, "--", program, "--version")
        assert shown.split()[-1] == "0.1.0"
    script = "import libvirt, os; print(os.getuid(), oct(os.stat('/etc/berthmaster').st_mode))"
    run = ("run", "--isolation=chroot", container, "--", "python", "-c")
    assert images.checked(*run, script).split() == ["42399", "0o40750"]
    read = "print(open('/etc/berthmaster/berthmaster.conf').readline())"
    assert "SPDX" in images.run(*run, read).stdout


def test_its_check_of_health_fails_where_no_daemon_runs(images: Images, container: str) -> None:
    config = images.inspected("localhost/berthmaster")
    kind, *command = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    done = images.run("run", "--isolation=chroot", container, "--", *command)
    assert done.returncode != 0
    assert "Connection refused" in done.stderr
    assert config["Cmd"] == ["berthmaster-scheduler"]
    assert config["User"] == "berthmaster"
    assert config["Labels"]["org.opencontainers.image.version"] == "0.1.0"
