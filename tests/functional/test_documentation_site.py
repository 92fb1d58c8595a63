# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site, in a real browser: it fits, is legible, and fetches nothing."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.fixtures import availability
from tests.fixtures.browser import Browser
from tests.fixtures.daemons.process import PATIENCE, wait_until
from tests.fixtures.documented import ROOT, SOURCE

# Building the pages takes half a minute.
pytestmark = pytest.mark.release

# One page of each kind: diagrams, tables, commands, charts, pictures, generated references.
PAGES = [
    "index",
    "user/quickstart",
    "user/scheduling",
    "user/comparison",
    "admin/installation",
    "admin/agent",
    "admin/claims",
    "admin/explaining",
    "admin/draining",
    "admin/monitoring",
    "admin/performance",
    "admin/status-pages",
    "contributor/index",
    "plugins/index",
    "reference/commands",
    "reference/configuration",
    "reference/filters",
]
DIAGRAMS = len(list((SOURCE / "diagrams").glob("*.dot")))
# What an attribute of these elements names is fetched, as links to other sites are not.
FETCHED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "image": "href",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "srcset",
    "video": "src",
}
# These name other pages, for search engines and readers.
NOT_FETCHED = {"author", "canonical", "index", "next", "prev", "search", "top", "up"}
ELSEWHERE = re.compile(r"^\s*(?:\w+:)?//")
OF_STYLES = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])([^'")\s]+)""")
# The lowest contrast of a text with what is behind it, and what of a diagram does not fit its box.
LOOK = """
const luminance = text => {
  const [r, g, b] = text.match(/[\\d.]+/g).map(each => each / 255)
      .map(each => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, two) => {
  const [low, high] = [luminance(one), luminance(two)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const page = getComputedStyle(document.body).backgroundColor;
const shapes = "path, polygon, ellipse";
let lowest = 21, wide = [];
for (const text of document.querySelectorAll(".diagram text")) {
  const shape = text.closest(".node")?.querySelector(shapes);
  const behind = shape ? getComputedStyle(shape).fill : page;
  lowest = Math.min(lowest, contrast(getComputedStyle(text).fill, behind));
  if (shape && text.getBBox().width > shape.getBBox().width) wide.push(text.textContent);
}
return [lowest, wide];
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as make docs builds them."""
    availability.require(availability.GRAPHVIZ)
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "-b", "html"]
    subprocess.run(
        [*command, str(SOURCE), str(directory)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return directory


class Fetched(HTMLParser):
    """Collects the addresses that a page fetches without being asked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.found += OF_STYLES.findall(attributes.get("style") or "")
        kinds = set((attributes.get("rel") or "").split())
        if tag in FETCHED and not kinds & NOT_FETCHED:
            self.found.append(attributes.get(FETCHED[tag]) or "")


def fetched(path: Path) -> list[str]:
    """Return what a page or a style sheet fetches."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".css":
        return OF_STYLES.findall(text)
    parser = Fetched()
    parser.feed(text)
    return parser.found


def test_no_page_fetches_anything_from_another_site(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    found = {str(path.relative_to(site)): fetched(path) for path in files}
    assert sum(map(len, found.values())) > len(files)
    elsewhere = {
        name: there
        for name, each in found.items()
        if (there := [address for address in each if ELSEWHERE.match(address)])
    }
    assert elsewhere == {}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_and_all_of_it_is_shown(
    browser: Browser, site: Path, page: str, width: int, dark: bool
) -> None:
    browser.open(site / f"{page}.html", width, dark)
    assert browser.complaints() == []
    loaded = browser.run("return performance.getEntriesByType('resource').map(each => each.name)")
    assert [each for each in loaded if not each.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("dark", [False, True])
def test_diagrams_are_legible(browser: Browser, site: Path, dark: bool) -> None:
    shown = 0
    for page in PAGES:
        browser.open(site / f"{page}.html", dark=dark)
        lowest, wide = browser.run(LOOK)
        assert (lowest >= 4.5, wide) == (True, []), (page, lowest)
        described = browser.run(
            "return [...document.querySelectorAll('.diagram svg')].map(each => each.ariaLabel)"
        )
        assert all(len(each) > 80 for each in described)
        shown += len(described)
    assert shown == DIAGRAMS


def test_commands_can_be_copied_and_output_cannot(browser: Browser, site: Path) -> None:
    browser.open(site / "admin" / "explaining.html")
    counted = "return document.querySelectorAll('{}').length"
    commands = browser.run(counted.format(".highlight-shell"))
    assert commands > 5
    assert browser.run(counted.format(".highlight-shell .copybtn")) == commands
    assert browser.run(counted.format(".highlight-output .copybtn")) == 0


def test_the_search_finds_a_page(browser: Browser, site: Path) -> None:
    browser.open((site / "search.html").as_uri() + "?q=anti-affinity")
    shown = "return document.querySelectorAll('#search-results li').length"
    assert wait_until(lambda: browser.run(shown) > 0)
