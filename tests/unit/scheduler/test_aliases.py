# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.aliases: what plug-ins and callers imported before still works."""

import importlib
import sys
from operator import attrgetter
from types import ModuleType

import pytest

from scheduler.aliases import MODULES, NAMES
from scheduler.plugins import Option, _import


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Import former modules anew in each test."""
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("former", [name for name, present in MODULES.items() if present])
def test_a_former_module_gives_the_names_of_the_present_one(former: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"^{former} is now {MODULES[former]}$"):
        module = importlib.import_module(former)
    present = importlib.import_module(MODULES[former])
    public = [
        name
        for name, value in vars(present).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    assert public
    assert all(getattr(module, name) is getattr(present, name) for name in public)


@pytest.mark.parametrize("present", sorted(NAMES))
def test_a_former_name_is_the_present_class(present: str) -> None:
    former = next(name for name, now in MODULES.items() if now == present)
    with pytest.warns(DeprecationWarning, match=f"^{former} is now "):
        module = importlib.import_module(former)
    for name, now in NAMES[present].items():
        assert getattr(module, name) is attrgetter(now)(importlib.import_module(present))


def test_a_client_of_before_is_imported_as_it_was() -> None:
    with pytest.warns(DeprecationWarning, match=r"scheduler\.client\.scheduler_client"):
        from scheduler.rpc.client import SchedulerClient
    from scheduler.client.scheduler_client import SchedulerClient as Present

    assert SchedulerClient is Present


def test_a_class_path_of_before_in_an_option_still_finds_its_filter() -> None:
    option = Option("[filter_scheduler] enabled_filters", "nova.conf")
    with pytest.warns(DeprecationWarning, match=r"is now scheduler\.filters\.aggregate_limits$"):
        found = _import("scheduler.filters.aggregate_ram.AggregateRamFilter", option)
    assert found.__module__ == "scheduler.filters.aggregate_limits"


def test_other_names_are_still_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'scheduler\.rpc\.endpoint'"):
        importlib.import_module("scheduler.rpc.endpoint")
