# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that the Containerfile and Kolla's files agree with each other and with the packages."""

import configparser
import json
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "Containerfile").read_text()
DAEMONS = ["berthmaster-scheduler", "berthmaster-agent"]
# What Kolla's set_configs takes; it ends with an error for any other key of a file.
FILE_KEYS = {"source", "dest", "owner", "perm", "optional", "preserve_properties", "merge"}
PERMISSION_KEYS = {"path", "owner", "perm", "recurse"}


def kolla(daemon: str) -> Any:
    return json.loads((ROOT / "etc" / "kolla" / f"{daemon}.json").read_text())


def version() -> str:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["metadata"]["version"]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_kolla_starts_the_daemon_with_files_that_it_reads(daemon: str) -> None:
    config = kolla(daemon)
    assert config.keys() == {"command", "config_files", "permissions"}
    assert config["command"] == daemon
    scripts = distribution("berthmaster").entry_points.select(group="console_scripts")
    assert daemon in scripts.names
    required = [each["dest"] for each in config["config_files"] if not each.get("optional")]
    assert required == ["/etc/berthmaster/berthmaster.conf"]
    assert f"/etc/berthmaster/{daemon}.conf" in [each["dest"] for each in config["config_files"]]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_kolla_finds_all_that_it_needs_of_a_file(daemon: str) -> None:
    for each in kolla(daemon)["config_files"]:
        assert each.keys() <= FILE_KEYS
        assert each["source"].startswith("/var/lib/kolla/config_files/")
        # With group and without a right for others, since passwords are in there.
        assert (each["owner"], each["perm"]) == ("root:berthmaster", "0640")


@pytest.mark.parametrize("daemon", DAEMONS)
def test_kolla_sets_rights_of_directories_that_the_image_has(daemon: str) -> None:
    for each in kolla(daemon)["permissions"]:
        assert each.keys() <= PERMISSION_KEYS
        assert each["owner"] == "berthmaster:berthmaster"
        # Those of its logs are Kolla's own.
        path = each["path"]
        assert path.startswith("/var/log/kolla/") or re.search(
            rf"install -d .*{path}", CONTAINERFILE
        )


def test_the_image_has_the_user_of_the_packages_and_not_root() -> None:
    rules = (ROOT / "etc" / "sysusers.d" / "berthmaster.conf").read_text()
    (rule,) = (line for line in rules.splitlines() if line.startswith("u "))
    name, home = rule.split()[1], rule.split()[-1]
    assert f"--home-dir {home} " in CONTAINERFILE
    assert re.findall(r"^USER (.+)$", CONTAINERFILE, re.MULTILINE) == [name]


def test_the_image_is_labelled_with_this_release() -> None:
    assert f"ARG VERSION={version()}\n" in CONTAINERFILE


def test_the_image_takes_wheels_from_where_they_are_made() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "COPY build/wheels " in CONTAINERFILE
    assert "-w build/wheels " in makefile
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    assert [line for line in ignored if line[:1] != "#"] == ["*", "!build/wheels"]
