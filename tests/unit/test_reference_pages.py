# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that the pages about filters, weighers and drivers name all of them and all options."""

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from conf import alignment, filter_scheduler, metrics, opts, trusted_computing
from scheduler.plugins import DRIVERS, FILTERS, WEIGHERS
from scheduler.request_filters import REQUEST_FILTERS

FOLDER = Path(__file__).parents[2] / "doc" / "source" / "reference"
PAGES = {name: (FOLDER / f"{name}.rst").read_text() for name in ("filters", "weighers", "drivers")}
ALL_PAGES = "\n".join(PAGES.values())
HEADING = re.compile(r"^(\S.*)\n-{3,}$", re.MULTILINE)
# A row of the table of filters: name, default, asked, rebuild.
ROW = re.compile(r"^(\w+) +(yes|no|bare metal) +(once|each) +(yes|no)\b", re.MULTILINE)
OPTIONS = {
    (group, option.name): option for group, options in opts.list_opts() for option in options
}


def installed(namespace: str) -> dict[str, Any]:
    """Return {name: class} of our own plug-ins, whatever others are installed here."""
    points = distribution("berthmaster").entry_points
    return {each.name: each.load() for each in points if each.group == namespace}


PLUGINS = {
    "filters": installed(FILTERS) | {each.__name__: each for each in REQUEST_FILTERS},
    "weighers": installed(WEIGHERS),
    "drivers": installed(DRIVERS),
}
EACH_PLUGIN = [(page, name) for page, plugins in PLUGINS.items() for name in plugins]


def section(page: str, name: str) -> str:
    """Return the text under a heading, up to the next one or one of the level above."""
    text = PAGES[page].split(f"\n{name}\n{'-' * len(name)}\n")[1]
    return re.split(r"\n\S.*\n[-=]{3,}\n", text)[0]


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def mentions(text: str, group: str, name: str) -> bool:
    """Tell whether a text names an option together with its default."""
    default = OPTIONS[group, name].default
    shown = "unset" if default is None else "empty" if default == [] else str(default)
    if isinstance(default, list) and default:
        shown = default[0]
    spellings = [f"[{group}] {name}", *([name] if group == "filter_scheduler" else [])]
    values = [f"({shown})", f"(``{shown}``)"]
    line = in_one_line(text)
    return any(f"``{spelling}`` {value}" in line for spelling in spellings for value in values)


def options_of_the_pages() -> Iterator[tuple[str, cfg.Opt]]:
    for module in (filter_scheduler, metrics, alignment, trusted_computing):
        group = module.__name__.removeprefix("conf.")
        yield from ((group, option) for option in module.OPTS)


@pytest.mark.parametrize("page", PAGES)
def test_every_plugin_has_a_heading_and_every_heading_a_plugin(page):
    assert sorted(HEADING.findall(PAGES[page])) == sorted(PLUGINS[page])


@pytest.mark.parametrize(("page", "name"), EACH_PLUGIN)
def test_the_section_of_a_plugin_names_its_options_with_their_defaults(page, name):
    plugin = PLUGINS[page][name]
    read = [(group, option) for _, group, option in plugin.options]
    read += [(group, option) for _, group, option in getattr(plugin, "parts", ())]
    # All of its group, which are read for it elsewhere.
    read += [each for each in OPTIONS if each[0] == "trusted_computing" and name == "TrustedFilter"]
    text = section(page, name)
    assert [each for each in read if not mentions(text, *each)] == []


def test_every_option_is_named_with_its_default():
    single = [
        (group, option.name)
        for group, option in options_of_the_pages()
        if not isinstance(option.default, list) or len(option.default) < 2
    ]
    assert [each for each in single if not mentions(ALL_PAGES, *each)] == []


@pytest.mark.parametrize("name", ["enabled_filters", "baremetal_enabled_filters"])
def test_lists_of_filters_are_complete_and_in_order(name):
    enabled = OPTIONS["filter_scheduler", name].default
    listed = ", ".join(f"``{each}``" for each in enabled)
    assert f"``{name}``" in PAGES["filters"]
    assert f": {listed} " in in_one_line(PAGES["filters"])


@pytest.mark.parametrize("page", PAGES)
def test_no_page_names_an_option_that_is_not_there(page):
    named = re.findall(r"``\[(\w+)\] (\w+)``", in_one_line(PAGES[page]))
    assert [each for each in named if each not in OPTIONS] == []


def test_the_table_of_filters_says_what_the_classes_say():
    enabled = OPTIONS["filter_scheduler", "enabled_filters"].default
    exact = OPTIONS["filter_scheduler", "baremetal_enabled_filters"].default

    def said(name: str, plugin: Any) -> tuple[str, str, str, str]:
        default = "yes" if name in enabled else "bare metal" if name in exact else "no"
        asked = "once" if plugin.run_filter_once_per_request else "each"
        return name, default, asked, "yes" if plugin.RUN_ON_REBUILD else "no"

    classes = installed(FILTERS)
    assert ROW.findall(PAGES["filters"]) == [said(name, classes[name]) for name in sorted(classes)]


@pytest.mark.parametrize("name", PLUGINS["weighers"])
def test_the_section_of_a_weigher_names_its_metadata_key(name):
    key, text = PLUGINS["weighers"][name].aggregate_key, in_one_line(section("weighers", name))
    if key is None:
        assert "no metadata key" in text
    else:
        assert f"``{key}``" in text
        assert "the metadata key" in text
