# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of the docs about pages: a real scheduler serves a fleet, Chromium shows it.

The views of 3 hosts and of 2,000 have to fit on a phone, too.

BERTHMASTER_PICTURES=doc/source/admin/status-pages in the environment keeps them.
"""

import os
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from inventory.operations import service_operations
from tests.databases import a_uuid
from tests.fixtures import availability
from tests.fixtures.browser import Browser, a_browser
from tests.fixtures.daemons.process import wait_until
from tests.fixtures.daemons.rabbitmq import RabbitMQ
from tests.fixtures.served_pages import serving
from tests.fixtures.shown_fleet import ShownFleet, host_names

VARIABLE = "BERTHMASTER_PICTURES"
DOCS = Path(__file__).parents[2] / "doc" / "source" / "admin" / "status-pages"
FEW, MANY = 3, 2000
PHONE = 360
# Of MANY hosts, by the name of the picture: address, width, whether it is dark, and the most pixels
# of height.
PICTURES = {
    "fleet": ("hosts/", 1100, False, 760),
    "fleet-dark": ("hosts/?group=aggregate", 1100, True, 760),
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
# Several views side by side, by the name of the picture: hosts of the fleet, width and height of
# each view in the window, views in a row, and the share of this size that they have there.
SHEETS = {"three-hosts": (FEW, 860, 520, 2, 0.55), "phone": (MANY, PHONE, 760, 4, 0.6)}
ON_SHEETS = (
    *("hosts/", "hosts/?as=table", "hosts/compute-00001", "services/"),
    *("decisions/", "decisions/1", "capacity/", "claims/"),
)
VIEWS = (*ON_SHEETS, "decisions/6", "conflicts/", "search/?q=compute", "hosts/?state=disabled")
_COLORS = 160
# Bytes of a picture.
LARGEST = 120_000


def fleet(directory: Path, hosts: int) -> ShownFleet:
    """Return a fleet in three zones with some decisions, one of which found no host."""
    directory.mkdir()
    found, names = ShownFleet(directory), host_names(hosts)
    found.add_hosts(names)
    found.add_guests(names[:40])
    if hosts > FEW:
        found.switch_off(names[4], names[9], names[7])
    else:
        found.database.write(lambda c: service_operations.disable(c, names[2:], "new disks"))
    found.decide(
        {"name": "web", "flavor": "m1.large", "instances": 3, "project_id": "shop"},
        {"name": "database", "flavor": "r1.xlarge", "project_id": "shop"},
        {"name": "cache", "project_id": "shop", "availability_zone": "east"},
        {"name": "builder", "flavor": "c1.huge", "instances": 2, "project_id": "ci"},
        {"name": "batch", "flavor": "m1.large", "instances": 5, "project_id": "render"},
        {"name": "scene", "flavor": "x1.full", "project_id": "render", "availability_zone": "west"},
    )
    return found


def upper_part(browser: Browser, address: str, width: int, dark: bool, height: int) -> Image.Image:
    """Return the upper part of a page, which has to fit, without complaints of the browser."""
    complaints: list[str] = []

    def is_made() -> bool:
        browser.open(address, width, dark)
        complaints[:] = browser.complaints()
        # A busy machine may need another try, as that answer says.
        return not any("503 (Service Unavailable)" in each for each in complaints)

    assert wait_until(is_made), address
    assert complaints == [], (address, width)
    picture = browser.picture()
    return picture.crop((0, 0, picture.width, min(height, picture.height)))


def sheet(
    browser: Browser, root: str, width: int, height: int, row: int, share: float
) -> Image.Image:
    """Return views side by side, smaller than they are."""
    border = 20
    rows = -(-len(ON_SHEETS) // row)
    size = (row * (width + border) - border, rows * (height + border) - border)
    found = Image.new("RGB", size, "silver")
    for number, path in enumerate(ON_SHEETS):
        place = (number % row * (width + border), number // row * (height + border))
        found.paste(upper_part(browser, root + path, width, False, height), place)
    smaller = (round(share * size[0]), round(share * size[1]))
    return _few_colors(found.resize(smaller, Image.Resampling.LANCZOS), _COLORS // 2)


def _few_colors(picture: Image.Image, colors: int = _COLORS) -> Image.Image:
    """Return a picture whose file is small."""
    return picture.quantize(colors, dither=Image.Dither.NONE)


@pytest.mark.release
def test_the_pictures_of_the_docs_are_of_these_pages(tmp_path: Path, rabbitmq: RabbitMQ) -> None:
    availability.require(availability.CHROMIUM)
    directory = Path(os.environ.get(VARIABLE) or tmp_path)
    directory.mkdir(exist_ok=True)
    with a_browser(tmp_path / "profile") as browser:
        for hosts in (FEW, MANY):
            with (
                closing(fleet(tmp_path / str(hosts), hosts)) as shown,
                serving(shown, rabbitmq) as pages,
            ):
                for path in VIEWS:
                    upper_part(browser, pages.address + path, PHONE, True, 1)
                taken = {
                    title: sheet(browser, pages.address, *look)
                    for title, (size, *look) in SHEETS.items()
                    if size == hosts
                }
                for title, (path, *look) in PICTURES.items() if hosts == MANY else ():
                    taken[title] = _few_colors(upper_part(browser, pages.address + path, *look))
                for title, picture in taken.items():
                    picture.save(directory / f"{title}.png", optimize=True)
    assert {each.stem for each in DOCS.glob("*.png")} == {*PICTURES, *SHEETS}
    for each in DOCS.glob("*.png"):
        with Image.open(each) as kept, Image.open(directory / each.name) as taken_now:
            assert kept.width == taken_now.width
        assert each.stat().st_size < LARGEST, each
