# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of figures as pages have them."""

import math

import pytest

from inventory.decisions import _first_hosts as saved_hosts
from scheduler.operators.status_pages.rendering import (
    amount,
    count,
    duration,
    first_hosts,
    plural,
    share,
    size,
)


def test_amounts_are_in_the_unit_of_reasons():
    assert [amount(each) for each in (0, 1536, 4096000.0)] == ["0 MB", "1536 MB", "4096000 MB"]
    here = {"vcpus": 1, "memory_mb": 2048}
    assert size({**here, "disk_mb": 20480}) == size({**here, "disk_gb": 20})
    assert size({**here, "disk_gb": 20}) == "1 vCPU, 2048 MB, 20480 MB of disk"


def test_what_is_unknown_is_empty():
    assert (amount(None), count(None)) == ("", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 %"),
        (0.004, "0.4 %"),
        (0.5, "50 %"),
        (0.996, "99.6 %"),
        (1.0, "100 %"),
        (1.3, "130 %"),
        (math.inf, "no limit"),
        (math.nan, "unknown"),
    ],
)
def test_nearly_nothing_and_nearly_all_are_neither(value, text):
    assert share(value) == text


@pytest.mark.parametrize(
    ("number", "shown", "more"),
    [
        (0, "", ""),
        (2, "compute-0, compute-1", ""),
        (3, "compute-0, compute-1", "and 1 more"),
        (98, "compute-0, compute-1", "and 96 more"),
    ],
)
def test_hosts_that_were_left_out_of_a_saved_text_are_counted(number, shown, more):
    text = saved_hosts([f"compute-{each}" for each in range(number)])
    assert len(text) <= 255
    assert first_hosts(text) == (shown, more)


def test_of_a_release_before_the_number_is_unknown():
    assert first_hosts("h1, h2, h3, ...") == ("h1, h2", "and more")
    assert first_hosts(None) == ("", "")


def test_numbers_agree_with_their_nouns():
    assert [plural(each, "host") for each in (0, 1, 2000)] == ["0 hosts", "1 host", "2,000 hosts"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (300, "5 min"), (9000, "2.5 h"), (400_000, "4.63 days")],
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text


def test_an_unknown_time_is_said_to_be_so():
    assert duration(None) == duration(math.inf) == "unknown"
