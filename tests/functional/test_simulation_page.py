# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a simulation in a real browser."""

import subprocess
from pathlib import Path

import pytest

from tests.fixtures.browser import Browser
from tests.fixtures.daemons.process import PATIENCE
from tests.fixtures.deployment import BIN

HOSTILE = "<img src=x onerror=alert(1)> \u202etxet"
STACK = "[filter_scheduler]\nram_weight_multiplier = -1\n"
# Of the lines of the first and of the second configuration.
COLORS = {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)}
ARGUMENTS = (
    *("--hosts=12:16,65536,500", "--flavors=1:4096:10=3,4:32768:20,8:8192:40"),
    *("--arrivals=120", "--lifetime=1", "--seeds=2"),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a simulation of two configurations, of which one has a hostile name."""
    directory = tmp_path_factory.mktemp("page")
    configs = [directory / f"{name}.conf" for name in ("spread", HOSTILE)]
    for path, text in zip(configs, ("", STACK), strict=True):
        path.write_text(f"[DEFAULT]\nstate_path = {directory}\n{text}")
    found = directory / "page.html"
    command = [str(BIN / "berthmaster"), f"--config-file={configs[0]}", "simulate", *ARGUMENTS]
    command += [f"--html={found}", *(f"--config={path}" for path in configs)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    return found


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_fits_and_shows_all_it_has(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width, dark)
    assert browser.complaints() == []
    assert len(browser.texts("img")) == 6
    assert browser.texts("h2") == ["Over time", "What was refused"]
    spread, hostile = browser.texts("tbody tr:has(td:nth-child(11))")
    assert spread.startswith("spread 2 120 ")
    assert hostile.startswith(f"{HOSTILE} 2 120 ")
    picture = browser.picture()
    assert {color for _, color in picture.getcolors(picture.width * picture.height)} >= COLORS
    corner = picture.getpixel((2, 2))
    assert (max(corner) < 64) if dark else (min(corner) > 192)


def test_nothing_of_a_name_is_run(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("return document.querySelectorAll('img[src=x], script').length") == 0
    assert browser.texts("h3")[-1] == HOSTILE
