# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.mysql_pool that need no server; others are in tests/contract/database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.converters import convert_datetime

from inventory.mysql_pool import _moment


@given(st.datetimes(), st.booleans())
def test_moments_are_read_as_ever(moment, fraction):
    text = moment.strftime("%Y-%m-%d %H:%M:%S").zfill(19) + (f".{moment:%f}" if fraction else "")
    assert (
        _moment(text)
        == convert_datetime(text)
        == moment.replace(microsecond=moment.microsecond if fraction else 0)
    )


@pytest.mark.parametrize("text", ["0000-00-00 00:00:00", "2026-02-30 00:00:00", "soon"])
def test_what_is_no_moment_is_what_it_was(text):
    assert _moment(text) == convert_datetime(text)
