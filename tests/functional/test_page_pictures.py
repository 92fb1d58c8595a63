# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of the docs about pages: a real scheduler serves a fleet, Chromium shows it.

BERTHMASTER_PICTURES=doc/source/admin/status-pages in the environment keeps them.
"""

import os
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from tests.databases import a_uuid
from tests.fixtures import availability
from tests.fixtures.browser import Browser, a_browser
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.served_pages import serving
from tests.fixtures.shown_fleet import ShownFleet, host_names

VARIABLE = "BERTHMASTER_PICTURES"
DOCS = Path(__file__).parents[2] / "doc" / "source" / "admin" / "status-pages"
# By the name of the picture: address, width, whether it is dark, and the most pixels of height.
PICTURES = {
    "fleet": ("hosts/", 1100, False, 760),
    "fleet-dark": ("hosts/?group=aggregate", 1100, True, 760),
    "fleet-phone": ("hosts/", 360, False, 900),
    "host": ("hosts/compute-00012", 1100, False, 1000),
    "decisions": ("decisions/", 1280, False, 620),
    "refused": ("decisions/6", 1100, False, 1400),
    "placed": ("decisions/1", 1100, True, 1500),
    "capacity": ("capacity/", 1100, False, 520),
    "claims": ("claims/", 1100, False, 700),
    "services": ("services/", 1100, False, 1100),
    "instance": (f"instances/{a_uuid('web 0')}", 1100, False, 620),
    "search": ("search/?q=compute-0001", 1100, False, 620),
}
_COLORS = 160
# Bytes of a picture.
LARGEST = 120_000


def fleet(directory: Path) -> ShownFleet:
    """Return a fleet in three zones with some decisions, one of which found no host."""
    found, names = ShownFleet(directory), host_names(240)
    found.add_hosts(names)
    found.add_guests(names[:40])
    found.switch_off(names[4], names[9], names[7])
    found.decide(
        {"name": "web", "flavor": "m1.large", "instances": 3, "project_id": "shop"},
        {"name": "database", "flavor": "r1.xlarge", "project_id": "shop"},
        {"name": "cache", "project_id": "shop", "availability_zone": "east"},
        {"name": "builder", "flavor": "c1.huge", "instances": 2, "project_id": "ci"},
        {"name": "batch", "flavor": "m1.large", "instances": 5, "project_id": "render"},
        {
            "name": "scene",
            "flavor": "x1.whole",
            "project_id": "render",
            "availability_zone": "west",
        },
    )
    return found


def take(browser: Browser, address: str, width: int, dark: bool, height: int) -> Image.Image:
    """Return the upper part of a page with few colors, which makes small files."""
    browser.open(address, width, dark)
    assert browser.complaints() == [], address
    picture = browser.picture()
    upper = picture.crop((0, 0, picture.width, min(height, picture.height)))
    return upper.quantize(_COLORS, dither=Image.Dither.NONE)


@pytest.mark.release
def test_the_pictures_of_the_docs_are_of_these_pages(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    availability.require(availability.CHROMIUM)
    directory = Path(os.environ.get(VARIABLE) or tmp_path)
    directory.mkdir(exist_ok=True)
    with (
        closing(fleet(tmp_path)) as shown,
        serving(shown, rabbitmq) as pages,
        a_browser(tmp_path / "profile") as browser,
    ):
        for title, (path, *look) in PICTURES.items():
            picture = take(browser, pages.address + path, *look)
            picture.save(directory / f"{title}.png", optimize=True)
    assert {each.stem for each in DOCS.glob("*.png")} == {*PICTURES}
    for each in DOCS.glob("*.png"):
        with Image.open(each) as kept, Image.open(directory / each.name) as taken:
            assert kept.width == taken.width == PICTURES[each.stem][1]
        assert each.stat().st_size < LARGEST, each
