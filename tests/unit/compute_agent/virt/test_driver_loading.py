# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Drivers are found by name, by Nova's name or by path; anything else is refused in one line."""

from pathlib import Path
from typing import Any

import pytest

from compute_agent.virt import driver_loading
from compute_agent.virt.driver import Driver, DriverMisconfigured
from compute_agent.virt.fake import FakeDriver
from tests.fixtures import agent


class Wanting(FakeDriver):
    """A driver that misses something."""

    def __init__(self, conf: Any) -> None:
        raise DriverMisconfigured("something is missing")


class Broken(FakeDriver):
    """A driver with a defect."""

    def __init__(self, conf: Any) -> None:
        raise KeyError("defect")


def load(directory: Path, name: str) -> Driver:
    return driver_loading.load(agent.options(directory, DEFAULT={"compute_driver": name}))


@pytest.mark.parametrize(
    "name",
    ["fake", "fake.FakeDriver", "nova.virt.fake.FakeDriver", "compute_agent.virt.fake.FakeDriver"],
)
def test_names_of_a_driver(tmp_path: Path, name: str) -> None:
    assert type(load(tmp_path, name)) is FakeDriver


@pytest.mark.parametrize("name", ["fak", "no.such.Driver", "compute_agent.virt.fake.Missing"])
def test_an_unknown_name_is_refused_with_the_choices(tmp_path: Path, name: str) -> None:
    with pytest.raises(DriverMisconfigured) as refusal:
        load(tmp_path, name)
    text = str(refusal.value)
    option = f"option [DEFAULT] compute_driver = '{name}' in {tmp_path}/"
    assert text.startswith(option)
    assert ".conf: there is no such driver" in text
    assert "installed: fake, libvirt" in text


def test_a_class_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DriverMisconfigured, match=r"no subclass of compute_agent\.virt\.driver"):
        load(tmp_path, "pathlib.Path")


def test_what_a_driver_misses_is_said_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(DriverMisconfigured, match=r"^something is missing$"):
        load(tmp_path, f"{__name__}.Wanting")


def test_a_defect_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(DriverMisconfigured, match=r"compute_driver = .*KeyError\('defect'\)"):
        load(tmp_path, f"{__name__}.Broken")
