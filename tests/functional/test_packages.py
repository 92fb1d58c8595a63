# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The sdist and the wheel bring all that a machine needs: man pages, units, scripts, the role."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.fixtures.releases import TREE

# Sphinx runs our programs to write the man pages.
pytestmark = pytest.mark.release

# What makes the sample, which is installed in its place.
NOT_INSTALLED = {"broker.conf", "config-generator.conf"}
GUIDES = TREE / "doc" / "source" / "admin"
SCRIPTS = [GUIDES / "accounts.sh", GUIDES / "database.sql", GUIDES / "grants.sql"]
PAGES = {"berthmaster.1", "berthmaster-agent.8", "berthmaster-scheduler.8"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of what `make dist` makes, in a copy of the tree."""
    tree = tmp_path_factory.mktemp("dist") / "tree"
    ignored = (".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(TREE, tree, ignore=shutil.ignore_patterns(*ignored))
    # With the environment of the tests.
    command = ["make", "--old-file=venv", "dist", f"BIN={Path(sys.executable).parent}"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree / "dist"


def installed_files() -> dict[str, Path]:
    """Return the files of etc that are installed, with those that make accounts, by their names."""
    found = [each for each in (TREE / "etc").rglob("*") if each.is_file()]
    return {
        str(each.relative_to(TREE)): each
        for each in (*found, *SCRIPTS)
        if each.name not in NOT_INSTALLED
    }


def test_the_wheel_installs_them_into_a_fresh_environment(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    prefix = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", f"--python={prefix}/bin/python"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True)
    there = [each for each in prefix.rglob("*") if each.is_file()]
    contents = {(each.name, each.read_bytes()) for each in there}
    wanted = installed_files()
    expected = {(path.name, path.read_bytes()): name for name, path in wanted.items()}
    assert [name for content, name in expected.items() if content not in contents] == []
    pages = {str(each.relative_to(prefix)) for each in there if each.parent.name[:3] == "man"}
    assert pages == {f"share/man/man{name[-1]}/{name}" for name in PAGES}
    assert (prefix / "share/berthmaster/ansible/roles/berthmaster/tasks/main.yml").exists()
    assert (prefix / "lib/systemd/system/berthmaster-scheduler.service").exists()
    assert (prefix / "share/bash-completion/completions/berthmaster").exists()


def test_the_sdist_has_them_and_what_makes_them(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {*installed_files(), *(f"doc/man/{each}" for each in PAGES)}
    wanted |= {"Containerfile", ".containerignore", "Makefile", "etc/berthmaster/broker.conf"}
    assert wanted - names == set()
